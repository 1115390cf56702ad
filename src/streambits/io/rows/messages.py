"""Messages of a broker as rows: one row a message, JSON or raw numbers."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LARGEST, as_choice, as_count
from streambits.io.bad_rows import fault, id_fault
from streambits.model.batches import Reject, RowBatch

FORMATS = ("json", "f4")
SHOWN = 200  # characters of a message that cannot be used
NUMBERS = {int, float}


class Message(NamedTuple):
    """id: for a row that brings none; where: for a reject; data: as it came."""

    id: int
    where: str
    data: bytes


class _UnusableError(Exception):
    """Why a message is no row."""


class Parser:
    """Turns messages into rows, and what cannot be used into rejects.

    format: 'json', an array of numbers or an object such as {"id": 7, "row": [0.5, 1.5]}, where
    a message without an id has its place in the stream as its id; or 'f4', the bytes of
    little-endian numbers in single precision. id_key, row_key: the names in an object.
    columns: of every row; by default as many as the first row that can be used has.
    """

    def __init__(
        self,
        format: str = "json",  # noqa: A002 - what users call it
        *,
        id_key: str = "id",
        row_key: str = "row",
        columns: int | None = None,
    ) -> None:
        self.format = as_choice(format, "format", FORMATS)
        self.id_key, self.row_key = id_key, row_key
        self.columns = None if columns is None else as_count(columns, "columns")

    def identity(self) -> dict[str, Any]:
        """What decides which rows come of the messages, for the identity of a source."""
        names = ("format", "id_key", "row_key", "columns")
        return {name: getattr(self, name) for name in names}

    def again(self, columns: int | None) -> "Parser":
        """One with the same settings, for columns that are known from before."""
        known = self.columns if columns is None else columns
        return Parser(self.format, id_key=self.id_key, row_key=self.row_key, columns=known)

    def chunk(
        self, messages: Iterable[Message], place: dict[str, Any], lost: Iterable[Reject] = ()
    ) -> RowBatch:
        """The rows of messages in their order.

        place: where to go on, to which the columns are added; lost: rejects that come first.
        """
        ids, rows, rejects = [], [], list(lost)
        for message in messages:
            try:
                name, row = self._row(message)
            except _UnusableError as reason:
                rejects.append(Reject(message.where, str(reason), _shown(message.data)))
            else:
                ids.append(name)
                rows.append(row)
        dtype = np.float32 if self.format == "f4" else np.float64
        held = np.array(rows, dtype) if rows else np.empty((0, self.columns or 0), dtype)
        offset = {**place, "columns": self.columns}
        return RowBatch(np.array(ids, np.int64), held, offset, tuple(rejects))

    def _row(self, message: Message) -> tuple[int, NDArray[Any]]:
        if not message.data:
            raise _UnusableError("the message is empty")
        if self.format == "f4":
            name, values = message.id, _raw(message.data)
        else:
            name, values = self._parsed(message)
        row = _numbers(values)
        if row is None or self.columns not in (None, len(row)):
            known = values.tolist() if isinstance(values, np.ndarray) else values
            raise _UnusableError(fault(known, self.columns))
        self.columns = len(row)
        return name, row

    def _parsed(self, message: Message) -> tuple[int, Any]:
        try:
            value = json.loads(message.data)
        except (ValueError, RecursionError) as error:
            raise _UnusableError(f"it is no JSON: {error}") from None
        name: Any = message.id
        if isinstance(value, dict):
            if self.row_key not in value:
                raise _UnusableError(f"it has no {self.row_key!r}, but {', '.join(value)}")
            name, value = value.get(self.id_key, name), value[self.row_key]
        wrong = id_fault(name)
        if wrong:
            raise _UnusableError(wrong)
        return name, value


def _raw(data: bytes) -> NDArray[np.float32]:
    if len(data) % 4:
        raise _UnusableError(f"{len(data)} bytes are no whole number of 4-byte numbers")
    return np.frombuffer(data, "<f4")


def _numbers(values: Any) -> NDArray[Any] | None:
    """Values as a row, if they are some numbers of a size that can be used."""
    if isinstance(values, list) and values and set(map(type, values)) <= NUMBERS:
        try:
            values = np.array(values, np.float64)
        except OverflowError:
            return None
    if not isinstance(values, np.ndarray):
        return None
    limit = LARGEST if values.dtype == np.float64 else np.inf
    return values if bool((np.abs(values) < limit).all()) else None  # false for NaN


def _shown(data: bytes) -> str:
    return data[:SHOWN].decode("utf-8", "backslashreplace")
