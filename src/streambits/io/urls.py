"""URLs of servers: taken apart in one way, and shown without their secrets everywhere.

>>> shown("postgresql://me:secret@host:5432/database?table=codes&sslpassword=secret")
'postgresql://host:5432/database?table=codes'
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import quote, unquote

from streambits.errors import InputError

SCHEMES = ("postgresql", "postgres", "nats", "tls", "kafka")
SHOWN = ("table", "subject", "host", "hostaddr", "port", "dbname", "service")  # query items
HIDDEN = "..."
SHORTEST = 3  # letters of a secret that is looked for in messages of others

_URL = re.compile(rf"(\w+:)?({'|'.join(SCHEMES)}):", re.IGNORECASE)  # slashes may be missing
_SECRET = re.compile(r"pass|secret|token|credential", re.IGNORECASE)  # names of query items
_HOST = r"([\w.%-]*|\[[\w:.%]+\])(:\d{0,5})?"
_HOSTS = re.compile(rf"{_HOST}(,{_HOST})*")
_PORT = re.compile(r":(\d+)(?=,|$)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_PLAIN = re.compile(r"[\w.,:/%$~+-]*")  # what paths and values may have to be shown
ESCAPES = "write @ / ? & , as %40 %2F %3F %26 %2C where they are part of a name or a password"


class _Parts(NamedTuple):
    """A URL cut up, as it is written. An @ after the hosts makes it `unclear` what is secret."""

    scheme: str
    login: str
    hosts: str
    path: str
    items: list[tuple[str, str]]
    unclear: bool


class Url(NamedTuple):
    """A URL taken apart and decoded. hosts, path: as written, the path without its first slash.

    user, password: None where there is none. query: the items by name.
    """

    scheme: str
    user: str | None
    password: str | None
    hosts: str
    path: str
    query: dict[str, str]

    @classmethod
    def parse(cls, text: str, example: str) -> Self:
        """Take a URL apart; what cannot be is an error that shows how to write one."""
        parts = _cut(text)
        login, hosts, clear = _one_login(parts)
        readable = _SCHEME.fullmatch(parts.scheme) and _HOSTS.fullmatch(hosts)
        far = any(int(port) >= 2**16 for port in _PORT.findall(hosts))
        if parts.unclear or not clear or not readable or far:
            raise InputError(f"{shown(text)} is not a URL such as {example}: {ESCAPES}")
        user, colon, password = login.partition(":")
        return cls(
            parts.scheme,
            unquote(user) if user else None,
            unquote(password) if colon else None,
            hosts,
            parts.path.removeprefix("/"),
            {unquote(name): unquote(value) for name, value in parts.items},
        )

    def __str__(self) -> str:
        """The whole URL, for a client: with its secrets, all odd characters escaped."""
        login = quote(self.user or "", "")
        login += f":{quote(self.password, '')}" if self.password is not None else ""
        items = "&".join(f"{quote(k, '')}={quote(v, '')}" for k, v in self.query.items())
        at = "@" if login else ""
        question = "?" if items else ""
        return f"{self.scheme}://{login}{at}{self.hosts}/{self.path}{question}{items}"


def is_url(text: str) -> bool:
    """Whether a text is meant as a URL, even one without its slashes.

    >>> is_url("kafka:host/topic"), is_url("c:/folder"), is_url("codes.jsonl")
    (True, False, False)
    """
    return "://" in text or _URL.match(text) is not None


def shown(text: str) -> str:
    """A URL without its secrets: scheme, hosts, path, and query items that are known to be none.

    Who logs in is all that stands before the last @ of the authority. What cannot be told apart
    from a secret is left out, if need be everything but the scheme. A text that is not a URL stays
    as it is.

    >>> shown("nats://me:p@ss#word@host/stream"), shown("nats://me:a/b@host/stream")
    ('nats://host/stream', 'nats://...')
    """
    if not is_url(text):
        return text
    parts = _cut(text)
    scheme = parts.scheme if _SCHEME.fullmatch(parts.scheme) else HIDDEN
    if parts.unclear or not _HOSTS.fullmatch(parts.hosts):
        return f"{scheme}://{HIDDEN}"
    path = parts.path if _PLAIN.fullmatch(parts.path) else f"/{HIDDEN}"
    items = [f"{name}={shown_value(value)}" for name, value in parts.items if name in SHOWN]
    return f"{scheme}://{parts.hosts}{path}{'?' if items else ''}{'&'.join(items)}"


def shown_value(value: str) -> str:
    """A value of a URL, unless it has characters that no ordinary name has."""
    return value if _PLAIN.fullmatch(value) else HIDDEN


def secrets_in(text: str) -> tuple[str, ...]:
    """Passwords and tokens in a URL, as written and decoded; none in a text that is not a URL.

    >>> secrets_in("nats://me:a%40b@host/stream")
    ('a%40b', 'a@b')
    """
    if not is_url(text):
        return ()
    parts = _cut(text)
    login = _rest(text).rpartition("@")[0] if parts.unclear else parts.login
    user, colon, password = login.partition(":")
    found = [password if colon else user] if colon or parts.scheme in ("nats", "tls") else []
    found += [value for name, value in parts.items if _SECRET.search(unquote(name))]
    return tuple(dict.fromkeys(form for one in found if one for form in (one, unquote(one))))


def without(message: object, secrets: Iterable[str]) -> str:
    """What a library said, in one line, with secrets replaced; very short ones are not looked for.

    >>> without("no host 'hunter2@x'", ["hunter2"])
    "no host '...@x'"
    """
    text = str(message)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    return " ".join(text.split()) or type(message).__name__


def without_urls(message: str, texts: Iterable[str]) -> str:
    """A message with those of the texts that are URLs shown without their secrets.

    Texts may be arguments such as --to=URL, and a path that was made of a URL has lost a slash.

    >>> without_urls("nats:/me:hunter2@host/x does not exist", ["nats://me:hunter2@host/x"])
    'nats://host/x does not exist'
    """
    for text in texts:
        url = text.partition("=")[2] if text.startswith("--") else text
        if is_url(url):
            for form in (url, str(Path(url)), repr(url)[1:-1]):
                message = message.replace(form, shown(url))
    return message


def _cut(text: str) -> _Parts:
    """Cut before anything is decoded. Hosts end at the first / or ?; # has no meaning here."""
    scheme, rest = text.partition(":")[0], _rest(text)
    if "://" in text:
        scheme = text.partition("://")[0]
    end = next((i for i, letter in enumerate(rest) if letter in "/?"), len(rest))
    authority, after = rest[:end], rest[end:]
    login, _, hosts = authority.rpartition("@")
    path, _, query = after.partition("?")
    items = [item.partition("=")[::2] for item in query.split("&") if item]
    several = text.count("://") > 1 and "@" in text
    return _Parts(scheme, login, hosts, path, items, "@" in after or "://" not in text or several)


def _one_login(parts: _Parts) -> tuple[str, str, bool]:
    """Who logs in, the hosts, and whether that is clear: each host may repeat the same login."""
    each = [one.rpartition("@") for one in f"{parts.login}@{parts.hosts}".split(",")]
    if len(each) == 1 or not all(at for _, at, _ in each):
        return parts.login, parts.hosts, True
    return each[0][0], ",".join(host for *_, host in each), len({one for one, *_ in each}) == 1


def _rest(text: str) -> str:
    """What comes after the scheme."""
    return text.partition("://")[2] if "://" in text else text.partition(":")[2].lstrip("/")
