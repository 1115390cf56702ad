"""NumPy files: x.npy of packed codes, and beside it x.ids.npy, x.epochs.npy and x.refinements.npy.

The last is there for refined codes only; for codes without sign bits x.npy is (n, 0). A folder of
ids.npy, codes.npy, epochs.npy and maybe refinements.npy is read in the same way, and so is x.npy
alone, whose ids are the numbers of its rows.
"""

from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from streambits._arrays import concat_ids
from streambits._files import replacing
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.io.codes.columns import TOMBSTONE, CodeColumns, live_rows
from streambits.model.batches import CodeBatch

NAMES = ("ids", "codes", "epochs", "refinements")
UNREADABLE = (  # what NumPy may raise for bytes that are not an array
    OSError,
    ValueError,
    EOFError,
    OverflowError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TokenError,
)


def _paths(where: Path) -> dict[str, Path]:
    """Where each array lies."""
    if where.is_dir():
        return {name: where / f"{name}.npy" for name in NAMES}
    return {name: where.with_suffix(f".{name}.npy") for name in NAMES} | {"codes": where}


def write_arrays(index: HammingIndex, path: Path) -> None:
    """Write all codes, by epoch and then by id.

    The codes come last, and those that are replaced go first: codes have the ids that are beside
    them, or there are none.
    """
    batches = list(index.items())
    ids = concat_ids(batch.ids for batch in batches)
    if ids.dtype.kind == "T":
        raise InputError(
            f"{path} takes ids that are whole numbers, and the first is {ids[0]!r}: write Parquet, "
            f"JSON lines or an index"
        )
    columns = CodeColumns.concat(
        [CodeColumns.empty(index.bits, index.refine or 0)]
        + [CodeColumns.of(*batch, index.bits, index.refine or 0) for batch in batches]
    )
    arrays = dict(zip(NAMES, columns[:4], strict=True))
    paths = _paths(path)
    try:
        path.unlink(missing_ok=True)
        if not index.refine:
            paths["refinements"].unlink(missing_ok=True)
            del arrays["refinements"]
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
    for name in sorted(arrays, key="codes".__eq__):
        with replacing(paths[name]) as file:
            np.save(file, np.ascontiguousarray(arrays[name]), allow_pickle=False)


def read_arrays(where: str, *, bits: int | None = None, epoch: int = 0) -> Iterator[CodeBatch]:
    """Read packed codes and what lies beside them. epoch: of codes without epochs."""
    paths = _paths(Path(where))
    packed = load_array(paths["codes"])
    beside = {
        name: load_array(path) for name, path in paths.items() if name != "codes" and path.exists()
    }
    _check_packed(packed, paths["codes"], least=0 if "refinements" in beside else 1)
    count = len(packed)
    refinement = beside.get("refinements", np.empty((count, 0), np.uint8))
    _check_packed(refinement, paths["refinements"], least=0)
    for name, array in beside.items():
        if name != "refinements" and (array.ndim != 1 or array.dtype.kind != "i"):
            raise StorageError(f"{paths[name]} should hold whole numbers, one per code")
    ids = beside.get("ids", np.arange(count))
    epochs = beside.get("epochs", np.full(count, epoch, np.int32))
    columns = CodeColumns(ids, packed, epochs, refinement, np.empty((count, 0), object))
    if len(set(map(len, columns))) > 1:
        lengths = ", ".join(f"{paths[name]} ({len(array)})" for name, array in beside.items())
        raise StorageError(
            f"{where} has arrays of different lengths: {paths['codes']} ({count}), {lengths}"
        )
    if count and epochs.min() == TOMBSTONE:
        columns = columns.select(live_rows(ids, epochs))
    yield from columns.batches(8 * packed.shape[1] if bits is None else bits)


def _check_packed(packed: Any, where: str | Path, *, least: int = 1) -> None:
    if packed.ndim != 2 or packed.dtype != np.uint8 or packed.shape[1] < least:
        raise InputError(
            f"{where} has shape {packed.shape} and type {packed.dtype}: packed codes are (n, bytes)"
            f" of uint8; rows are encoded first, by streambits encode"
        )


def load_array(path: Path) -> Any:
    """The array in a .npy file, mapped into memory."""
    try:
        with np.errstate(all="ignore"):  # of a shape that cannot be
            array = np.load(path, mmap_mode="r")
    except UNREADABLE as error:
        raise StorageError(f"{path} cannot be read as .npy: {error}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise StorageError(f"{path} cannot be read as .npy: it holds several arrays")
    return array
