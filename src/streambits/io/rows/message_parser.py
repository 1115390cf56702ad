"""Messages of a broker as rows and removals: JSON of one row, or Arrow and numbers of many rows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from streambits._arrays import LARGEST, TEXT, as_choice, as_count
from streambits.errors import InputError
from streambits.io.bad_rows import BadRowError, why_bad, why_bad_id
from streambits.io.rows.arrow import (
    PROBE,
    cut_batch,
    is_list,
    is_text,
    row_schema,
    table_batch,
    vector_columns,
)
from streambits.io.rows.files import ParsedRows, ReadOptions, RowSchema, kept_text, split_rejects
from streambits.model.batches import Reject, Removals, RowBatch, join_batches

MESSAGE_FORMATS = ("json", "arrow", "f4")
BY_KEY = ("@key", "@key:text")  # instead of a name: the key of a Kafka message is its id
ROW = "row"  # the name of the numbers in an object, unless columns says another
SHOWN = 200  # characters of a message that its reject shows
SHIFT = 48  # bits of an id that are the offset; those above are the partition
ROW_BITS = 16  # the lowest bits of the id of a row in a message of many
LAST_OFFSET = 1 << (SHIFT - ROW_BITS)  # from here on rows of a message need ids of their own
MARKS = {True: True, "true": True, False: False, "false": False, None: False}  # of removal
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")  # as a number is written; 007 is a text


class Message(NamedTuple):
    """id: its partition << 48 and its offset; where: for a reject; data: None for a tombstone.

    key: of a Kafka message, if it has one.
    """

    id: int
    where: str
    data: bytes | None
    key: bytes | None = None


Columns = int | str | Sequence[str] | None  # how many numbers, or what names them
Fetched = tuple[list[Message], tuple[Reject, ...]]  # and what was lost before them


class _Event(NamedTuple):
    """What a message of one row says. row: None for a removal."""

    id: Any
    row: NDArray[np.float64] | None = None
    payload: tuple[str | None, ...] = ()


class MessageParser:
    """Turns messages into rows and removals, and those that cannot be used into rejects.

    Parameters
    ----------
    format
        'json': a message is an array of numbers, or an object such as {"id": 7, "row": [0.5, 1.5]}.
        'arrow': one Arrow IPC stream of many rows. 'f4': the bytes of little-endian numbers in
        single precision, of one or more rows of `columns` numbers.
    id_key
        The name of the id; or '@key', the key of a Kafka message: a whole number if the first one
        is, else a text; or '@key:text', the same but always a text. Where a message has no ids,
        they are made of its partition and offset: partition * 2**48 + offset in JSON, and
        partition * 2**48 + offset * 2**16 + row in messages of many rows.
    columns
        The name of the numbers, 'row' by default in JSON; of Arrow, names of columns of numbers or
        of one column of lists, by default as in Arrow files. Or how many numbers a row has; by
        default as many as the first good row.
    keep
        Names of further values, which become the payload.
    removed
        The name of a mark: where it is true, the id is removed.

    Notes
    -----
    A null instead of the list of numbers removes the id, and so does a tombstone of Kafka, a
    message without a value whose key is the id. The first good row decides what the others must be
    like: width, names of Arrow columns, kind of ids. What it decided is part of every offset.
    """

    def __init__(
        self,
        format: str = "json",  # noqa: A002 - what users call it
        *,
        id_key: str = "id",
        columns: Columns = None,
        keep: str | Sequence[str] = (),
        removed: str | None = None,
    ) -> None:
        self.format = as_choice(format, "format", MESSAGE_FORMATS)
        self._names, self._width = _names_or_width(columns)
        self.id_key, self.by_key = id_key, id_key in BY_KEY
        self.keep, self.removed = _distinct(keep, "keep"), removed
        self._check_format()
        self.row_key = self._names[0] if self._names else ROW
        if removed is not None and removed in (id_key, *(self._names or (ROW,))):
            raise InputError(f"removed is {removed!r}, which is the name of something else")
        self._resume({})

    def _check_format(self) -> None:
        named = {
            "columns": self._names,
            "keep": self.keep,
            "removed": self.removed is not None,
            "ids": self.id_key not in ("id", *BY_KEY),
        }
        wrong = [what for what, name in named.items() if name]
        if self.format == "f4" and wrong:
            raise InputError(
                f"{wrong[0]} names a part of a message, and messages in f4 have no names"
            )
        if self.format == "f4" and self._width is None:
            raise InputError(
                "messages in f4 are rows of numbers without marks between them: say how many "
                "numbers a row has with columns (--columns 64)"
            )
        if self.format == "json" and len(self._names) > 1:
            raise InputError(
                f"columns is {list(self._names)!r}; for messages in JSON it is the number of "
                f"values per row, or the name of one list of numbers"
            )
        if self.format == "arrow" and self.by_key:
            raise InputError(
                f"ids is {self.id_key!r}, the key of a message, and messages in arrow have many "
                f"rows: name their column of ids"
            )

    def identity(self) -> dict[str, Any]:
        """What decides which rows come from the messages, for the identity of a source."""
        identity: dict[str, Any] = {
            "format": self.format,
            "id_key": self.id_key,
            "row_key": list(self._names) if len(self._names) > 1 else self.row_key,
            "columns": self._width,
        }
        identity |= {"keep": list(self.keep)} if self.keep else {}
        return identity | ({"removed": self.removed} if self.removed is not None else {})

    def resumed(self, offset: Mapping[str, Any]) -> "MessageParser":
        """A parser with the same settings that knows what the messages before an offset decided."""
        parser = copy(self)
        parser._resume(offset)
        return parser

    def _resume(self, offset: Mapping[str, Any]) -> None:
        """Know what an offset has recorded: `_decided` is its inverse."""
        begun = offset.get("columns") is not None  # of older versions: only texts were noted
        kind = False if begun else True if self.id_key == "@key:text" else None
        self.columns: int | None = self._width or offset.get("columns")
        self.text: bool | None = offset.get("text", kind)  # whether ids are texts
        self._places = bool(offset.get("places", False))  # whether rows have places as ids
        self._numbers = tuple(offset.get("names", ()))  # of Arrow columns of numbers

    def _decided(self) -> dict[str, Any]:
        """What an offset must record."""
        decided: dict[str, Any] = {"columns": self.columns, "text": self.text}
        decided |= {"places": True} if self._places else {}
        return decided | ({"names": list(self._numbers)} if self._numbers else {})

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
        if self.format == "json":
            found = self._objects(messages, list(lost))
        else:
            found = join_batches([self._gathered([], list(lost)), *map(self._part, messages)])
        return found._replace(offset={**place, **self._decided()})

    # One row per message

    def _objects(self, messages: Iterable[Message], rejects: list[Reject]) -> RowBatch:
        events = []
        for message in messages:
            try:
                events.append(self._event(message))
            except BadRowError as reason:
                rejects.append(_rejected(message, reason))
        return self._gathered(events, rejects)

    def _gathered(self, events: list[_Event], rejects: list[Reject]) -> RowBatch:
        """Events in their order, and rejects, as a batch."""
        kind = TEXT if self.text else np.int64
        good = [event for event in events if event.row is not None]
        rows = np.array([event.row for event in good]) if good else np.empty((0, self.columns or 0))
        removals = None
        if len(good) < len(events):
            gone = np.array([event.row is None for event in events], np.bool_)
            names = [event.id for event in events if event.row is None]
            at = np.cumsum(~gone, dtype=np.int64)[gone]
            removals = Removals(np.array(names, kind), at)
        payload = np.array([event.payload for event in good], object) if self.keep else None
        return RowBatch(
            np.array([event.id for event in good], kind),
            rows,
            rejects=tuple(rejects),
            removals=removals,
            payload=None if payload is None else payload.reshape(len(good), len(self.keep)),
        )

    def _event(self, message: Message) -> _Event:
        if message.data is None:
            return self._tombstone(message)
        value = _parsed(message.data)
        whole = isinstance(value, dict)
        fields = value if whole else {self.row_key: value}
        placed = not (self.by_key or (whole and self.id_key in fields))
        removes = whole and (self._marked(fields) or fields.get(self.row_key, self) is None)
        if removes and placed:
            raise BadRowError(f"it removes a row, and has no {self.id_key!r} that says which")
        if self.by_key:
            name: Any = self._key(message)
        else:
            name = message.id if placed else fields[self.id_key]
        if removes:
            return self._removal(name)
        if self.row_key not in fields:
            names = ", ".join(fields)[:SHOWN] or "nothing"
            raise BadRowError(
                f"it has no {self.row_key!r}, but {names}: name its list of numbers with columns "
                f"(--columns)"
            )
        row = self._row(fields[self.row_key])
        payload = tuple([kept_text(fields.get(one)) for one in self.keep]) if self.keep else ()
        self._settle(name, len(row), placed=placed)
        return _Event(name, row, payload)

    def _row(self, values: Any) -> NDArray[np.float64]:
        """Numbers as a row, if they are of a size that can be used."""
        fits = isinstance(values, list) and len(values) == (self.columns or len(values) or 1)
        if fits and set(map(type, values)) <= {int, float}:
            row = np.array(values, np.float64)
            if (np.abs(row) < LARGEST).all():
                return row
        raise BadRowError(why_bad(values, self.columns))

    def _marked(self, fields: dict[str, Any]) -> bool:
        """Whether an object is marked as a removal."""
        mark = None if self.removed is None else fields.get(self.removed)
        if not isinstance(mark, bool | str | None) or mark not in MARKS:
            raise BadRowError(f"{self.removed!r} is {repr(mark)[:SHOWN]}, neither true nor false")
        return MARKS[mark]

    def _removal(self, name: Any) -> _Event:
        self.text = self._checked(name)
        return _Event(name)

    def _tombstone(self, message: Message) -> _Event:
        if self._places or (self.format == "f4" and not self.by_key):
            raise BadRowError(
                "it has no value, so it removes what its key names; but rows of this stream have "
                "their places as ids: if keys are ids, say so by ids='@key'"
            )
        return self._removal(self._key(message))

    def _key(self, message: Message) -> int | str:
        """The key of a message as an id."""
        if not message.key:
            raise BadRowError("the message has no key, which would be its id")
        try:
            text = message.key.decode()
        except UnicodeDecodeError:
            raise BadRowError("its key is not UTF-8 text, so it cannot be an id") from None
        return int(text) if WHOLE.fullmatch(text) and not self.text else text

    def _checked(self, name: Any) -> bool:
        """Whether an id is a text, if it can be used."""
        wrong = why_bad_id(name, self.text)
        if not wrong and isinstance(name, str) and "\0" in name:
            wrong = f"the id {name[:40]!r} has a character that files and databases cannot hold"
        if wrong:
            raise BadRowError(wrong)
        return isinstance(name, str)

    def _settle(self, name: Any, width: int, *, placed: bool) -> None:
        """Check the id, the last thing that can be wrong, and let a good row decide."""
        if placed and self.text:
            raise BadRowError("it has no id, and the ids of this stream are texts")
        self.text = self._checked(name)
        self.columns, self._places = width, self._places or placed

    # Many rows per message

    def _part(self, message: Message) -> RowBatch:
        """What one message of many rows says; a reject if it cannot be used."""
        try:
            if message.data is None:
                return self._gathered([self._tombstone(message)], [])
            return self._f4(message) if self.format == "f4" else self._arrow(message)
        except BadRowError as reason:
            return self._gathered([], [_rejected(message, reason)])

    def _f4(self, message: Message) -> RowBatch:
        data = _not_empty(message.data)
        assert self.columns is not None
        if len(data) % (4 * self.columns):
            raise BadRowError(f"{len(data)} bytes are not rows of {self.columns} 4-byte numbers")
        rows = np.frombuffer(data, "<f4").reshape(-1, self.columns)
        ids = None
        if self.by_key:
            if len(rows) > 1:
                raise BadRowError(f"it has {len(rows)} rows, and its key can name only one")
            name = self._key(message)
            ids = np.array([name], TEXT if self._checked(name) else np.int64)

        part = split_rejects(
            ParsedRows(rows, ids),
            {},
            lambda place: f"{message.where}, row {place}",
            lambda place: str(rows[place].tolist()),
        )
        return self._decide(message, part, len(rows), placed=ids is None)

    def _arrow(self, message: Message) -> RowBatch:
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        try:
            table = pa.ipc.open_stream(_not_empty(message.data)).read_all().combine_chunks()
            table.validate(full=True)
            named = self.id_key in table.column_names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise BadRowError(f"it is not an Arrow stream: {error}") from None
        options = ReadOptions(
            self._names or self._numbers or None,
            self.id_key if named else None,
            removed=self.removed,
            keep=self.keep,
        )
        if not table.num_rows:
            return self._gathered([], [])
        try:
            names = vector_columns(table.schema, options, "it")
        except InputError as error:
            raise BadRowError(str(error)) from None
        listed = is_list(table.schema.field(names[0]).type)
        if not named and self.text:
            raise BadRowError("it has no ids, and the ids of this stream are texts")
        if self.removed is not None and not named:
            raise BadRowError(f"it may remove rows, and has no {self.id_key!r} that says which")
        if not listed and self.columns not in (None, len(names)):
            raise BadRowError(f"expected {self.columns} values, got {len(names)}")
        schema = self._arrow_schema(table, names, options, listed=listed)
        if listed and named:  # as in JSON, a null removes the id
            table, options = _with_removals(table, names[0], options)
        [batch] = table.select([*names, *options.others]).to_batches()
        part = table_batch(batch, schema, options, message.where, {"row": len(batch)})
        part = self._decide(message, part, len(batch), placed=not named)
        if len(part.ids):
            self._numbers = () if listed else names
        return part

    def _arrow_schema(
        self, table: Any, names: tuple[str, ...], options: ReadOptions, *, listed: bool
    ) -> RowSchema:
        """How wide rows are and of which kind ids: as those before them, or as the first."""
        width, text = self.columns, self.text
        if width is None:
            schema = row_schema(names, table.schema, cut_batch(table, 0, PROBE), "")
            width = schema.width if schema else 0
        if text is None:
            text = options.ids is not None and is_text(table.schema.field(options.ids).type)
        return RowSchema(width, "", names, listed, text)

    def _decide(self, message: Message, part: RowBatch, count: int, *, placed: bool) -> RowBatch:
        """Let good rows decide; make ids of the places of rows that have no others."""
        if placed:
            partition, offset = message.id >> SHIFT, message.id & ((1 << SHIFT) - 1)
            if offset >= LAST_OFFSET or count > 1 << ROW_BITS:
                raise BadRowError(
                    f"it has {count:,} rows without ids at the offset {offset:,}, and ids are made "
                    f"of offsets below {LAST_OFFSET:,} and at most {1 << ROW_BITS:,} rows: send ids"
                )
            part = part._replace(ids=(partition << SHIFT) + (offset << ROW_BITS) + part.ids)
        if len(part.ids) or part.removals is not None:
            self.text = part.ids.dtype.kind == "T"
        if len(part.ids):
            self.columns, self._places = part.rows.shape[1], self._places or placed
        return part


def _rejected(message: Message, reason: BadRowError) -> Reject:
    text = (message.data or b"")[:SHOWN].decode("utf-8", "backslashreplace")
    return Reject(message.where, str(reason), text)


def _with_removals(table: Any, name: str, options: ReadOptions) -> tuple[Any, ReadOptions]:
    """A table whose column of marks is true where its list is null, too."""
    import pyarrow.compute as pc  # noqa: PLC0415

    gone = pc.is_null(table.column(name))
    if options.removed is not None:
        place = table.schema.get_field_index(options.removed)
        gone = pc.or_(gone, pc.fill_null(table.column(place), False))
        return table.set_column(place, options.removed, gone), options
    return table.append_column("@removed", gone), options._replace(removed="@removed")


def _names_or_width(columns: Columns) -> tuple[tuple[str, ...], int | None]:
    """The names, or the number, which the command line writes as a text."""
    if not isinstance(columns, Sequence):
        return (), None if columns is None else as_count(columns, "columns")
    names = _distinct(columns, "columns")
    if not names:
        raise InputError(
            f"columns is {columns!r}; for a broker it is the number of values per row, or names"
        )
    if len(names) == 1 and names[0].isdecimal():
        return (), as_count(int(names[0]), "columns")
    return names, None


def _distinct(values: str | Sequence[str], name: str) -> tuple[str, ...]:
    names = (values,) if isinstance(values, str) else tuple(values)
    if len(set(names)) < len(names) or not all(isinstance(n, str) and n for n in names):
        raise InputError(f"{name} is {names!r}; it must be names, each of them once")
    return names


def _not_empty(data: bytes | None) -> bytes:
    if not data:
        raise BadRowError("the message is empty")
    return data


def _parsed(data: bytes) -> Any:
    try:
        return orjson.loads(_not_empty(data))
    except orjson.JSONDecodeError as error:
        hint = "; JSON has no NaN and no Infinity" if re.search(b"NaN|Infinity", data) else ""
        raise BadRowError(f"it is not JSON: {error}{hint}") from None
