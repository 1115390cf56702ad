"""What sources of messages share: their options, waiting for a server, and offsets."""

from typing import Any

from streambits._arrays import as_count, as_number
from streambits.errors import InputError
from streambits.io.retry import DEFAULT, Retry
from streambits.io.rows.message_parser import MessageParser

LARGE_MESSAGES = 32  # per batch, where a message has many rows


class BrokerSource:
    """What sources of messages share.

    Parameters
    ----------
    name
        Of the source, without secrets.
    secrets
        Texts that are taken out of the client's messages.
    rows
        Messages per batch, at most; where a message has many rows, at most 32. A batch holds whole
        messages, so that an offset is always one between two of them.
    follow
        Whether to wait for more messages without end.
    idle
        Wait for more messages, and end after so many seconds without one.
    retry_seconds
        Seconds that a server may be away.
    **options
        See `MessageParser`.
    """

    def __init__(
        self,
        name: str,
        secrets: tuple[str, ...] = (),
        *,
        rows: int = 1024,
        follow: bool = False,
        idle: float | None = None,
        retry_seconds: float = DEFAULT,
        **options: Any,
    ) -> None:
        self.name, self.secrets = name, secrets
        self.parser = MessageParser(**options)
        self.rows = as_count(rows, "rows")  # of JSON, a message is a row
        if self.parser.format != "json":
            self.rows = min(self.rows, LARGE_MESSAGES)
        self.idle = None if idle is None else as_number(idle, "idle", least=0)
        self.follow = follow or idle is not None
        self.retry_seconds = Retry(retry_seconds, name, secrets).seconds
        self.lag: int | None = None  # messages not yet read; None before the first

    @property
    def length(self) -> None:
        """Not known: a stream grows."""

    def retry(self) -> Retry:
        """How long this source waits for its server."""
        return Retry(self.retry_seconds, self.name, self.secrets)

    def checked_offset(self, offset: Any, kind: type) -> dict[str, Any]:
        """An offset of this source, empty for the beginning; its "next" must be of a kind."""
        if offset is None:
            return {}
        if isinstance(offset, dict) and isinstance(offset.get("next"), kind) and "end" in offset:
            return offset
        raise InputError(f"{offset!r} is not an offset of {self.name}")
