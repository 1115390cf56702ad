"""NumPy files: ids.npy, codes.npy and epochs.npy in a folder."""

import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from streambits._digests import Digest
from streambits._files import replacing, sync_folder
from streambits.errors import StorageError
from streambits.io.codes.appending import Appending
from streambits.io.codes.given import Rows

HEAD = 128  # bytes before the numbers; NumPy leaves room for them to become many
RECORD = ".digests"  # file beside the arrays
BLOCK = 65536  # rows at a time
NAMES = ("ids.npy", "codes.npy", "epochs.npy")
KINDS = ("<i8", "|u1", "<i4")


class NpySink(Appending):
    """Three arrays: ids (n,) int64, codes (n, bytes) uint8 as `Codes.packed`, epochs (n,) int32.

    They are valid files after every commit, and `.digests` has the digests of their numbers.
    Memory: what is given at a time.
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

    def _append(self, rows: Rows) -> None:
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

    def _rewrite(self, keep: NDArray[np.bool_]) -> list[str]:
        digests = []
        for name, kind, shape in zip(NAMES, KINDS, self._shapes, strict=True):
            old, digest = np.load(self.path / name, mmap_mode="r"), Digest()
            with replacing(self._swap.new(name)) as file:
                _write_head(file, kind, (int(keep.sum()), *shape))
                for start in range(0, len(old), BLOCK):
                    some = slice(start, start + BLOCK)
                    block = np.ascontiguousarray(old[some][keep[some]]).tobytes()
                    file.write(block)
                    digest = digest.then(block)
            digests.append(digest)
        return [*NAMES, self._rewritten(tuple(digests))]

    def _paths(self) -> list[Path]:
        return [self.path / name for name in NAMES]

    def _release(self) -> None:
        while self._files:
            self._files.pop().close()


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
