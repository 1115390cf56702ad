"""Messages of a broker as rows and removals, one of either per message."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LARGEST, TEXT, Ids, as_choice, as_count
from streambits.errors import InputError
from streambits.io.bad_rows import BadRowError, why_bad, why_bad_id
from streambits.model.batches import Reject, Removals, RowBatch

MESSAGE_FORMATS = ("json", "f4")
BY_KEY = ("@key", "@key:text")  # instead of a name: the key of a Kafka message is its id
ROW = "row"  # where the numbers are, unless something else is said or seen
SHOWN = 200  # characters of a message that its reject shows
NUMBERS = {int, float}
YES, NO = (True, "true"), (False, "false", None)  # marks of removal; Debezium writes texts
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as a number is written; 007 is a text


class Message(NamedTuple):
    """id: for a row without its own; where: for a reject; data: as it came, None for a tombstone.

    key: of a Kafka message, if it has one.
    """

    id: int
    where: str
    data: bytes | None
    key: bytes | None = None


Columns = int | str | Sequence[str] | None  # how many numbers, or the name of their list
Fetched = tuple[list[Message], tuple[Reject, ...]]  # and what was lost before them


class _Event(NamedTuple):
    """What a message says. row: None for a removal; key: where the row was in an object.

    placed: whether the id is the message's place, because it has no other.
    """

    id: Any
    row: NDArray[Any] | None = None
    key: str = ROW
    kept: tuple[str | None, ...] = ()
    placed: bool = False


class MessageParser:
    """Turns messages into rows and removals, and those that cannot be used into rejects.

    Parameters
    ----------
    format
        'json': an array of numbers, or an object such as {"id": 7, "row": [0.5, 1.5]}; a message
        without an id has its place in the stream as its id. 'f4': the bytes of little-endian
        numbers in single precision.
    id_key
        The name of the id in an object; or '@key', the key of a Kafka message: a whole number if
        the first one is, else a text; or '@key:text', the same but always a text.
    row_key
        The name of the numbers in an object. By default 'row' if the first good message has it,
        else the only list of numbers in it.
    columns
        Numbers per row; by default as many as the first good row has. Or instead of `row_key` the
        name of the numbers.
    keep
        Names of further values of an object, which become the payload.
    removed
        The name of a mark in an object: true if its id is to be removed.

    Notes
    -----
    A null instead of the numbers removes the id, and so does a tombstone of Kafka, a message
    without a value whose key is the id. The first good message decides what the others must be
    like: width, name of the numbers, kind of ids.
    """

    def __init__(
        self,
        format: str = "json",  # noqa: A002 - what users call it
        *,
        id_key: str = "id",
        row_key: str | None = None,
        columns: Columns = None,
        keep: str | Sequence[str] = (),
        removed: str | None = None,
    ) -> None:
        self.format = as_choice(format, "format", MESSAGE_FORMATS)
        name, width = _name_or_width(columns)
        if self.format == "f4" and (name is not None or keep or removed is not None):
            what = "columns" if name is not None else "keep" if keep else "removed"
            raise InputError(f"{what} names a part of an object, and messages in f4 have none")
        self.id_key, self.by_key = id_key, id_key in BY_KEY
        self.keep, self.removed = _distinct(keep), removed
        self._named = row_key if name is None else name
        self._width = width
        if removed is not None and removed in (id_key, self._named):
            raise InputError(f"removed is {removed!r}, which is the name of something else")
        self._resume({})

    def identity(self) -> dict[str, Any]:
        """What decides which rows come from the messages, for the identity of a source."""
        found: dict[str, Any] = {
            "format": self.format,
            "id_key": self.id_key,
            "row_key": self._named or ROW,
            "columns": self._width,
        }
        found |= {"keep": list(self.keep)} if self.keep else {}
        return found | ({"removed": self.removed} if self.removed is not None else {})

    def resumed(self, offset: Mapping[str, Any]) -> "MessageParser":
        """A parser with the same settings that knows what the messages before an offset decided."""
        parser = MessageParser(
            self.format,
            id_key=self.id_key,
            row_key=self._named,
            columns=self._width,
            keep=self.keep,
            removed=self.removed,
        )
        parser._resume(offset)
        return parser

    def _resume(self, offset: Mapping[str, Any]) -> None:
        """Know what an offset has recorded: `_decided` is its inverse."""
        width = offset.get("columns")
        self.columns = self._width if width is None else int(width)
        self._seen = bool(offset.get("seen", width is not None))  # a good row
        self.row_key = self._named or offset.get("row_key", ROW if self._seen else None)
        known = True if self.id_key == "@key:text" else False if self._seen else None
        self.text: bool | None = offset.get("text", known)
        self._placed = bool(offset.get("places", False))

    def _decided(self) -> dict[str, Any]:
        """What an offset must record; as little as can be: it was {"columns": ...} for long."""
        found: dict[str, Any] = {"columns": self.columns}
        if self.columns is not None and not self._seen:
            found["seen"] = False
        if self.row_key not in (None, ROW, self._named):
            found["row_key"] = self.row_key
        if self.text or (self.text is not None and not self._seen):
            found["text"] = self.text
        return found | ({"places": True} if self._placed else {})

    def batch(
        self, messages: Iterable[Message], place: dict[str, Any], lost: Iterable[Reject] = ()
    ) -> RowBatch:
        """The rows and removals of messages, in order.

        Parameters
        ----------
        messages
            As the broker delivered them.
        place
            Where to resume; what the messages have decided is added to it.
        lost
            Rejects that come before those of the messages.
        """
        good: list[_Event] = []
        gone: list[tuple[Any, int]] = []
        rejects = list(lost)
        for message in messages:
            try:
                event = self._event(message)
                self._settle(event, message)
            except BadRowError as reason:
                text = (message.data or b"")[:SHOWN].decode("utf-8", "backslashreplace")
                rejects.append(Reject(message.where, str(reason), text))
            else:
                if event.row is None:
                    gone.append((event.id, len(good)))
                else:
                    good.append(event)
        return RowBatch(
            self._ids([event.id for event in good]),
            self._rows([event.row for event in good]),
            {**place, **self._decided()},
            tuple(rejects),
            self._removals(gone),
            self._payload([event.kept for event in good]),
        )

    def _ids(self, ids: list[Any]) -> Ids:
        return np.array(ids, TEXT if self.text else np.int64)

    def _rows(self, rows: list[Any]) -> NDArray[Any]:
        dtype = np.float32 if self.format == "f4" else np.float64
        return np.array(rows, dtype) if rows else np.empty((0, self.columns or 0), dtype)

    def _removals(self, gone: list[tuple[Any, int]]) -> Removals | None:
        if not gone:
            return None
        return Removals(
            self._ids([name for name, _ in gone]), np.array([at for _, at in gone], np.int64)
        )

    def _payload(self, kept: list[tuple[str | None, ...]]) -> NDArray[np.object_] | None:
        if not self.keep:
            return None
        return np.array(kept, object).reshape(len(kept), len(self.keep))

    def _event(self, message: Message) -> _Event:
        if message.data is None:
            return _Event(self._tombstone(message))
        if not message.data:
            raise BadRowError("the message is empty")
        value = _raw(message.data) if self.format == "f4" else _parsed(message.data)
        if isinstance(value, dict):
            return self._object(message, value)
        name = self._key(message) if self.by_key else message.id
        none: tuple[str | None, ...] = (None,) * len(self.keep)
        return _Event(name, self._row(value), kept=none, placed=not self.by_key)

    def _object(self, message: Message, fields: dict[str, Any]) -> _Event:
        removes = self._marked(fields) or self._is_null(fields)
        key = "" if removes else self._row_key(fields)
        name: Any = message.id
        placed = not self.by_key and self.id_key not in fields
        if self.by_key:
            name = self._key(message)
        elif not placed:
            name = fields[self.id_key]
        elif removes:
            raise BadRowError(f"it removes a row, and has no {self.id_key!r} that says which")
        if removes:
            return _Event(name)
        kept = tuple([_as_text(fields.get(one)) for one in self.keep]) if self.keep else ()
        return _Event(name, self._row(fields[key]), key, kept, placed)

    def _marked(self, fields: dict[str, Any]) -> bool:
        """Whether an object is marked as a removal."""
        if self.removed is None:
            return False
        mark = fields.get(self.removed)
        if mark not in YES and mark not in NO:
            raise BadRowError(f"{self.removed!r} is {repr(mark)[:SHOWN]}, neither true nor false")
        return mark in YES

    def _is_null(self, fields: dict[str, Any]) -> bool:
        """Whether an object has a null instead of numbers."""
        if self.row_key is not None:
            return fields.get(self.row_key, self) is None
        if ROW in fields:
            return fields[ROW] is None
        known = {self.id_key, "id", self.removed}
        return [value for name, value in fields.items() if name not in known] == [None]

    def _row_key(self, fields: dict[str, Any]) -> str:
        """The name of the numbers in an object, which must be there."""
        key = self.row_key or ROW
        if key in fields:
            return key
        names = _listed(fields)
        if self.row_key is not None:
            raise BadRowError(f"it has no {key!r}, but {names}")
        lists = [n for n, v in fields.items() if n != self.id_key and _numbers(v) is not None]
        if len(lists) != 1:
            found = f"several: {_listed(lists)}" if lists else f"none in {names}"
            raise BadRowError(f"it must have one list of numbers, or columns names it; got {found}")
        return lists[0]

    def _row(self, values: Any) -> NDArray[Any]:
        row = _numbers(values)
        if row is None or self.columns not in (None, len(row)):
            plain = values.tolist() if isinstance(values, np.ndarray) else values
            raise BadRowError(why_bad(plain, self.columns))
        return row

    def _tombstone(self, message: Message) -> int | str:
        if self._placed or (self.format == "f4" and not self.by_key):
            raise BadRowError(
                "it has no value, so it removes what its key names; but rows of this stream have "
                "their places as ids: if keys are ids, say so by ids='@key'"
            )
        return self._key(message)

    def _key(self, message: Message) -> int | str:
        """The key of a message as an id."""
        if not message.key:
            raise BadRowError("the message has no key, which would be its id")
        try:
            text = message.key.decode()
        except UnicodeDecodeError:
            raise BadRowError("its key is not UTF-8 text, so it cannot be an id") from None
        whole = WHOLE.fullmatch(text) is not None
        return int(text) if whole and not self.text else text

    def _check_id(self, name: Any, placed: bool) -> bool:
        """Whether an id is a text, if it can be used."""
        text = isinstance(name, str) and name != ""
        wrong = _why_bad_text(name) if text else why_bad_id(name)
        if wrong:
            raise BadRowError(wrong)
        if self.text in (None, text):
            return text
        is_a, others = ("text", "whole numbers") if text else ("whole number", "texts")
        what = "it has no id" if placed else f"the id {str(name)[:40]!r} is a {is_a}"
        raise BadRowError(f"{what}, and the ids of this stream are {others}")

    def _settle(self, event: _Event, message: Message) -> None:
        """Check the id, the last thing that can be wrong, and let a good message decide."""
        self.text = self._check_id(event.id, event.placed)
        if event.row is None or self._seen:
            return
        self._seen, self.columns = True, len(event.row)
        self.row_key = self.row_key or event.key
        self._placed = event.placed and message.key is not None


def _name_or_width(columns: Columns) -> tuple[str | None, int | None]:
    """The name, or the number, which the command line writes as a text."""
    if isinstance(columns, Sequence) and not isinstance(columns, str):
        names: list[Any] = list(columns)
        if len(names) != 1 or not isinstance(names[0], str):
            raise InputError(
                f"columns is {names!r}; for a broker it is the number of values per row, or the "
                f"name of one list of numbers"
            )
        columns = names[0]
    if isinstance(columns, str) and not columns.isdecimal():
        return columns, None
    width = int(columns) if isinstance(columns, str) else columns
    return None, None if width is None else as_count(width, "columns")


def _distinct(keep: str | Sequence[str]) -> tuple[str, ...]:
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    if len(set(names)) < len(names) or not all(isinstance(n, str) and n for n in names):
        raise InputError(f"keep is {names!r}; it must be names, each of them once")
    return names


def _listed(names: Iterable[str]) -> str:
    text = ", ".join(names)[:SHOWN] or "nothing"
    return text.encode("utf-8", "backslashreplace").decode()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadRowError(f"it is not JSON: {error}") from None


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


def _as_text(value: Any) -> str | None:
    """A value to be kept: half a character, which JSON can hold and files cannot, is a U+FFFD."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _why_bad_text(name: str) -> str:
    """Say why a text cannot be an id, or nothing."""
    if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
        return f"the id {name[:40]!r} has characters that files and databases cannot hold"
    return ""
