"""Parquet files, Arrow files (IPC, Feather) and Arrow streams: rows out of Arrow tables.

The vectors are one column of lists or several columns of numbers. pyarrow is `Any` here: it has no
types. It is imported where it is used, because that is slow and other formats do not need it.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LAST_ID
from streambits.errors import InputError
from streambits.io.bad_rows import why_bad, why_bad_id
from streambits.io.rows.files import (
    REJECT_TEXT,
    At,
    Layout,
    ReadOptions,
    file_errors,
    float_type,
    refuse_guess,
    sift,
)
from streambits.io.rows.inputs import Input, batch_rows
from streambits.model.batches import Reject, RowBatch

BUFFER = 1 << 17  # bytes of a Parquet column that are read at once
PROBE = 64  # rows that are read at once to find a good one
MAGIC = b"ARROW1"  # of an Arrow file; a stream has none
FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}  # Arrow's, and NumPy's


class Parquet:
    """A Parquet file, read by row groups. Memory: a batch of rows, and a buffer per column."""

    keys: tuple[str, ...] = ("row",)

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self.path, self.source, self._options = source.name, source, options

    def length(self) -> int | None:
        with file_errors(self.path, "Parquet"), _open_parquet(self.path) as file:
            return int(file.metadata.num_rows)

    def layout(self) -> Layout | None:
        with file_errors(self.path, "Parquet"), _open_parquet(self.path) as file:
            names, listed = _vector_columns(file.schema_arrow, self._options, self.path)
            batches = file.iter_batches(PROBE, columns=list(names), use_threads=False)
            return _layout(names, listed, file.schema_arrow, batches, self.path)

    def batches(self, layout: Layout | None, at: At | None) -> Iterator[RowBatch]:
        row = at["row"] if at else 0
        where = file_errors(self.path, "Parquet", lambda: f" from row {row} on")
        with where, _open_parquet(self.path) as file:
            names = _vector_columns(file.schema_arrow, self._options, self.path)[0]
            wanted = _wanted(names, layout, self._options)
            most = batch_rows(self._options.rows, 8 * layout.width if layout else 0)
            for table in _row_groups(file, wanted, row, most):
                row += table.num_rows
                yield _sift_table(
                    table.select(wanted), layout, self._options, self.path, {"row": row}
                )


def _open_parquet(path: str) -> Any:
    from pyarrow import parquet  # noqa: PLC0415

    return parquet.ParquetFile(
        path, pre_buffer=False, buffer_size=BUFFER, page_checksum_verification=True
    )


def _row_groups(file: Any, names: list[str], row: int, most: int) -> Iterator[Any]:
    """Tables from `row` on; the row groups before it are not read."""
    meta = file.metadata
    sizes = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
    starts = np.cumsum([0, *sizes])
    first = int(np.searchsorted(starts, row, side="right")) - 1
    groups, extra = list(range(first, len(sizes))), row - int(starts[first])
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
                return _layout(names, listed, file.schema, pieces, self.path)

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
        with _open_arrow(self.path) as file:
            return _vector_columns(file.schema, self._options, self.path)


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


def _cut(batch: Any, start: int, most: int) -> Iterator[Any]:
    for place in range(start, batch.num_rows, most):
        yield batch.slice(place, most)


def _vector_columns(schema: Any, options: ReadOptions, path: str) -> tuple[tuple[str, ...], bool]:
    """The columns with the vectors, and whether they are one column of lists."""
    if options.ids is not None and not _is_integer(_type(schema, options.ids, path)):
        found = _type(schema, options.ids, path)
        raise InputError(f"{path}: the ids {options.ids!r} are {found}, not integers")
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


def _default_columns(schema: Any, options: ReadOptions, path: str) -> tuple[str, ...]:
    others = [field for field in schema if field.name != options.ids]
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
    """The columns with the vectors, in the order of the layout, and the ids last."""
    names = layout.columns if layout and layout.columns else names
    return [*names, *([] if options.ids is None else [options.ids])]


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


def _is_integer(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_integer(kind))


def _is_number(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_list(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    kind, types = getattr(kind, "storage_type", kind), pa.types  # of an extension type
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists) and _is_number(kind.value_type)


def _sift_table(
    table: Any, layout: Layout | None, options: ReadOptions, path: str, at: At
) -> RowBatch:
    """Good and bad rows of a record batch, the last of which is before row at["row"]."""
    rows, ids = arrow_rows(table, layout, ids=options.ids is not None)
    columns = [_stored(column) for column in table.columns]
    start = at["row"] - table.num_rows

    def reject(place: int) -> Reject:
        values = [column[place].as_py() for column in columns]
        reason = "" if options.ids is None else why_bad_id(values.pop())
        listed = layout is None or layout.listed
        width, names = (layout.width, layout.columns) if layout else (None, None)
        reason = reason or why_bad(
            values[0] if listed else values, width, None if listed else names
        )
        return Reject(f"{path}, row {start + place}", reason, str(values)[:REJECT_TEXT])

    return sift(rows, ids, at, reject)


def arrow_rows(
    table: Any, layout: Layout | None, *, ids: bool
) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """Rows of an Arrow record batch, without a loop over them, and their ids.

    The columns are those of the layout, and then the ids, if `ids`. Where a row or its id is bad,
    the row is NaN; all are if the layout is None.
    """
    columns = [_stored(column) for column in table.columns]
    found, bad = _ids(columns.pop()) if ids else (None, None)
    if layout is None:
        return np.full((table.num_rows, 1), np.nan), found
    rows = _lists(columns[0], layout.width) if layout.listed else _numbers(columns)
    if bad is not None:
        rows[bad] = np.nan
    return rows, found


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


def _ids(column: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Ids, and which are missing or do not fit into 64 bits with a sign."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64:
        missing = missing | (values > LAST_ID)
    return values.astype(np.int64), missing if missing.any() else None
