"""NumPy files: ids.npy, codes.npy and epochs.npy in a folder; or one file of packed codes.

Where a sink of ours has left a record of their digests, only what it has committed counts, and
damage is an error; files of others are taken as they are.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from streambits._digests import Digest, Record
from streambits._files import replacing, sync_folder
from streambits.errors import InputError, StorageError
from streambits.io.codes._append import Appending, CodeColumns
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes

HEAD = 128  # bytes before the numbers; NumPy leaves room for them to become many
RECORD = ".digests"  # file beside the arrays
BLOCK = 65536  # rows at a time
NAMES = ("ids.npy", "codes.npy", "epochs.npy")
KINDS = ("<i8", "|u1", "<i4")
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


class NpySink(Appending):
    """Three arrays: ids (n,) int64, codes (n, bytes) uint8 as `Codes.packed`, epochs (n,) int32.

    They are valid files after every commit, and `.digests` has the digests of their numbers.
    Memory: what is written at a time.
    """

    kind = "npy"

    def __init__(self, path: str | Path, bits: int) -> None:
        super().__init__(path, bits, Path(path), *NAMES, RECORD)
        self._record, self._digests = self.path / RECORD, (Digest(),) * len(NAMES)
        width = -(-self.bits // 8)
        self._shapes: tuple[tuple[int, ...], ...] = ((), (width,), ())
        self._files: list[BinaryIO] = []

    def _found(self) -> bool:
        return any(_bytes(path) > HEAD for path in self._paths())

    def _append(self, rows: CodeColumns) -> None:
        columns = [np.ascontiguousarray(c, k).tobytes() for c, k in zip(rows, KINDS, strict=True)]
        for file, column in zip(self._files, columns, strict=True):
            file.write(column)
            file.flush()  # nothing waits here that could be written after someone else
        each = zip(self._digests, columns, strict=True)
        self._digests = tuple(digest.then(column) for digest, column in each)

    def _flush(self) -> None:
        for file, kind, shape in zip(self._files, KINDS, self._shapes, strict=True):
            _write_head(file, kind, (self.rows, *shape))
            os.fsync(file.fileno())

    def _cut(self) -> None:
        self._release()
        for path, digest in zip(self._paths(), self._digests, strict=True):
            there, needed = _bytes(path), HEAD + digest.size
            if digest.size and there < needed:
                raise StorageError(f"{path} has {there} bytes, and {needed} were written")
            self._files.append(path.open("r+b" if path.exists() else "x+b"))
            self._files[-1].truncate(needed)
            self._files[-1].seek(needed)
        sync_folder(self.folder)  # of files that are new
        self._flush()

    def _adopt(self) -> int:
        self._digests = self._recorded().digests
        self.rows = self._digests[0].size // 8
        self._cut()
        return self.rows

    def _ids(self) -> NDArray[np.int64]:
        self._check_digests(self._files, HEAD)
        return np.asarray(np.load(self.path / NAMES[0]))

    def _rewrite(self, kept: NDArray[np.bool_]) -> list[str]:
        digests = []
        for name, kind, shape in zip(NAMES, KINDS, self._shapes, strict=True):
            old, digest = np.load(self.path / name, mmap_mode="r"), Digest()
            with replacing(self._swap.new(name)) as file:
                _write_head(file, kind, (int(kept.sum()), *shape))
                for start in range(0, len(old), BLOCK):
                    some = slice(start, start + BLOCK)
                    block = np.ascontiguousarray(old[some][kept[some]]).tobytes()
                    file.write(block)
                    digest = digest.then(block)
            digests.append(digest)
        return [*NAMES, self._rewritten(tuple(digests))]

    def _paths(self) -> list[Path]:
        return [self.path / name for name in NAMES]

    def _release(self) -> None:
        while self._files:
            self._files.pop().close()


def read_arrays(where: str | Path, *, bits: int | None = None) -> Iterator[CodeBatch]:
    """Read a folder of ids.npy, codes.npy and epochs.npy."""
    ids, packed, epochs = _recorded(Path(where)) or [load_array(Path(where, n)) for n in NAMES]
    _check_packed(packed, where)
    if not len(ids) == len(packed) == len(epochs):
        raise StorageError(f"{where} has arrays of different lengths: {', '.join(NAMES)}")
    for name, array in ((NAMES[0], ids), (NAMES[2], epochs)):
        if array.ndim != 1 or array.dtype.kind != "i":
            raise StorageError(f"{where}/{name} should hold whole numbers, one per code")
    yield from CodeColumns(ids, packed, epochs).batches(bits or 8 * packed.shape[1])


def _recorded(folder: Path) -> list[Any] | None:
    """The arrays that a sink of ours has committed; None if it was not one."""
    record = Record.load(folder / RECORD)
    if record is None:
        return None
    with ExitStack() as stack:
        files = [stack.enter_context(_opened(folder / name)) for name in NAMES]
        record.check(folder / RECORD, files, HEAD)
        rows = record.digests[0].size // 8
        if not rows:
            return [np.empty(0, KINDS[0]), np.empty((0, 1), KINDS[1]), np.empty(0, KINDS[2])]
        shapes = ((rows,), (rows, record.digests[1].size // rows), (rows,))
        each = zip(files, KINDS, shapes, strict=True)
        return [np.memmap(file, kind, "r", HEAD, shape) for file, kind, shape in each]


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


def read_packed(
    where: str | Path, *, bits: int | None = None, epoch: int = 0
) -> Iterator[CodeBatch]:
    """Read a .npy of packed codes, whose ids are their row numbers."""
    packed = load_array(Path(where))
    _check_packed(packed, where)
    if len(packed):
        yield CodeBatch(np.arange(len(packed)), Codes(packed, bits or 8 * packed.shape[1], epoch))


def _check_packed(packed: Any, where: str | Path) -> None:
    if packed.ndim != 2 or packed.dtype != np.uint8 or not packed.shape[1]:
        raise InputError(
            f"{where} has shape {packed.shape} and type {packed.dtype}: packed codes are (n, bytes)"
            f" of uint8; rows are encoded first, by streambits encode"
        )


def load_array(path: Path) -> Any:
    """The array in a .npy file, mapped into memory."""
    try:
        with np.errstate(all="ignore"):  # of a shape that cannot be
            found = np.load(path, mmap_mode="r")
    except UNREADABLE as error:
        raise StorageError(f"{path} cannot be read as .npy: {error}") from error
    if not isinstance(found, np.ndarray):
        found.close()
        raise StorageError(f"{path} cannot be read as .npy: it holds several arrays")
    return found


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _write_head(file: BinaryIO, kind: str, shape: tuple[int, ...]) -> None:
    """The first bytes of a file of `shape`; it stays where it was, or goes behind them."""
    before = file.tell()
    file.seek(0)
    np.lib.format.write_array_header_1_0(
        file, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    if file.tell() != HEAD:
        raise StorageError(f"NumPy wrote {file.tell()} bytes before an array, not {HEAD}")
    file.seek(max(before, HEAD))
    file.flush()
