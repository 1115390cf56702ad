"""Arrow files (IPC, Feather) and streams: a column of lists or columns of numbers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from streambits.io.rows.columns import choose
from streambits.io.rows.handles import Handle, rows_in_chunk
from streambits.io.rows.parquet import LOOK, look
from streambits.io.rows.parts import At, Layout, Options, Part, reading
from streambits.io.rows.tables import part

MAGIC = b"ARROW1"  # of a file; a stream has none


class Arrow:
    """One file. Memory: a record batch of it, as it was written, of the columns in use.

    It is read, not mapped: a mapped file that somebody cuts off ends the process by a signal.
    """

    keys: tuple[str, ...] = ("row", "batch", "within")

    def __init__(self, handle: Handle, options: Options) -> None:
        self.path, self.handle, self._options = handle.name, handle, options

    def length(self) -> int | None:
        return None

    def layout(self) -> Layout | None:
        with reading(self.path, "Arrow"):
            names, listed = self._choose()
            with _open(self.path, names) as file:
                batches = _batches(file, list(names), 0)
                pieces = (piece for _, batch in batches for piece in _cut(batch, 0, LOOK))
                return look(names, listed, file.schema, pieces, self.path)

    def parts(self, layout: Layout | None, at: At | None) -> Iterator[Part]:
        at = at or {"row": 0, "batch": 0, "within": 0}
        row, within, ids = at["row"], at["within"], self._options.ids
        with reading(self.path, "Arrow", lambda: f" from row {row} on"):
            names = layout.columns if layout and layout.columns else self._choose()[0]
            wanted = [*names, *([] if ids is None else [ids])]
            most = rows_in_chunk(self._options.rows, 8 * layout.width if layout else 0)
            with _open(self.path, wanted) as file:
                for number, batch in _batches(file, wanted, at["batch"]):
                    for piece in _cut(batch, within, most):
                        row, within = row + piece.num_rows, within + piece.num_rows
                        place = {"row": row, "batch": number, "within": within}
                        yield part(piece, layout, ids is not None, self.path, place)
                    within = 0

    def _choose(self) -> tuple[tuple[str, ...], bool]:
        with _open(self.path) as file:
            return choose(file.schema, self._options, self.path)


@contextmanager
def _open(path: str, names: Sequence[str] = ()) -> Iterator[Any]:
    """The file, with these columns of it, or all of them if none is named."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and seldom needed

    with pa.OSFile(path) as source:
        start = pa.ipc.open_file if source.read(len(MAGIC)) == MAGIC else pa.ipc.open_stream
        source.seek(0)
        file = start(source)
        if names:
            source.seek(0)
            places = sorted(file.schema.get_field_index(name) for name in names)
            file = start(source, options=pa.ipc.IpcReadOptions(included_fields=places))
        yield file


def _batches(file: Any, names: list[str], first: int) -> Iterator[tuple[int, Any]]:
    """Batches with their numbers; those of a stream that come before are passed over."""
    if hasattr(file, "num_record_batches"):
        numbered = ((i, file.get_batch(i)) for i in range(first, file.num_record_batches))
    else:
        numbered = ((i, batch) for i, batch in enumerate(file) if i >= first)
    for number, batch in numbered:
        chosen = batch.select(names)
        chosen.validate(full=True)  # it is not checked otherwise
        yield number, chosen


def _cut(batch: Any, start: int, most: int) -> Iterator[Any]:
    for place in range(start, batch.num_rows, most):
        yield batch.slice(place, most)
