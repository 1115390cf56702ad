"""Messages of a broker as rows, one row per message, and what sources of messages share."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LARGEST, as_choice, as_count, as_number
from streambits.errors import InputError
from streambits.io.bad_rows import BadRowError, why_bad, why_bad_id
from streambits.io.retry import DEFAULT, Retry
from streambits.model.batches import Reject, RowBatch

MESSAGE_FORMATS = ("json", "f4")
SHOWN = 200  # characters of a message that its reject shows
NUMBERS = {int, float}


class Message(NamedTuple):
    """id: for a row without its own; where: for a reject; data: as it came."""

    id: int
    where: str
    data: bytes


Fetched = tuple[list[Message], tuple[Reject, ...]]  # and what was lost before them


class MessageParser:
    """Turns messages into rows, and those that cannot be used into rejects.

    Parameters
    ----------
    format
        'json': an array of numbers, or an object such as {"id": 7, "row": [0.5, 1.5]}; a message
        without an id has its place in the stream as its id. 'f4': the bytes of little-endian
        numbers in single precision.
    id_key, row_key
        The names of the id and of the numbers in an object.
    columns
        Numbers per row; by default as many as the first good row has.
    """

    def __init__(
        self,
        format: str = "json",  # noqa: A002 - what users call it
        *,
        id_key: str = "id",
        row_key: str = "row",
        columns: int | None = None,
    ) -> None:
        self.format = as_choice(format, "format", MESSAGE_FORMATS)
        self.id_key, self.row_key = id_key, row_key
        self.columns = None if columns is None else as_count(columns, "columns")

    def identity(self) -> dict[str, Any]:
        """What decides which rows come from the messages, for the identity of a source."""
        names = ("format", "id_key", "row_key", "columns")
        return {name: getattr(self, name) for name in names}

    def resumed(self, columns: int | None) -> "MessageParser":
        """A parser with the same settings, for rows whose width an offset has recorded."""
        width = self.columns if columns is None else columns
        return MessageParser(self.format, id_key=self.id_key, row_key=self.row_key, columns=width)

    def batch(
        self, messages: Iterable[Message], place: dict[str, Any], lost: Iterable[Reject] = ()
    ) -> RowBatch:
        """The rows of messages, in order.

        Parameters
        ----------
        messages
            As the broker delivered them.
        place
            Where to resume; the number of columns is added to it.
        lost
            Rejects that come before those of the messages.
        """
        ids, rows, rejects = [], [], list(lost)
        for message in messages:
            try:
                name, row = self._row(message)
            except BadRowError as reason:
                text = message.data[:SHOWN].decode("utf-8", "backslashreplace")
                rejects.append(Reject(message.where, str(reason), text))
            else:
                ids.append(name)
                rows.append(row)
        dtype = np.float32 if self.format == "f4" else np.float64
        together = np.array(rows, dtype) if rows else np.empty((0, self.columns or 0), dtype)
        offset = {**place, "columns": self.columns}
        return RowBatch(np.array(ids, np.int64), together, offset, tuple(rejects))

    def _row(self, message: Message) -> tuple[int, NDArray[Any]]:
        if not message.data:
            raise BadRowError("the message is empty")
        if self.format == "f4":
            name, values = message.id, _raw(message.data)
        else:
            name, values = self._parsed(message)
        row = _numbers(values)
        if row is None or self.columns not in (None, len(row)):
            plain = values.tolist() if isinstance(values, np.ndarray) else values
            raise BadRowError(why_bad(plain, self.columns))
        self.columns = len(row)
        return name, row

    def _parsed(self, message: Message) -> tuple[int, Any]:
        try:
            value = json.loads(message.data)
        except (ValueError, RecursionError) as error:
            raise BadRowError(f"it is not JSON: {error}") from None
        name: Any = message.id
        if isinstance(value, dict):
            if self.row_key not in value:
                raise BadRowError(f"it has no {self.row_key!r}, but {', '.join(value)}")
            name, value = value.get(self.id_key, name), value[self.row_key]
        wrong = why_bad_id(name)
        if wrong:
            raise BadRowError(wrong)
        return name, value


def _raw(data: bytes) -> NDArray[np.float32]:
    if len(data) % 4:
        raise BadRowError(f"{len(data)} bytes are not a whole number of 4-byte numbers")
    return np.frombuffer(data, "<f4")


def _numbers(values: Any) -> NDArray[Any] | None:
    """Values as a row, if they are numbers of a size that can be used."""
    if isinstance(values, list) and values and set(map(type, values)) <= NUMBERS:
        try:
            values = np.array(values, np.float64)
        except OverflowError:
            return None
    if not isinstance(values, np.ndarray):
        return None
    limit = LARGEST if values.dtype == np.float64 else np.inf
    return values if bool((np.abs(values) < limit).all()) else None  # false for NaN


class BrokerOptions(TypedDict, total=False):
    """What every broker source takes, besides where it reads."""

    rows: int
    follow: bool
    idle: float | None
    retry_seconds: float
    format: str
    id_key: str
    row_key: str
    columns: int | None


class BrokerSource:
    """What sources of messages share.

    Parameters
    ----------
    name
        Of the source, without secrets.
    secrets
        Texts that are taken out of the client's messages.
    rows
        Messages per batch, at most, which bounds the memory.
    follow
        Whether to wait for more messages without end.
    idle
        Wait for more messages, and end after so many seconds without one.
    retry_seconds
        Seconds that a server may be away.
    format, id_key, row_key, columns
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
        format: str = "json",  # noqa: A002 - what users call it
        id_key: str = "id",
        row_key: str = "row",
        columns: int | None = None,
    ) -> None:
        self.name, self.secrets = name, secrets
        self.rows = as_count(rows, "rows")
        self.idle = None if idle is None else as_number(idle, "idle", least=0)
        self.follow = follow or idle is not None
        self.retry_seconds = Retry(retry_seconds, name, secrets).seconds
        self.parser = MessageParser(format, id_key=id_key, row_key=row_key, columns=columns)
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
