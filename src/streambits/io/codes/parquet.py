"""Parquet: files with columns id, code and epoch, readable by DuckDB, Polars and Spark.

Refined codes have a column `refinement` after the code; codes without sign bits no column `code`,
for not every reader knows binary values of no bytes.

Every page has a checksum, and the footer a digest of what the columns hold, which covers what the
checksums do not: types, order and number of rows, and the length of the codes. Files without one
were written by others, and are taken as they are.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_count
from streambits._digests import Digest
from streambits._files import replacing
from streambits.errors import StorageError
from streambits.index.queries import last_of_each
from streambits.io.codes._append import Appending, CodeColumns
from streambits.model.batches import CodeBatch
from streambits.model.codes import MOST_BYTES

BITS = b"streambits.bits"
DIGEST = b"streambits.digest"
FIELD_ID = b"PARQUET:field_id"
OURS, SPAN = 0x73620000, 0x10000  # field ids that begin with "sb", then a length
BYTES, BESIDE = 0x2000, 0x8000  # added to that of a refinement; where code and refinement are there
ROWS = 65536  # at a time


class ParquetSink(Appending):
    """A data set of files part-000000.parquet and so on, which `read_codes` reads.

    All have `rows` rows but the last. A commit writes the last one anew, so the folder can be read
    at any time, and what is in a file depends on the rows and not on the commits.
    Memory: `rows` codes.
    """

    kind = "parquet"

    def __init__(self, path: str | Path, bits: int, *, refine: int = 0, rows: int = ROWS) -> None:
        super().__init__(path, bits, refine, Path(path), "part-*.parquet")
        self._layout = _Layout(self.bits, self.refine)
        self._none = CodeColumns.empty(self.bits, self.refine)
        self.size = as_count(rows, "rows")
        self._parts = 0  # that are full
        self._tail: list[CodeColumns] = []
        self._written = -1  # rows, when the last file was written

    def _found(self) -> bool:
        files = self._swap.files()
        return any(len(rows.ids) for path in files for rows in _read_columns(path))

    def _append(self, rows: CodeColumns) -> None:
        self._tail.append(rows)
        waiting = sum(len(rows.ids) for rows in self._tail)
        if waiting < self.size:
            return
        together = CodeColumns.concat(self._tail)
        for start in range(0, waiting - self.size + 1, self.size):
            self._save(together.select(slice(start, start + self.size)), self._part(self._parts))
            self._parts += 1
        self._tail = [together.select(slice(waiting - waiting % self.size, None))]

    def _flush(self) -> None:
        waiting = sum(len(rows.ids) for rows in self._tail)
        if self._written != self.rows and (waiting or not self._parts):
            last = CodeColumns.concat([self._none, *self._tail])
            self._save(last, self._part(self._parts))
        self._written = self.rows

    def _cut(self) -> None:
        self._parts, waiting = divmod(self.rows, self.size)
        missing = [k for k in range(self._parts) if not self._part(k).exists()]
        if missing:
            raise StorageError(f"{self._part(missing[0])} is gone, and was written: restore it")
        last = self._load(self._part(self._parts)) if waiting else self._none
        if len(last.ids) < waiting:
            raise StorageError(
                f"{self._part(self._parts)} has {len(last.ids)} rows, and {waiting} were written"
            )
        self._tail, self._written = [last.select(slice(waiting))], -1
        for path in self._swap.files()[self._parts + (waiting > 0) :]:
            path.unlink()
        self._flush()

    def _adopt(self) -> int:
        *full, last = self._swap.files() or [self._part(0)]
        self._parts = len(full)
        self._tail = [self._load(last)] if last.exists() else []
        return self._parts * self.size + sum(len(rows.ids) for rows in self._tail)

    def _ids(self) -> NDArray[np.int64]:
        ids = [columns.ids for path in self._swap.files() for columns in _read_columns(path)]
        return np.concatenate([self._none.ids, *ids])

    def _rewrite(self, kept: NDArray[np.bool_]) -> list[str]:
        names: list[str] = []
        for rows in self._pieces(kept):
            name = self._part(len(names)).name
            self._save(rows, self._swap.new(name))
            names.append(name)
        return names

    def _pieces(self, kept: NDArray[np.bool_]) -> Iterator[CodeColumns]:
        """The rows that are kept, as many at a time as a file holds."""
        held, seen = self._none, 0
        for path in self._swap.files():
            rows = self._load(path)
            some = rows.select(kept[seen : seen + len(rows.ids)])
            held, seen = CodeColumns.concat([held, some]), seen + len(rows.ids)
            if len(held.ids) >= self.size:
                yield held.select(slice(self.size))
                held = held.select(slice(self.size, None))
        if len(held.ids):
            yield held

    def _save(self, rows: CodeColumns, path: Path) -> None:
        write_codes(rows.batches(self.bits), self.bits, path, refine=self.refine)

    def _load(self, path: Path) -> CodeColumns:
        return CodeColumns.concat([self._none, *_read_columns(path, self._layout)])

    def _part(self, number: int) -> Path:
        return self.path / f"part-{number:06d}.parquet"

    def _fixed(self) -> dict[str, Any]:
        return {"size": self.size}


def write_codes(
    batches: Iterable[CodeBatch], bits: int, path: str | Path, *, refine: int = 0
) -> None:
    """Write ids and codes of `bits` bits and `refine` bytes to one file, all of it or nothing."""
    from pyarrow import parquet  # noqa: PLC0415 - slow to import, and seldom needed

    layout = _Layout(bits, refine)
    found, schema = _Content(layout), _schema(layout)
    with (
        replacing(Path(path)) as file,
        parquet.ParquetWriter(file, schema, write_page_checksum=True) as writer,
    ):
        for ids, codes in batches:
            record = _record_batch(CodeColumns.of(ids, codes, bits, refine), schema)
            found.update(record)
            writer.write_batch(record)
        writer.add_key_value_metadata({DIGEST: str(found)})


def read_codes(path: str | Path, *, bits: int | None = None) -> Iterator[CodeBatch]:
    """Read a file, or all Parquet files of a folder in the order of their names.

    bits: the length of the codes; by default what the file says, or else whole bytes. Damage to a
    file of ours is an error, at the latest after its last batch. Memory: 65536 codes.
    """
    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise StorageError(f"{path} has no Parquet files")
    for file in files:
        yield from _read(file, bits)


class _Layout(NamedTuple):
    """Lengths of the codes in a file, from which its columns follow.

    >>> _Layout(12, 0).columns, str(_Layout(12, 0))
    (('id', 'code', 'epoch'), '12 bits')
    >>> _Layout(0, 8).columns, str(_Layout(0, 8))
    (('id', 'refinement', 'epoch'), '0 bits and 8 bytes')
    """

    bits: int
    refine: int

    @property
    def columns(self) -> tuple[str, ...]:
        return ("id", *self.marks, "epoch")

    @property
    def marks(self) -> dict[str, int]:
        """The field ids of code and refinement: how long it is, and whether there is the other."""
        beside = BESIDE if self.bits and self.refine else 0
        marks = {"code": OURS + self.bits + beside} if self.bits else {}
        return marks | ({"refinement": OURS + BYTES + self.refine + beside} if self.refine else {})

    def __str__(self) -> str:
        return f"{self.bits} bits" + (f" and {self.refine} bytes" if self.refine else "")


def _schema(layout: _Layout) -> Any:
    """The columns of a file of codes; its metadata says how many bits they have.

    So do the field ids of code and refinement, which lie elsewhere in the file: if damage took the
    metadata, it would pass for one of others, with codes of whole bytes; or, if a column was taken
    away, for one of other codes.
    """
    import pyarrow as pa  # noqa: PLC0415

    widths = {"code": -(-layout.bits // 8), "refinement": layout.refine}
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        *(
            pa.field(name, pa.binary(widths[name]), nullable=False, metadata={FIELD_ID: str(mark)})
            for name, mark in layout.marks.items()
        ),
        pa.field("epoch", pa.int32(), nullable=False),
    ]
    return pa.schema(fields, metadata={BITS: str(layout.bits)})


class _Content:
    """What columns hold, in a few characters: the same for any split into batches.

    >>> str(_Content(_Layout(8, 0)))
    '8 bits, 0 rows: 00000000 00000000 00000000'
    """

    def __init__(self, layout: _Layout) -> None:
        self.layout, self.rows = layout, 0
        self._digests = [Digest()] * len(layout.columns)

    def update(self, batch: Any) -> None:
        """The next rows; their columns are those of the layout and have no gaps."""
        self.rows += len(batch)
        each = zip(self._digests, map(_bytes, batch.columns), strict=True)
        self._digests = [digest.then(column) for digest, column in each]

    def __str__(self) -> str:
        checks = " ".join(f"{digest.crc:08x}" for digest in self._digests)
        return f"{self.layout}, {self.rows} rows: {checks}"


def _bytes(column: Any) -> Any:
    """The values of a column without gaps, one after another."""
    width = column.type.bit_width // 8
    values = memoryview(column.buffers()[1] or b"").cast("B")
    return values[column.offset * width : (column.offset + len(column)) * width]


def _record_batch(rows: CodeColumns, schema: Any) -> Any:
    """Ids and codes in the columns of a schema, without a loop over codes."""
    import pyarrow as pa  # noqa: PLC0415

    columns = [
        pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(part.shape[1]), len(part), [None, pa.py_buffer(np.ascontiguousarray(part))]
        )
        for part in (rows.packed, rows.refinement)
        if part.shape[1]
    ]
    columns = [pa.array(rows.ids), *columns, pa.array(rows.epochs)]
    return pa.record_batch(columns, schema=schema)


def _read_columns(path: Path, wanted: _Layout | None = None) -> Iterator[CodeColumns]:
    """What a file of ours holds, in its order; it is checked at its end."""
    for batch, layout in _batches(path):
        if wanted not in (None, layout):
            raise StorageError(f"{path} has codes of {layout}, not {wanted}: restore it")
        yield _columns(batch)


def _read(path: Path, bits: int | None) -> Iterator[CodeBatch]:
    """The codes of a file, each epoch of a batch by itself."""
    for batch, held in _batches(path):
        columns = _columns(batch)
        if len(epochs := np.unique(columns.epochs)) > 1:  # which would be out of order
            columns = columns.select(last_of_each(columns.ids))
        for epoch in epochs:
            some = columns.select(columns.epochs == epoch)
            yield some.batch(held.bits if bits is None else bits)


def _batches(path: Path) -> Iterator[tuple[Any, _Layout]]:
    """What a file holds, and the lengths of its codes; its digest is checked at the end."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            layout, digest = _promised(file, path)
            content, columns = _Content(layout), layout.columns
            for found in file.iter_batches(ROWS, columns=list(columns)):
                batch = found.select(columns)  # in this order, whatever the file's is
                if any(column.null_count for column in batch.columns):
                    raise StorageError(f"{path} has gaps in its columns {', '.join(columns)}")
                content.update(batch)
                yield batch, layout
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} cannot be read as Parquet: {error}") from error
    if digest not in (None, str(content)):
        raise _damaged(path, f"it holds {content}, and {digest} were written")


def _promised(file: Any, path: Path) -> tuple[_Layout, str | None]:
    """The lengths of the codes, and what a file of ours says that it holds."""
    found = file.schema_arrow
    widths = _widths(found)
    if widths is None:
        raise StorageError(
            f"{path} holds no codes: it should have the columns id (whole numbers), code (binary "
            f"of a fixed size), refinement (the same, where codes are refined) and epoch (whole "
            f"numbers); it has {', '.join(f'{field.name} ({field.type})' for field in found)}"
        )
    marks = file.metadata.metadata or {}
    bits = _bits(marks.get(BITS), widths.get("code", 0), path)
    layout = _Layout(bits, widths.get("refinement", 0))
    noted = {name: mark for name in widths if (mark := _mark(found.field(name))) is not None}
    if not noted.items() <= layout.marks.items():
        raise _damaged(path, f"its schema is that of codes of other lengths than {layout}")
    if DIGEST not in marks:
        return layout, None
    digest = marks[DIGEST].decode(errors="replace")
    if not (found.equals(_schema(layout)) and digest.startswith(f"{layout}, ")):
        raise _damaged(path, f"its columns are not those of codes of {layout}")
    return layout, digest


def _widths(found: Any) -> dict[str, int] | None:
    """Bytes of the columns code and refinement, as far as they are there; None for no codes."""
    from pyarrow import types  # noqa: PLC0415

    whole = [found.field(name).type for name in ("id", "epoch") if found.names.count(name) == 1]
    held = [found.field(n) for n, name in enumerate(found.names) if name in ("code", "refinement")]
    widths = {one.name: one.type.byte_width for one in held if types.is_fixed_size_binary(one.type)}
    right = len(whole) == 2 and all(map(types.is_integer, whole))
    right = right and 1 <= len(widths) == len(held) and min(widths.values()) > 0
    return widths if right and widths.get("refinement", 0) <= MOST_BYTES else None


def _bits(noted: bytes | None, width: int, path: Path) -> int:
    """The length of codes of `width` bytes: as noted, or else all of them."""
    if noted is None:
        return 8 * width
    if not noted.isdigit() or len(noted) > 4 or -(-int(noted) // 8) != width:
        raise _damaged(path, f"{BITS.decode()} is {noted!r}, and codes have {width} bytes")
    return int(noted)


def _mark(field: Any) -> int | None:
    """The field id of a column; None if it is not one of ours."""
    number = (field.metadata or {}).get(FIELD_ID, b"")
    mark = int(number) if number.isdigit() and len(number) <= len(str(OURS)) else 0
    return mark if OURS <= mark < OURS + SPAN else None


def _damaged(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"{path} is damaged ({reason}): restore it; or, if another program has rewritten it, let "
        f"it write plain columns without metadata"
    )


def _columns(batch: Any) -> CodeColumns:
    """Ids, codes and epochs of a batch, without a loop over codes."""
    held = dict(zip(batch.schema.names, batch.columns, strict=True))
    packed, refinement = (
        np.frombuffer(_bytes(held[name]), np.uint8).reshape(-1, held[name].type.byte_width)
        if name in held
        else np.empty((len(batch), 0), np.uint8)
        for name in ("code", "refinement")
    )
    ids, epochs = (held[name].to_numpy(zero_copy_only=False) for name in ("id", "epoch"))
    return CodeColumns(ids.astype(np.int64), packed, epochs, refinement)
