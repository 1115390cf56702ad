"""NumPy files: ids.npy, codes.npy and epochs.npy in a folder; or one file of packed codes.

Of refined codes there is a refinements.npy too; of codes without sign bits, codes.npy is (n, 0).
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

from streambits._arrays import Ids
from streambits._digests import Digest, Record
from streambits._files import replacing, sync_folder
from streambits.errors import InputError, StorageError
from streambits.io.codes._append import REMOVED, Appending, CodeColumns, live_rows
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes

HEAD = 128  # bytes before the numbers; NumPy leaves room for them to become many
RECORD = ".digests"  # file beside the arrays
BLOCK = 65536  # rows at a time
NAMES = ("ids.npy", "codes.npy", "epochs.npy", "refinements.npy")
KINDS = ("<i8", "|u1", "<i4", "|u1")
PLAIN = 3  # of the files are there for plain codes
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
    """Arrays ids (n,) int64, codes (n, bytes) uint8 as `Codes.packed` and epochs (n,) int32.

    With refinements (n, refine) uint8, where codes have them. They are valid files after every
    commit, and `.digests` has the digests of their numbers. Memory: what is written at a time.
    """

    kind = "npy"
    texts = False

    def __init__(self, path: str | Path, bits: int, *, refine: int = 0) -> None:
        self._names = NAMES if refine else NAMES[:PLAIN]
        super().__init__(path, bits, refine, Path(path), *self._names, RECORD)
        self._record, self._digests = self.path / RECORD, (Digest(),) * len(self._names)
        self._kinds = KINDS[: len(self._names)]
        shapes: tuple[tuple[int, ...], ...] = ((), (-(-self.bits // 8),), (), (self.refine,))
        self._shapes = shapes[: len(self._names)]
        self._files: list[BinaryIO] = []

    def _found(self) -> bool:
        return any(_bytes(path) > HEAD for path in self._paths())

    def _append(self, rows: CodeColumns) -> None:
        kinds = self._kinds
        columns = [np.ascontiguousarray(c, k).tobytes() for c, k in zip(rows, kinds, strict=False)]
        for file, column in zip(self._files, columns, strict=True):
            file.write(column)
            file.flush()  # nothing waits here that could be written after someone else
        each = zip(self._digests, columns, strict=True)
        self._digests = tuple(digest.then(column) for digest, column in each)

    def _flush(self) -> None:
        for file, kind, shape in zip(self._files, self._kinds, self._shapes, strict=True):
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

    def _keys(self) -> tuple[Ids, NDArray[np.int32]]:
        self._check_digests(self._files, HEAD)
        ids, epochs = (np.asarray(np.load(self.path / NAMES[place])) for place in (0, 2))
        return ids, epochs

    def _rewrite(self, kept: NDArray[np.bool_]) -> list[str]:
        digests = []
        for name, kind, shape in zip(self._names, self._kinds, self._shapes, strict=True):
            old, digest = np.load(self.path / name, mmap_mode="r"), Digest()
            with replacing(self._swap.new(name)) as file:
                _write_head(file, kind, (int(kept.sum()), *shape))
                for start in range(0, len(old), BLOCK):
                    some = slice(start, start + BLOCK)
                    block = np.ascontiguousarray(old[some][kept[some]]).tobytes()
                    file.write(block)
                    digest = digest.then(block)
            digests.append(digest)
        return [*self._names, self._rewritten(tuple(digests))]

    def _paths(self) -> list[Path]:
        return [self.path / name for name in self._names]

    def _release(self) -> None:
        while self._files:
            self._files.pop().close()


def read_arrays(where: str | Path, *, bits: int | None = None) -> Iterator[CodeBatch]:
    """Read a folder of ids.npy, codes.npy, epochs.npy and maybe refinements.npy."""
    ids, packed, epochs, *more = _recorded(Path(where)) or _found(Path(where))
    _check_packed(packed, where, least=0 if more else 1)
    for refinement in more:
        _check_packed(refinement, Path(where, NAMES[-1]))
    arrays = (ids, packed, epochs, *more)
    if len({len(array) for array in arrays}) > 1:
        names = ", ".join(NAMES[: len(arrays)])
        raise StorageError(f"{where} has arrays of different lengths: {names}")
    for name, array in ((NAMES[0], ids), (NAMES[2], epochs)):
        if array.ndim != 1 or array.dtype.kind != "i":
            raise StorageError(f"{where}/{name} should hold whole numbers, one per code")
    refinement = more[0] if more else np.empty((len(ids), 0), np.uint8)
    columns = CodeColumns(ids, packed, epochs, refinement, np.empty((len(ids), 0), object))
    if len(epochs) and epochs.min() == REMOVED:
        columns = columns.select(live_rows(ids, epochs))
    yield from columns.batches(8 * packed.shape[1] if bits is None else bits)


def _found(folder: Path) -> list[Any]:
    """The arrays that somebody else has put there."""
    names = NAMES if (folder / NAMES[-1]).exists() else NAMES[:PLAIN]
    return [load_array(folder / name) for name in names]


def _recorded(folder: Path) -> list[Any] | None:
    """The arrays that a sink of ours has committed; None if it was not one."""
    record = Record.load(folder / RECORD)
    if record is None:
        return None
    digests = record.digests  # as many as there were files
    with ExitStack() as stack:
        files = [stack.enter_context(_opened(folder / name)) for name in NAMES[: len(digests)]]
        record.check(folder / RECORD, files, HEAD)
        rows = digests[0].size // 8
        widths = [one.size // rows if rows else 1 for one in digests]
        shapes = ((rows,), (rows, widths[1]), (rows,), (rows, widths[-1]))
        return [_mapped(*each) for each in zip(files, KINDS, shapes, strict=False)]


def _mapped(file: BinaryIO, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Numbers in a file, which is not read; of none there is no map."""
    return np.memmap(file, kind, "r", HEAD, shape) if 0 not in shape else np.empty(shape, kind)


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
        length = 8 * packed.shape[1] if bits is None else bits
        yield CodeBatch(np.arange(len(packed)), Codes(packed, length, epoch))


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
