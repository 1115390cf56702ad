"""Parquet files: a column of lists or columns of numbers, streamed by row groups."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from streambits.io.bad_rows import fault
from streambits.io.rows.columns import choose
from streambits.io.rows.handles import Handle, rows_in_chunk
from streambits.io.rows.parts import At, Layout, Options, Part, reading
from streambits.io.rows.tables import part

BUFFER = 1 << 17  # bytes of a column that are read at once
LOOK = 64  # rows at a time, to find one that is good


class Parquet:
    """One file. Memory: a batch of rows, and a buffer for every column."""

    keys: tuple[str, ...] = ("row",)

    def __init__(self, handle: Handle, options: Options) -> None:
        self.path, self.handle, self._options = handle.name, handle, options

    def length(self) -> int | None:
        with reading(self.path, "Parquet"), _open(self.path) as file:
            return int(file.metadata.num_rows)

    def layout(self) -> Layout | None:
        with reading(self.path, "Parquet"), _open(self.path) as file:
            names, listed = choose(file.schema_arrow, self._options, self.path)
            batches = file.iter_batches(LOOK, columns=list(names), use_threads=False)
            return look(names, listed, file.schema_arrow, batches, self.path)

    def parts(self, layout: Layout | None, at: At | None) -> Iterator[Part]:
        row = at["row"] if at else 0
        ids = self._options.ids
        with reading(self.path, "Parquet", lambda: f" from row {row} on"), _open(self.path) as file:
            names, _ = choose(file.schema_arrow, self._options, self.path)
            names = layout.columns if layout and layout.columns else names
            wanted = [*names, *([] if ids is None else [ids])]
            most = rows_in_chunk(self._options.rows, 8 * layout.width if layout else 0)
            for batch in _batches(file, wanted, row, most):
                row += batch.num_rows
                yield part(batch.select(wanted), layout, ids is not None, self.path, {"row": row})


def look(
    names: tuple[str, ...], listed: bool, schema: Any, batches: Iterator[Any], path: str
) -> Layout | None:
    """How wide rows are: lists of any length are as long as the first good one."""
    if not listed:
        return Layout(len(names), path, names)
    kind = schema.field(names[0]).type
    kind = getattr(kind, "storage_type", kind)
    if hasattr(kind, "list_size"):
        return Layout(kind.list_size, path, names, True)
    values = itertools.chain.from_iterable(batch.column(names[0]).to_pylist() for batch in batches)
    good = next((value for value in values if not fault(value)), None)
    return None if good is None else Layout(len(good), path, names, True)


def _open(path: str) -> Any:
    from pyarrow import parquet  # noqa: PLC0415 - slow to import, and seldom needed

    return parquet.ParquetFile(
        path, pre_buffer=False, buffer_size=BUFFER, page_checksum_verification=True
    )


def _batches(file: Any, names: list[str], row: int, most: int) -> Iterator[Any]:
    """From `row` on: the row groups before it are not read."""
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
