"""URLs of servers: taken apart in one way, and shown without their secrets everywhere.

>>> redact_url("postgresql://me:secret@host:5432/database?table=codes&sslpassword=secret")
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
ESCAPES = "write @ / ? & , as %40 %2F %3F %26 %2C where they are part of a name or a password"

_MEANT = re.compile(rf"(\w+:)?({'|'.join(SCHEMES)}):", re.IGNORECASE)  # slashes may be missing
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
_HOST = r"(?:[\w.%-]*|\[[\w:.%]+\])(?::\d{0,5})?"
_URL = re.compile(
    rf"({_SCHEME})://(?:([^/?@]*)@)?({_HOST}(?:,{_HOST})*)(?:/([^?@]*))?(?:\?([^@]*))?"
)
_PORT = re.compile(r":(\d+)(?=,|$)")
_SECRET = re.compile(r"pass|secret|token|credential", re.IGNORECASE)  # names of query items
_PLAIN = re.compile(r"[\w.,:/%$~+-]*")  # what paths and values may have to be shown


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
        """Take a URL apart; what cannot be is an error that shows how to write one.

        One login stands before all hosts, and the only @ is behind it: where there is another,
        nobody can tell what is secret.
        """
        parts = _URL.fullmatch(text)
        if parts is None or any(int(port) >= 2**16 for port in _PORT.findall(parts[3])):
            raise InputError(f"{redact_url(text)} is not a URL such as {example}: {ESCAPES}")
        scheme, login, hosts, path, query = parts.groups("")
        user, colon, password = login.partition(":")
        items = [item.partition("=")[::2] for item in query.split("&") if item]
        return cls(
            scheme,
            unquote(user) if user else None,
            unquote(password) if colon else None,
            hosts,
            path,
            {unquote(name): unquote(value) for name, value in items},
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
    return "://" in text or _MEANT.match(text) is not None


def redact_url(text: str) -> str:
    """A URL without its secrets: scheme, hosts, path, and query items that are known to be none.

    Of what is not a URL as `Url.parse` takes it, only the scheme is shown. A text that is not
    meant as one stays as it is.

    >>> redact_url("nats://me:p#word@host/stream"), redact_url("nats://me:a@b@host/stream")
    ('nats://host/stream', 'nats://...')
    """
    if not is_url(text):
        return text
    parts = _URL.fullmatch(text)
    if parts is None:
        typed = re.match(rf"{_SCHEME}(?=:)", text)
        return f"{typed[0] if typed else HIDDEN}://{HIDDEN}"
    scheme, _, hosts, path, query = parts.groups("")
    items = [item.partition("=")[::2] for item in query.split("&")]
    shown = "&".join(f"{name}={redact_value(value)}" for name, value in items if name in SHOWN)
    slash = "/" if parts[4] is not None else ""
    path = path if _PLAIN.fullmatch(path) else HIDDEN
    return f"{scheme}://{hosts}{slash}{path}{'?' if shown else ''}{shown}"


def redact_value(value: str) -> str:
    """A value of a URL, unless it has characters that no ordinary name has."""
    return value if _PLAIN.fullmatch(value) else HIDDEN


def secrets_in(text: str) -> tuple[str, ...]:
    """Passwords and tokens in a URL, as written and decoded; none in a text that is not one.

    >>> secrets_in("nats://me:a%40b@host/stream")
    ('a%40b', 'a@b')
    """
    parts = _URL.fullmatch(text)
    if parts is None:
        return ()
    scheme, login, _, _, query = parts.groups("")
    user, colon, password = login.partition(":")
    secrets = [password if colon else user if scheme in ("nats", "tls") else ""]
    items = [item.partition("=")[::2] for item in query.split("&")]
    secrets += [value for name, value in items if _SECRET.search(unquote(name))]
    return tuple(dict.fromkeys(form for one in secrets if one for form in (one, unquote(one))))


def redact(message: object, secrets: Iterable[str]) -> str:
    """What a library said, in one line, with secrets replaced; very short ones are not looked for.

    >>> redact("no host 'hunter2@x'", ["hunter2"])
    "no host '...@x'"
    """
    text = str(message)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    return " ".join(text.split()) or type(message).__name__


def redact_urls(message: str, texts: Iterable[str]) -> str:
    """A message with those of the texts that are URLs shown without their secrets.

    Texts may be arguments such as --to=URL, and a path that was made of a URL has lost a slash.

    >>> redact_urls("nats:/me:hunter2@host/x does not exist", ["nats://me:hunter2@host/x"])
    'nats://host/x does not exist'
    """
    for text in texts:
        url = text.partition("=")[2] if text.startswith("--") else text
        if is_url(url):
            for form in (url, str(Path(url)), repr(url)[1:-1]):
                message = message.replace(form, redact_url(url))
    return message
