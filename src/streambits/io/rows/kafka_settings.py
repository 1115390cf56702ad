"""Settings of librdkafka, such as who logs in, from the environment and from a file."""

import logging
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from streambits.errors import InputError, StorageError

PREFIX = "STREAMBITS_KAFKA_"  # of variables, such as STREAMBITS_KAFKA_SASL_PASSWORD
PROPERTIES = f"{PREFIX}PROPERTIES"  # the variable that names a file
SECRET = (  # in names of librdkafka's settings
    "password",
    "secret",
    "jaas",
    "key.pem",
    "token",
    "oauthbearer.config",
    "user.info",
)
OURS = (  # what the source relies on; files that are made for other clients often have them too
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "auto.offset.reset",
    "allow.auto.create.topics",
)
JAAS = "sasl.jaas.config"  # how Java's clients write who logs in
_LOGIN = re.compile(r"""\b(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)')""")

logger = logging.getLogger("streambits")


class Properties(NamedTuple):
    """Settings of a file by name, and the place of each in it."""

    settings: dict[str, str]
    places: dict[str, str]

    @classmethod
    def load(cls, path: str | Path) -> "Properties":
        """Read name=value lines.

        Blank lines and those that begin with # or ! say nothing; what a source sets itself, such
        as bootstrap.servers, is left out. A value is what stands after the first =, without the
        blanks around it; it has no escapes.

        Raises
        ------
        StorageError
            If the file cannot be read.
        InputError
            If a line cannot; with its number, but without what it says.
        """
        found = cls({}, {})
        for number, line in enumerate(_lines(path), 1):
            if line and line[0] not in "#!":
                found._take(line, f"{path}, line {number}")
        if secrets_of(found.settings):
            _warn_if_others_can_read(path)
        return found

    def _take(self, line: str, place: str) -> None:
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or not equals or " " in name:
            raise InputError(f"{place}: it must be name=value, such as sasl.username=me")
        if value.endswith("\\"):
            raise InputError(
                f"{place}: it ends in a \\, which may mean that it goes on: write {name} in one "
                f"line, or set it by the variable {_variable(name)}"
            )
        new = _login(value, place) if name == JAAS else {name: value}
        new = {one: value for one, value in new.items() if one not in OURS}
        self.settings.update(new)
        self.places.update(dict.fromkeys(new, place))


def client_settings(variables: Mapping[str, str]) -> dict[str, str]:
    """Settings of librdkafka in the environment: small letters, dots instead of underscores.

    >>> client_settings({"STREAMBITS_KAFKA_SASL_USERNAME": "me", "HOME": "/"})
    {'sasl.username': 'me'}
    """
    return {
        name.removeprefix(PREFIX).lower().replace("_", "."): value
        for name, value in variables.items()
        if name.startswith(PREFIX) and name != PROPERTIES and value
    }


def secrets_of(settings: Mapping[str, object]) -> tuple[str, ...]:
    """Values that must not be shown.

    >>> secrets_of({"sasl.username": "me", "sasl.password": "hunter2"})
    ('hunter2',)
    """
    return tuple(str(v) for name, v in settings.items() if any(s in name for s in SECRET))


def _lines(path: str | Path) -> Iterable[str]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StorageError(f"{path}, with settings of Kafka, cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: it is not UTF-8 text") from None
    return (line.strip() for line in text.split("\n"))


def _login(value: str, place: str) -> dict[str, str]:
    """Who logs in, out of a line that is meant for Java's clients."""
    found = {name: one or other for name, one, other in _LOGIN.findall(value)}
    if len(found) < 2:  # a name and a password
        raise InputError(
            f"{place}: {JAAS} must have a username and a password in quotes; other ways to log in "
            f"need librdkafka's own settings, such as sasl.username"
        )
    return {f"sasl.{name}": text for name, text in found.items()}


def _variable(name: str) -> str:
    return PREFIX + name.upper().replace(".", "_")


def _warn_if_others_can_read(path: str | Path) -> None:
    if os.name == "posix" and Path(path).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        logger.warning(
            "%s has a password and can be read by other users: chmod 600 makes it yours alone", path
        )
