"""Parquet: files with columns id, code and epoch, readable by DuckDB, Polars and Spark.

Every page has a checksum, and the footer a digest of what the columns hold, which covers what the
checksums do not: types, order and number of rows, and the length of the codes. Files without one
were written by others, and are taken as they are.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_count
from streambits._digests import Digest
from streambits._files import replacing
from streambits.errors import StorageError
from streambits.index.queries import last_of_each
from streambits.io.codes._append import Appending, CodeColumns
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes

BITS = b"streambits.bits"
DIGEST = b"streambits.digest"
FIELD_ID = b"PARQUET:field_id"
OURS, SPAN = 0x73620000, 0x10000  # field ids that begin with "sb", then the number of bits
COLUMNS = ("id", "code", "epoch")
ROWS = 65536  # at a time


class ParquetSink(Appending):
    """A data set of files part-000000.parquet and so on, which `read_codes` reads.

    All have `rows` rows but the last. A commit writes the last one anew, so the folder can be read
    at any time, and what is in a file depends on the rows and not on the commits.
    Memory: `rows` codes.
    """

    kind = "parquet"

    def __init__(self, path: str | Path, bits: int, *, rows: int = ROWS) -> None:
        super().__init__(path, bits, Path(path), "part-*.parquet")
        self.size = as_count(rows, "rows")
        self._parts = 0  # that are full
        self._tail: list[CodeColumns] = []
        self._written = -1  # rows, when the last file was written

    def _found(self) -> bool:
        return any(len(self._load(path).ids) for path in self._swap.files())

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
            last = CodeColumns.concat([CodeColumns.empty(self.bits), *self._tail])
            self._save(last, self._part(self._parts))
        self._written = self.rows

    def _cut(self) -> None:
        self._parts, waiting = divmod(self.rows, self.size)
        missing = [k for k in range(self._parts) if not self._part(k).exists()]
        if missing:
            raise StorageError(f"{self._part(missing[0])} is gone, and was written: restore it")
        last = self._load(self._part(self._parts)) if waiting else CodeColumns.empty(self.bits)
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
        return np.concatenate([CodeColumns.empty(self.bits).ids, *ids])

    def _rewrite(self, kept: NDArray[np.bool_]) -> list[str]:
        names: list[str] = []
        for rows in self._pieces(kept):
            name = self._part(len(names)).name
            self._save(rows, self._swap.new(name))
            names.append(name)
        return names

    def _pieces(self, kept: NDArray[np.bool_]) -> Iterator[CodeColumns]:
        """The rows that are kept, as many at a time as a file holds."""
        held, seen = CodeColumns.empty(self.bits), 0
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
        write_codes(rows.batches(self.bits), self.bits, path)

    def _load(self, path: Path) -> CodeColumns:
        return CodeColumns.concat([CodeColumns.empty(self.bits), *_read_columns(path)])

    def _part(self, number: int) -> Path:
        return self.path / f"part-{number:06d}.parquet"

    def _fixed(self) -> dict[str, Any]:
        return {"size": self.size}


def write_codes(batches: Iterable[CodeBatch], bits: int, path: str | Path) -> None:
    """Write ids and codes of `bits` bits to one file; a crash leaves the old file whole."""
    from pyarrow import parquet  # noqa: PLC0415 - slow to import, and seldom needed

    found = _Content(bits)
    with (
        replacing(Path(path)) as file,
        parquet.ParquetWriter(file, _schema(bits), write_page_checksum=True) as writer,
    ):
        for ids, codes in batches:
            record = _record_batch(ids, codes)
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


def _schema(bits: int) -> Any:
    """The columns of a file of codes; its metadata says how many bits they have.

    So does the field id of the codes, which lies elsewhere in the file: if damage took the
    metadata, it would pass for one of others, with codes of whole bytes.
    """
    import pyarrow as pa  # noqa: PLC0415

    mark = {FIELD_ID: str(OURS + bits)}
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("code", pa.binary(-(-bits // 8)), nullable=False, metadata=mark),
        pa.field("epoch", pa.int32(), nullable=False),
    ]
    return pa.schema(fields, metadata={BITS: str(bits)})


class _Content:
    """What columns hold, in a few characters: the same for any split into batches.

    >>> str(_Content(8))
    '8 bits, 0 rows: 00000000 00000000 00000000'
    """

    def __init__(self, bits: int) -> None:
        self.bits, self.rows = bits, 0
        self._digests = [Digest()] * len(COLUMNS)

    def update(self, batch: Any) -> None:
        """The next rows; their columns are those of COLUMNS and have no gaps."""
        self.rows += len(batch)
        each = zip(self._digests, map(_bytes, batch.columns), strict=True)
        self._digests = [digest.then(column) for digest, column in each]

    def __str__(self) -> str:
        checks = " ".join(f"{digest.crc:08x}" for digest in self._digests)
        return f"{self.bits} bits, {self.rows} rows: {checks}"


def _bytes(column: Any) -> Any:
    """The values of a column without gaps, one after another."""
    width = column.type.bit_width // 8
    values = memoryview(column.buffers()[1] or b"").cast("B")
    return values[column.offset * width : (column.offset + len(column)) * width]


def _record_batch(ids: NDArray[np.int64], codes: Codes) -> Any:
    """Ids and codes in columns, without a loop over codes."""
    import pyarrow as pa  # noqa: PLC0415

    packed = pa.py_buffer(np.ascontiguousarray(codes.packed))
    columns = [
        pa.array(np.asarray(ids, np.int64)),
        pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(codes.packed.shape[1]), len(codes), [None, packed]
        ),
        pa.array(np.full(len(codes), codes.epoch, np.int32)),
    ]
    return pa.record_batch(columns, schema=_schema(codes.bits))


def _read_columns(path: Path) -> Iterator[CodeColumns]:
    """What a file of ours holds, in its order; it is checked at its end."""
    return (_columns(batch) for batch, _ in _batches(path))


def _read(path: Path, bits: int | None) -> Iterator[CodeBatch]:
    """The codes of a file, each epoch of a batch by itself."""
    for batch, held in _batches(path):
        columns = _columns(batch)
        if len(epochs := np.unique(columns.epochs)) > 1:  # which would be out of order
            columns = columns.select(last_of_each(columns.ids))
        for epoch in epochs:
            ids, packed, _ = columns.select(columns.epochs == epoch)
            yield CodeBatch(ids, Codes(packed, bits or held, int(epoch)))


def _batches(path: Path) -> Iterator[tuple[Any, int]]:
    """What a file holds, and the length of its codes; its digest is checked at the end."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            bits, digest = _promised(file, path)
            content = _Content(bits)
            for found in file.iter_batches(ROWS, columns=list(COLUMNS)):
                batch = found.select(COLUMNS)  # in this order, whatever the file's is
                if any(column.null_count for column in batch.columns):
                    raise StorageError(f"{path} has gaps in its columns {', '.join(COLUMNS)}")
                content.update(batch)
                yield batch, bits
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} cannot be read as Parquet: {error}") from error
    if digest not in (None, str(content)):
        raise _damaged(path, f"it holds {content}, and {digest} were written")


def _promised(file: Any, path: Path) -> tuple[int, str | None]:
    """The length of the codes, and what a file of ours says that it holds."""
    found = file.schema_arrow
    types = [found.field(name).type for name in COLUMNS if found.names.count(name) == 1]
    if len(types) < len(COLUMNS) or not _are_codes(*types):
        raise StorageError(
            f"{path} holds no codes: it should have the columns id (whole numbers), code (binary "
            f"of a fixed size) and epoch (whole numbers); it has "
            f"{', '.join(f'{field.name} ({field.type})' for field in found)}"
        )
    marks = file.metadata.metadata or {}
    bits = _bits(marks.get(BITS), types[1].byte_width, path)
    if _bits_of_field(found.field("code")) not in (None, bits):
        raise _damaged(path, f"{BITS.decode()} is not there, or differs from what its schema says")
    if DIGEST not in marks:
        return bits, None
    digest = marks[DIGEST].decode(errors="replace")
    if not (found.equals(_schema(bits)) and digest.startswith(f"{bits} bits, ")):
        raise _damaged(path, f"its columns are not those of codes of {bits} bits")
    return bits, digest


def _are_codes(ids: Any, codes: Any, epochs: Any) -> bool:
    from pyarrow import types  # noqa: PLC0415

    whole = types.is_integer(ids) and types.is_integer(epochs)
    return bool(whole and types.is_fixed_size_binary(codes) and codes.byte_width)


def _bits(noted: bytes | None, width: int, path: Path) -> int:
    """The length of codes of `width` bytes: as noted, or else all of them."""
    if noted is None:
        return 8 * width
    if not noted.isdigit() or len(noted) > 4 or -(-int(noted) // 8) != width:
        raise _damaged(path, f"{BITS.decode()} is {noted!r}, and codes have {width} bytes")
    return int(noted)


def _bits_of_field(code: Any) -> int | None:
    """What the field id of codes says of their length; None if it is not one of ours."""
    number = (code.metadata or {}).get(FIELD_ID, b"")
    bits = int(number) - OURS if number.isdigit() and len(number) <= len(str(OURS)) else -1
    return bits if 0 <= bits < SPAN else None


def _damaged(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"{path} is damaged ({reason}): restore it; or, if another program has rewritten it, let "
        f"it write plain columns without metadata"
    )


def _columns(batch: Any) -> CodeColumns:
    """Ids, packed codes and epochs of a batch, without a loop over codes."""
    ids, code, epochs = batch.columns
    packed = np.frombuffer(_bytes(code), np.uint8).reshape(-1, code.type.byte_width)
    ids, epochs = (column.to_numpy(zero_copy_only=False) for column in (ids, epochs))
    return CodeColumns(ids.astype(np.int64), packed, epochs)
