"""JSON lines: a code a line."""

import json
import os
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from streambits._digests import Digest, beside
from streambits._files import replacing, sync_folder
from streambits.errors import StorageError
from streambits.io.codes.appending import Appending
from streambits.io.codes.given import Rows


class JsonlSink(Appending):
    """A file of lines such as {"id": 7, "code": "05a0", "epoch": 0}; the code is in hexadecimal.

    Its bytes are those of `Codes.packed`. Their digest is in `.NAME.digest` beside the file.
    Memory: what is given at a time.
    """

    kind = "jsonl"

    def __init__(self, path: str | Path, bits: int) -> None:
        file = Path(path)
        record = beside(file)
        super().__init__(file, bits, file.parent, escape(file.name), escape(record.name))
        self._record, self._digests = record, (Digest(),)
        self._file: BinaryIO | None = None

    def _found(self) -> bool:
        return self._size() > 0

    def _append(self, rows: Rows) -> None:
        lines = "".join(
            f'{{"id": {name}, "code": "{code.tobytes().hex()}", "epoch": {epoch}}}\n'
            for name, code, epoch in zip(
                rows.ids.tolist(), rows.packed, rows.epochs.tolist(), strict=True
            )
        ).encode()
        self._open().write(lines)
        self._open().flush()  # nothing waits here that could be written after someone else
        self._digests = (self._digests[0].then(lines),)

    def _flush(self) -> None:
        os.fsync(self._open().fileno())

    def _cut(self) -> None:
        self._release()
        size, needed = self._size(), self._digests[0].size
        if size < needed:
            raise StorageError(
                f"{self.path} has {size} bytes, and {needed} were written: restore it"
            )
        self._open().truncate(needed)
        self._open().seek(needed)

    def _adopt(self) -> int:
        self._release()
        self._digests = self._recorded().digests
        self._cut()
        return sum(1 for _ in self._lines())

    def _ids(self) -> NDArray[np.int64]:
        self._check_digests([self._open()])
        return np.fromiter((json.loads(line)["id"] for line in self._lines()), np.int64)

    def _rewrite(self, keep: NDArray[np.bool_]) -> list[str]:
        digest = Digest()
        with replacing(self._swap.new(self.path.name)) as file:
            for line, stays in zip(self._lines(), keep, strict=True):
                if stays:
                    file.write(line)
                    digest = digest.then(line)
        return [self.path.name, self._rewritten((digest,))]

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from file

    def _open(self) -> BinaryIO:
        if self._file is None:
            new = not self.path.exists()
            self._file = self.path.open("x+b" if new else "r+b")
            if new:
                sync_folder(self.folder)
        return self._file

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
