"""Parquet files, Arrow files (IPC, Feather) and Arrow streams: rows out of Arrow tables.

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
    REJECT_TEXT,
    At,
    Found,
    Layout,
    Mask,
    ReadOptions,
    file_errors,
    float_type,
    kept_text,
    refuse_guess,
    sift,
)
from streambits.io.rows.inputs import Input, batch_rows
from streambits.model.batches import Reject, RowBatch

BUFFER = 1 << 17  # bytes of a Parquet column that are read at once
PROBE = 64  # rows that are read at once to find a good one
MAGIC = b"ARROW1"  # of an Arrow file; a stream has none
UUID_BYTES = 16
FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}  # in text
FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}  # Arrow's, and NumPy's


class Parquet:
    """A Parquet file, read by row groups. Memory: a batch of rows, and a buffer per column."""

    keys: tuple[str, ...] = ("row",)

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self.path, self.source, self._options = source.name, source, options

    def length(self) -> int | None:
        with file_errors(self.path, "Parquet"), _open_parquet(self.path) as file:
            return sum(_group_rows(file)[slice(*(self._options.groups or (None,)))])

    def layout(self) -> Layout | None:
        with file_errors(self.path, "Parquet"), _open_parquet(self.path) as file:
            names, listed = _vector_columns(file.schema_arrow, self._options, self.path)
            batches = file.iter_batches(PROBE, columns=list(names), use_threads=False)
            found = _layout(names, listed, file.schema_arrow, batches, self.path)
            empty = not file.metadata.num_rows
            return found if empty else _with_kind(found, file.schema_arrow, self._options)

    def batches(self, layout: Layout | None, at: At | None) -> Iterator[RowBatch]:
        row = at["row"] if at else 0
        where = file_errors(self.path, "Parquet", lambda: f" from row {row} on")
        with where, _open_parquet(self.path) as file:
            first, end = self._options.groups or (0, file.num_row_groups)
            row = row if at else sum(_group_rows(file)[:first])
            names = _vector_columns(file.schema_arrow, self._options, self.path)[0]
            wanted = _wanted(names, layout, self._options)
            most = batch_rows(self._options.rows, 8 * layout.width if layout else 0)
            for table in _row_groups(file, wanted, row, most, end):
                row += table.num_rows
                yield _sift_table(
                    table.select(wanted), layout, self._options, self.path, {"row": row}
                )


def _open_parquet(path: str) -> Any:
    from pyarrow import parquet  # noqa: PLC0415

    return parquet.ParquetFile(
        path, pre_buffer=False, buffer_size=BUFFER, page_checksum_verification=True
    )


def row_groups(path: str) -> int:
    """Row groups of a Parquet file."""
    with file_errors(path, "Parquet"), _open_parquet(path) as file:
        return int(file.num_row_groups)


def _group_rows(file: Any) -> list[int]:
    """Rows of each row group."""
    meta = file.metadata
    return [int(meta.row_group(group).num_rows) for group in range(meta.num_row_groups)]


def _row_groups(file: Any, names: list[str], row: int, most: int, end: int) -> Iterator[Any]:
    """Tables from `row` on, up to the row group `end`; those before the row are not read."""
    starts = np.cumsum([0, *_group_rows(file)])
    first = int(np.searchsorted(starts, row, side="right")) - 1
    groups, extra = list(range(first, end)), row - int(starts[first])
    if not groups:
        return
    for batch in file.iter_batches(most, row_groups=groups, columns=names, use_threads=False):
        left = batch.slice(extra)
        extra -= batch.num_rows - left.num_rows
        if left.num_rows:
            yield left


class Arrow:
    """An Arrow file or stream. Memory: one record batch, as it was written, of the columns in use.

    It is read, not mapped: a mapped file that somebody cuts off ends the process by a signal.
    """

    keys: tuple[str, ...] = ("row", "batch", "within")

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self.path, self.source, self._options = source.name, source, options

    def length(self) -> int | None:
        return None

    def layout(self) -> Layout | None:
        with file_errors(self.path, "Arrow"):
            names, listed = self._columns()
            with _open_arrow(self.path, names) as file:
                batches = _record_batches(file, list(names), 0)
                pieces = (piece for _, batch in batches for piece in _cut(batch, 0, PROBE))
                found = _layout(names, listed, file.schema, pieces, self.path)
            return found if self._is_empty() else _with_kind(found, self._schema(), self._options)

    def _is_empty(self) -> bool:
        ids = self._options.ids
        if ids is None:
            return False
        with _open_arrow(self.path, [ids]) as file:
            return not any(batch.num_rows for _, batch in _record_batches(file, [ids], 0))

    def batches(self, layout: Layout | None, at: At | None) -> Iterator[RowBatch]:
        at = at or {"row": 0, "batch": 0, "within": 0}
        row, within = at["row"], at["within"]
        with file_errors(self.path, "Arrow", lambda: f" from row {row} on"):
            wanted = _wanted(self._columns()[0], layout, self._options)
            most = batch_rows(self._options.rows, 8 * layout.width if layout else 0)
            with _open_arrow(self.path, wanted) as file:
                for number, batch in _record_batches(file, wanted, at["batch"]):
                    for piece in _cut(batch, within, most):
                        row, within = row + piece.num_rows, within + piece.num_rows
                        place = {"row": row, "batch": number, "within": within}
                        yield _sift_table(piece, layout, self._options, self.path, place)
                    within = 0

    def _columns(self) -> tuple[tuple[str, ...], bool]:
        return _vector_columns(self._schema(), self._options, self.path)

    def _schema(self) -> Any:
        with _open_arrow(self.path) as file:
            return file.schema


@contextmanager
def _open_arrow(path: str, names: Sequence[str] = ()) -> Iterator[Any]:
    """The file, with these columns of it, or all of them if none is named."""
    import pyarrow as pa  # noqa: PLC0415

    with pa.OSFile(path) as source:
        start = pa.ipc.open_file if source.read(len(MAGIC)) == MAGIC else pa.ipc.open_stream
        source.seek(0)
        file = start(source)
        if names:
            source.seek(0)
            places = sorted(file.schema.get_field_index(name) for name in names)
            file = start(source, options=pa.ipc.IpcReadOptions(included_fields=places))
        yield file


def _record_batches(file: Any, names: list[str], first: int) -> Iterator[tuple[int, Any]]:
    """Batches with their numbers; those of a stream that come before `first` are skipped."""
    if hasattr(file, "num_record_batches"):
        numbered = ((i, file.get_batch(i)) for i in range(first, file.num_record_batches))
    else:
        numbered = ((i, batch) for i, batch in enumerate(file) if i >= first)
    for number, batch in numbered:
        wanted = batch.select(names)
        wanted.validate(full=True)  # it is not checked otherwise
        yield number, wanted


def table_columns(schema: Any, options: ReadOptions, name: str) -> tuple[str, ...]:
    """The columns with the vectors in a table called `name`, if all that is asked for is there."""
    return _vector_columns(schema, options, name)[0]


def table_layout(table: Any, options: ReadOptions, name: str) -> Layout | None:
    """What a row of a table in memory is made of; None if there is no good row."""
    names, listed = _vector_columns(table.schema, options, name)
    found = _layout(names, listed, table.schema, _cut(table, 0, PROBE), name)
    return _with_kind(found, table.schema, options)


def table_batches(table: Any, options: ReadOptions, name: str) -> Iterator[RowBatch]:
    """The rows of a table in memory, which has ids; bad ones are named by their ids."""
    layout = table_layout(table, options, name)
    wanted = _wanted(_vector_columns(table.schema, options, name)[0], layout, options)
    most, row = batch_rows(options.rows, 8 * layout.width if layout else 0), 0
    for piece in _cut(table.select(wanted), 0, most):
        row += piece.num_rows
        whole = piece.combine_chunks().to_batches() or [piece]
        yield _sift_table(whole[0], layout, options, name, {"row": row}, by_id=True)


def _cut(batch: Any, start: int, most: int) -> Iterator[Any]:
    for place in range(start, batch.num_rows, most):
        yield batch.slice(place, most)


def _vector_columns(schema: Any, options: ReadOptions, path: str) -> tuple[tuple[str, ...], bool]:
    """The columns with the vectors, and whether they are one column of lists."""
    _check_others(schema, options, path)
    names = options.columns or _default_columns(schema, options, path)
    types = [_type(schema, name, path) for name in names]
    if len(names) == 1 and _is_list(types[0]):
        return names, True
    for name, found in zip(names, types, strict=True):
        if not _is_number(found):
            other = "; several columns must be numbers" if _is_list(found) else ""
            raise InputError(
                f"{path}: column {name!r} is {found}, neither numbers nor lists of numbers{other}"
            )
    return names, False


def _check_others(schema: Any, options: ReadOptions, path: str) -> None:
    """The columns that are not vectors must be there, and of a type that can be used."""
    import pyarrow as pa  # noqa: PLC0415

    types = {name: _type(schema, name, path) for name in options.others}
    ids, removed = options.ids, options.removed
    if ids is not None and not (pa.types.is_integer(types[ids]) or _is_text(types[ids])):
        raise InputError(f"{path}: the ids {ids!r} are {types[ids]}, not integers or texts")
    if removed is not None and not pa.types.is_boolean(types[removed]):
        raise InputError(f"{path}: column {removed!r} is {types[removed]}, not true or false")


def _with_kind(layout: Layout | None, schema: Any, options: ReadOptions) -> Layout | None:
    """A layout that says whether ids are texts. That a file without rows cannot say."""
    if options.ids is None:
        return layout
    return (layout or Layout(0, ""))._replace(text=_is_text(schema.field(options.ids).type))


def _default_columns(schema: Any, options: ReadOptions, path: str) -> tuple[str, ...]:
    others = [field for field in schema if field.name not in options.others]
    lists = tuple(field.name for field in others if _is_list(field.type))
    numbers = tuple(field.name for field in others if _is_number(field.type))
    if len(lists) == 1:
        return lists
    if not numbers:
        has = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise InputError(f"{path} has no columns of numbers, nor one of lists: it has {has}")
    refuse_guess(numbers, path)
    return numbers


def _wanted(names: tuple[str, ...], layout: Layout | None, options: ReadOptions) -> list[str]:
    """The columns with the vectors, in the order of the layout, then others, the ids last."""
    names = layout.columns if layout and layout.columns else names
    return [*names, *options.others]


def _layout(
    names: tuple[str, ...], listed: bool, schema: Any, batches: Iterator[Any], path: str
) -> Layout | None:
    """How wide rows are: lists of any length are as long as the first good one."""
    if not listed:
        return Layout(len(names), path, names)
    kind = schema.field(names[0]).type
    kind = getattr(kind, "storage_type", kind)
    if hasattr(kind, "list_size"):
        return Layout(kind.list_size, path, names, listed=True)
    values = itertools.chain.from_iterable(batch.column(names[0]).to_pylist() for batch in batches)
    good = next((value for value in values if not why_bad(value)), None)
    return None if good is None else Layout(len(good), path, names, listed=True)


def _type(schema: Any, name: str, path: str) -> Any:
    places = schema.get_all_field_indices(name)
    if len(places) != 1:
        has = f"{len(places)} columns" if places else "no column"
        raise InputError(f"{path} has {has} {name!r}; it has {', '.join(schema.names)}")
    return schema.field(places[0]).type


def _is_text(kind: Any) -> bool:
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


def _is_list(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    kind, types = getattr(kind, "storage_type", kind), pa.types  # of an extension type
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists) and _is_number(kind.value_type)


def _sift_table(
    table: Any,
    layout: Layout | None,
    options: ReadOptions,
    path: str,
    at: At,
    *,
    by_id: bool = False,
) -> RowBatch:
    """Good and bad rows of a record batch, the last of which is before row at["row"].

    by_id: whether a bad row is named by its id, because its place says nothing.
    """
    found = arrow_rows(table, layout, options)
    columns = [_stored(column) for column in table.columns]
    start, vectors = at["row"] - table.num_rows, len(columns) - len(options.others)

    def reject(place: int) -> Reject:
        values = [column[place].as_py() for column in columns[:vectors]]
        reason = ""
        if options.ids is not None:
            reason = why_bad_id(columns[-1][place].as_py(), layout.text if layout else None)
        listed = layout is None or not layout.width or layout.listed
        width, names = (layout.width or None, layout.columns) if layout else (None, None)
        reason = reason or why_bad(
            values[0] if listed else values, width, None if listed else names
        )
        which = f"id {columns[-1][place].as_py()!r}" if by_id else f"row {start + place}"
        return Reject(f"{path}, {which}", reason, str(values)[:REJECT_TEXT])

    return sift(found, at, reject)


def arrow_rows(table: Any, layout: Layout | None, options: ReadOptions) -> Found:
    """What an Arrow record batch has, without a loop over its rows where there are only numbers.

    The columns are those of the layout, and then the others of the options, in their order.
    Where a row is bad, it is NaN; all are if the layout is None or has no width.
    """
    columns = [_stored(column) for column in table.columns]
    text = layout.text if layout else None
    ids, bad = (None, None) if options.ids is None else _ids(columns.pop(), text=bool(text))
    removed, unclear = (None, None) if options.removed is None else _flags(columns.pop())
    payload = _payload(table, columns, len(options.keep)) if options.keep else None
    if layout is None or not layout.width:
        rows = np.full((table.num_rows, 1), np.nan)
    elif layout.listed:
        rows = _lists(columns[0], layout.width)
    else:
        rows = _numbers(columns[: len(columns) - len(options.keep)])
    wrong = [mask for mask in (bad, unclear) if mask is not None]
    return Found(rows, ids, np.logical_or.reduce(wrong) if wrong else None, removed, payload)


def _flags(column: Any) -> tuple[Mask, Mask | None]:
    """What a column of true and false says, and where it says something else."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_boolean(column.type):
        return column.fill_null(False).to_numpy(zero_copy_only=False), None
    found = [as_flag(value) for value in column.to_pylist()]
    unclear = np.array([one is None for one in found], np.bool_)
    return np.array([bool(one) for one in found], np.bool_), unclear if unclear.any() else None


def as_flag(text: str | None) -> bool | None:
    """What a text says: true, false, or None for something else.

    >>> as_flag("TRUE"), as_flag(" 0"), as_flag(""), as_flag("x")
    (True, False, False, None)
    """
    return FLAGS.get((text or "").strip(" \t").lower())


def _payload(table: Any, columns: list[Any], count: int) -> NDArray[np.object_]:
    """The columns to keep, the last `count` of these, as texts."""
    found = np.empty((table.num_rows, count), np.object_)
    for place in range(count):
        values = table.column(len(columns) - count + place).to_pylist()
        found[:, place] = [kept_text(value) for value in values]
    return found


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
    if _is_text(column.type) != text:
        return np.zeros(len(column), TEXT if text else np.int64), np.ones(len(column), np.bool_)
    if text:
        return _text_ids(column)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64:
        missing = missing | (values > LAST_ID)
    return values.astype(np.int64), missing if missing.any() else None


def _text_ids(column: Any) -> tuple[Ids, Mask | None]:
    values = column.to_pylist()
    if _is_uuid(column.type):
        values = [value and str(UUID(bytes=value)) for value in values]
    missing = np.array([not value for value in values], np.bool_)
    return np.array([value or "" for value in values], TEXT), missing if missing.any() else None
