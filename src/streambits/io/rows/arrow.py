"""Parquet files, Arrow files (IPC, Feather) and streams, and tables in memory: rows out of Arrow.

The vectors are one column of lists or several columns of numbers. pyarrow is `Any` here: it has no
types. It is imported where it is used, because that is slow and other formats do not need it.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LAST_ID, TEXT, Ids
from streambits.errors import InputError
from streambits.io.bad_rows import why_bad, why_bad_id
from streambits.io.rows.files import (
    Mask,
    ParsedRows,
    Position,
    ReadOptions,
    RowSchema,
    file_errors,
    float_type,
    is_settled,
    kept_text,
    payload_of,
    refuse_guess,
    split_rejects,
)
from streambits.io.rows.inputs import Input, batch_rows
from streambits.model.batches import RowBatch

BUFFER = 1 << 17  # bytes of a Parquet column that are read at once
PROBE = 64  # rows that are read at once to find a good one
MAGIC = b"ARROW1"  # of an Arrow file; a stream has none
UUID_BYTES = 16
FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}  # Arrow's, and NumPy's


class _TableReader:
    """What Parquet and Arrow have in common. A subclass knows `_schema` and `_pieces`."""

    kind: str

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self.path, self.source, self._options = source.name, source, options

    def length(self) -> int | None:
        return None

    def _schema(self) -> Any:
        """The schema of the table."""
        raise NotImplementedError

    def _pieces(
        self, names: Sequence[str], at: Position | None, most: int
    ) -> Iterator[tuple[Any, Position]]:
        """Record batches of at most so many rows, with the offsets behind them."""
        raise NotImplementedError

    def schema(self) -> RowSchema | None:
        with file_errors(self.path, self.kind):
            schema = self._schema()
            names = vector_columns(schema, self._options, self.path)
            found, rows = row_schema(names, schema, iter(()), self.path), 0
            ids = () if self._options.ids is None else (self._options.ids,)
            probed = ids if found else names  # no more is read than has to be
            for piece, _ in self._pieces(probed, None, PROBE) if probed else ():
                rows += piece.num_rows
                found = found or row_schema(names, schema, iter([piece]), self.path)
                if found:
                    break
            return with_kind(found, schema, self._options) if rows else found

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
        row = at["row"] if at else 0
        with file_errors(self.path, self.kind, lambda: f" from row {row} on"):
            wanted = _wanted(self._schema(), schema, self._options, self.path)
            most = batch_rows(self._options.rows, 8 * schema.width if schema else 0)
            for piece, place in self._pieces(wanted, at, most):
                row = place["row"]
                yield table_batch(piece, schema, self._options, self.path, place)


class Parquet(_TableReader):
    """A Parquet file, read by row groups. Memory: a batch of rows, and a buffer per column."""

    keys: tuple[str, ...] = ("row",)
    kind = "Parquet"

    def length(self) -> int | None:
        with file_errors(self.path, "Parquet"), open_parquet(self.source) as file:
            return int(file.metadata.num_rows)

    def _schema(self) -> Any:
        with open_parquet(self.source) as file:
            return file.schema_arrow

    def _pieces(
        self, names: Sequence[str], at: Position | None, most: int
    ) -> Iterator[tuple[Any, Position]]:
        with open_parquet(self.source) as file:
            meta, row = file.metadata, at["row"] if at else 0
            sizes = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
            starts = np.cumsum([0, *sizes])
            first = int(np.searchsorted(starts, row, side="right")) - 1
            groups, extra = list(range(first, len(sizes))), row - int(starts[first])
            if not groups:
                return
            options = {"columns": list(names), "use_threads": False}
            for batch in file.iter_batches(most, row_groups=groups, **options):
                left = batch.slice(extra)
                extra -= batch.num_rows - left.num_rows
                row += left.num_rows
                if left.num_rows:
                    yield left.select(list(names)), {"row": row}


@contextmanager
def open_parquet(source: Input) -> Iterator[Any]:
    """A file of pyarrow.parquet; of a remote one, a row group is fetched in few requests."""
    from pyarrow import parquet  # noqa: PLC0415

    with source.open_arrow() as stream:
        yield parquet.ParquetFile(
            stream,
            pre_buffer=source.local_path is None,
            buffer_size=BUFFER,
            page_checksum_verification=True,
        )


class Arrow(_TableReader):
    """An Arrow file or stream. Memory: one record batch, as it was written, of the columns in use.

    It is read, not mapped: a mapped file that somebody cuts off ends the process by a signal.
    """

    keys: tuple[str, ...] = ("row", "batch", "within")  # within: rows of the record batch
    kind = "Arrow"

    def _schema(self) -> Any:
        with self._open() as file:
            return file.schema

    def _pieces(
        self, names: Sequence[str], at: Position | None, most: int
    ) -> Iterator[tuple[Any, Position]]:
        row, first, within = (at["row"], at["batch"], at["within"]) if at else (0, 0, 0)
        with self._open(names) as file:
            if hasattr(file, "num_record_batches"):
                numbered = ((i, file.get_batch(i)) for i in range(first, file.num_record_batches))
            else:  # of a stream, those that come before are skipped
                numbered = ((i, batch) for i, batch in enumerate(file) if i >= first)
            for number, whole in numbered:
                batch = whole.select(list(names))
                batch.validate(full=True)  # it is not checked otherwise
                for piece in cut_batch(batch, within, most):
                    row, within = row + piece.num_rows, within + piece.num_rows
                    yield piece, {"row": row, "batch": number, "within": within}
                within = 0

    @contextmanager
    def _open(self, names: Sequence[str] = ()) -> Iterator[Any]:
        """The file, with these columns of it, or all of them if none is named."""
        import pyarrow as pa  # noqa: PLC0415

        with self.source.open_arrow() as stream:
            start = pa.ipc.open_file if stream.read(len(MAGIC)) == MAGIC else pa.ipc.open_stream
            stream.seek(0)
            file = start(stream)
            if names:
                stream.seek(0)
                places = sorted(file.schema.get_field_index(name) for name in names)
                file = start(stream, options=pa.ipc.IpcReadOptions(included_fields=places))
            yield file


class ArrowStream:
    """Rows of whatever has `__arrow_c_stream__`, once.

    That are tables and readers of pyarrow, data frames of polars and pandas, relations of duckdb,
    data sets of Hugging Face. Rows in memory have no offset to resume from, and a reader gives its
    rows only once.

    Parameters
    ----------
    data
        Where the rows are.
    options : ReadOptions
    """

    length: int | None = None

    def __init__(self, data: Any, options: ReadOptions) -> None:
        self._data, self._options = data, options
        self.name = f"the {type(data).__name__}"

    def identity(self) -> Any:
        options = self._options
        return {"stream": self.name, "columns": options.columns, "others": list(options.others)}

    def __iter__(self) -> Iterator[RowBatch]:
        return self.read()

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Batches from the beginning, which is the only place to read from."""
        import pyarrow as pa  # noqa: PLC0415

        if offset is not None:
            raise InputError(
                f"{self.name} is rows in memory, which cannot be read from an offset: to resume, "
                f"write them to a file, such as Parquet"
            )
        row = 0
        schema: RowSchema | None = None
        with file_errors(self.name, "Arrow"):
            reader = pa.RecordBatchReader.from_stream(self._data)
            names = vector_columns(reader.schema, self._options, self.name)
            for whole in reader:
                if not is_settled(schema, self._options):
                    first = row_schema(names, reader.schema, cut_batch(whole, 0, PROBE), self.name)
                    schema = with_kind(first, reader.schema, self._options)
                wanted = _wanted(reader.schema, schema, self._options, self.name)
                most = batch_rows(self._options.rows, 8 * schema.width if schema else 0)
                for piece in cut_batch(whole.select(wanted), 0, most):
                    start, row = row, row + piece.num_rows
                    batch = table_batch(piece, schema, self._options, self.name, {"row": row})
                    counted = self._options.ids is None
                    yield batch._replace(ids=start + batch.ids) if counted else batch


def cut_batch(batch: Any, start: int, most: int) -> Iterator[Any]:
    """Pieces of at most so many rows."""
    for place in range(start, batch.num_rows, most):
        yield batch.slice(place, most)


def vector_columns(schema: Any, options: ReadOptions, path: str) -> tuple[str, ...]:
    """The columns with the vectors: one of lists, or numbers. All that is asked for is checked."""
    import pyarrow as pa  # noqa: PLC0415

    types = {name: _type(schema, name, path) for name in options.others}
    ids, removed = options.ids, options.removed
    if ids is not None and not (pa.types.is_integer(types[ids]) or is_text(types[ids])):
        raise InputError(f"{path}: the ids {ids!r} are {types[ids]}, not integers or texts")
    if removed is not None and not pa.types.is_boolean(types[removed]):
        raise InputError(f"{path}: column {removed!r} is {types[removed]}, not true or false")
    names = options.columns or _default_columns(schema, options, path)
    kinds = [_type(schema, name, path) for name in names]
    for name, kind in zip(names, kinds, strict=True):
        if not (_is_number(kind) or (len(names) == 1 and is_list(kind))):
            other = "; several columns must be numbers" if is_list(kind) else ""
            raise InputError(
                f"{path}: column {name!r} is {kind}, neither numbers nor lists of numbers{other}"
            )
    return names


def _default_columns(schema: Any, options: ReadOptions, path: str) -> tuple[str, ...]:
    others = [field for field in schema if field.name not in options.others]
    lists = tuple(field.name for field in others if is_list(field.type))
    numbers = tuple(field.name for field in others if _is_number(field.type))
    if len(lists) != 1 and not numbers:
        has = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise InputError(f"{path} has no columns of numbers, nor one of lists: it has {has}")
    refuse_guess(path, schema.names, () if len(lists) == 1 else numbers, options)
    return lists if len(lists) == 1 else numbers


def with_kind(found: RowSchema | None, schema: Any, options: ReadOptions) -> RowSchema | None:
    """The schema of rows, which says whether ids are texts. A file without rows cannot say that."""
    if options.ids is None:
        return found
    return (found or RowSchema(0, ""))._replace(text=is_text(schema.field(options.ids).type))


def _wanted(schema: Any, rows: RowSchema | None, options: ReadOptions, path: str) -> list[str]:
    """The columns with the vectors, in the order of the rows' schema, then others, ids last."""
    names = vector_columns(schema, options, path)
    return [*(rows.columns if rows and rows.columns else names), *options.others]


def row_schema(
    names: Sequence[str], schema: Any, batches: Iterator[Any], path: str
) -> RowSchema | None:
    """How wide rows are: lists of any length are as long as the first good one."""
    kind = schema.field(names[0]).type
    if not is_list(kind):
        return RowSchema(len(names), path, tuple(names))
    kind = getattr(kind, "storage_type", kind)
    if hasattr(kind, "list_size"):
        return RowSchema(kind.list_size, path, tuple(names), listed=True)
    values = itertools.chain.from_iterable(batch.column(names[0]).to_pylist() for batch in batches)
    good = next((value for value in values if not why_bad(value)), None)
    return None if good is None else RowSchema(len(good), path, tuple(names), listed=True)


def _type(schema: Any, name: str, path: str) -> Any:
    places = schema.get_all_field_indices(name)
    if len(places) != 1:
        has = f"{len(places)} columns" if places else "no column"
        raise InputError(f"{path} has {has} {name!r}; it has {', '.join(schema.names)}")
    return schema.field(places[0]).type


def is_text(kind: Any) -> bool:
    """Whether this is a type of texts; 16 bytes are a UUID."""
    import pyarrow as pa  # noqa: PLC0415

    kind, types = getattr(kind, "storage_type", kind), pa.types  # of an extension type
    if types.is_dictionary(kind):
        kind = kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(text) or _is_uuid(kind)


def _is_uuid(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_fixed_size_binary(kind)) and kind.byte_width == UUID_BYTES


def _is_number(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_list(kind: Any) -> bool:
    """Whether this is a type of lists of numbers."""
    import pyarrow as pa  # noqa: PLC0415

    kind, types = getattr(kind, "storage_type", kind), pa.types  # of an extension type
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists) and _is_number(kind.value_type)


def table_batch(
    table: Any, schema: RowSchema | None, options: ReadOptions, path: str, at: Position
) -> RowBatch:
    """Good and bad rows of a record batch, the last of which is before row at["row"]."""
    columns = [_stored(column) for column in table.columns]
    vectors, start = columns[: len(columns) - len(options.others)], at["row"] - table.num_rows
    width, names, listed, text = 0, None, True, None
    if schema:
        width, names, text = schema.width, schema.columns, schema.text
        listed = schema.listed or not width

    def values(place: int) -> list[Any]:
        return [column[place].as_py() for column in vectors]

    def why(place: int) -> str:
        wrong = "" if options.ids is None else why_bad_id(columns[-1][place].as_py(), text)
        row = values(place)
        return wrong or why_bad(row[0] if listed else row, width or None, None if listed else names)

    return split_rejects(
        arrow_rows(table, schema, options)._replace(why=why),
        at,
        lambda place: f"{path}, row {start + place}",
        lambda place: str(values(place)),
    )


def arrow_rows(table: Any, schema: RowSchema | None, options: ReadOptions) -> ParsedRows:
    """What an Arrow record batch has, without a loop over its rows where there are only numbers.

    The columns are those of the schema, and then the others of the options, in their order.
    Where a row is bad, it is NaN; all are if the schema is None or has no width.
    """
    columns = [_stored(column) for column in table.columns]
    text = schema.text if schema else None
    ids, bad = (None, None) if options.ids is None else _ids(columns.pop(), text=bool(text))
    removed = None
    if options.removed is not None:
        removed = columns.pop().fill_null(False).to_numpy(zero_copy_only=False)
    payload = None
    if options.keep:
        columns, kept = columns[: -len(options.keep)], columns[-len(options.keep) :]
        texts = [[kept_text(value) for value in column.to_pylist()] for column in kept]
        payload = payload_of(texts, table.num_rows)
    if schema is None or not schema.width:
        rows = np.full((table.num_rows, 1), np.nan)
    else:
        rows = _lists(columns[0], schema.width) if schema.listed else _numbers(columns)
    return ParsedRows(rows, ids, bad, removed, payload)


def _stored(column: Any) -> Any:
    return getattr(column, "storage", column)  # of an extension type


def _float_type(kind: Any) -> np.dtype[Any]:
    """The precision of numbers of an Arrow type; integers have the names that they have in NumPy.

    `to_pandas_dtype` would need pandas before pyarrow 26.
    """
    return float_type(FLOATS.get(str(kind), str(kind)))


def _numbers(columns: list[Any]) -> NDArray[Any]:
    kinds = [_float_type(column.type) for column in columns]
    rows = np.empty((len(columns[0]), len(columns)), np.result_type(*kinds))
    for place, column in enumerate(columns):
        rows[:, place] = column.to_numpy(zero_copy_only=False)  # NaN where there is nothing
    return rows


def _lists(column: Any, width: int) -> NDArray[Any]:
    import pyarrow.compute as pc  # noqa: PLC0415

    lengths = pc.list_value_length(column)
    good = pc.equal(lengths, width).fill_null(False)
    kind = _float_type(column.type.value_type)
    if pc.all(good).as_py():
        return np.array(column.flatten().to_numpy(zero_copy_only=False), kind).reshape(-1, width)
    rows = np.full((len(column), width), np.nan, kind)
    values = column.filter(good).flatten().to_numpy(zero_copy_only=False)
    rows[good.to_numpy(zero_copy_only=False)] = values.reshape(-1, width)
    return rows


def _ids(column: Any, *, text: bool) -> tuple[Ids, Mask | None]:
    """Ids, and which are missing, of the other kind, or do not fit into 64 bits with a sign."""
    if is_text(column.type) != text:
        return np.zeros(len(column), TEXT if text else np.int64), np.ones(len(column), np.bool_)
    if text:
        values = column.to_pylist()
        if _is_uuid(column.type):
            values = [value and str(UUID(bytes=value)) for value in values]
        missing = np.array([not value for value in values], np.bool_)
        ids = np.array([value or "" for value in values], TEXT)
    else:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        ids = column.fill_null(0).to_numpy(zero_copy_only=False)
        if ids.dtype == np.uint64:
            missing = missing | (ids > LAST_ID)
        ids = ids.astype(np.int64)
    return ids, missing if missing.any() else None
