"""Codes on disk: Parquet with columns id, code and epoch, readable by DuckDB, Polars and Spark."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._files import replacing
from streambits.codes import Coded, Codes
from streambits.errors import StorageError

BITS = b"streambits.bits"
COLUMNS = ("id", "code", "epoch")
ROWS = 65536  # at a time


def write_codes(coded: Iterable[Coded], bits: int, path: str | Path) -> None:
    """Ids and codes of `bits` bits into one file; a crash leaves the old file whole."""
    from pyarrow import parquet  # noqa: PLC0415 - slow to import, and seldom needed

    with replacing(Path(path)) as file, parquet.ParquetWriter(file, schema(bits)) as writer:
        for ids, codes in coded:
            writer.write_batch(record_batch(ids, codes))


def read_codes(path: str | Path, *, bits: int | None = None) -> Iterator[Coded]:
    """What a file, or all Parquet files of a folder in the order of their names, hold.

    bits: the length of the codes; by default what the file says, or else whole bytes. Each part
    is of one epoch. Memory: 65536 codes.
    """
    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise StorageError(f"{path} has no Parquet files")
    for file in files:
        yield from _read(file, bits)


def schema(bits: int) -> Any:
    """The columns of a file of codes; its metadata says how many bits they have."""
    import pyarrow as pa  # noqa: PLC0415

    types = (pa.int64(), pa.binary(-(-bits // 8)), pa.int32())
    fields = [pa.field(n, t, nullable=False) for n, t in zip(COLUMNS, types, strict=True)]
    return pa.schema(fields, metadata={BITS: str(bits)})


def record_batch(ids: NDArray[np.int64], codes: Codes) -> Any:
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
    return pa.record_batch(columns, schema=schema(codes.bits))


def _read(path: Path, bits: int | None) -> Iterator[Coded]:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    try:
        with parquet.ParquetFile(path) as file:
            length = _bits(file.schema_arrow, path) if bits is None else bits
            for batch in file.iter_batches(ROWS, columns=list(COLUMNS)):
                yield from _coded(batch, length, path)
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist") from None
    except (pa.ArrowException, OSError) as error:
        raise StorageError(f"{path} cannot be read as Parquet: {error}") from error


def _bits(found: Any, path: Path) -> int:
    import pyarrow as pa  # noqa: PLC0415

    missing = [name for name in COLUMNS if name not in found.names]
    if missing or not pa.types.is_fixed_size_binary(found.field("code").type):
        raise StorageError(
            f"{path} holds no codes: it should have the columns id, code (binary of a fixed size) "
            f"and epoch; it has {', '.join(f'{f.name} ({f.type})' for f in found)}"
        )
    whole = 8 * found.field("code").type.byte_width
    return int((found.metadata or {}).get(BITS, whole))


def _coded(batch: Any, bits: int, path: Path) -> Iterator[Coded]:
    """The codes of a batch, each epoch by itself."""
    if any(column.null_count for column in batch.columns):
        raise StorageError(f"{path} has gaps in its columns {', '.join(COLUMNS)}")
    ids, code, epochs = batch.columns
    width = code.type.byte_width
    packed = np.frombuffer(code.buffers()[1], np.uint8)
    packed = packed[code.offset * width :][: len(code) * width].reshape(-1, width)
    ids, epochs = ids.to_numpy(zero_copy_only=False), epochs.to_numpy(zero_copy_only=False)
    for epoch in np.unique(epochs):
        which = epochs == epoch
        yield Coded(ids[which].astype(np.int64), Codes.known(packed[which], bits, int(epoch)))
