"""JSON lines: a code a line."""

import json
import os
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from streambits._files import replacing, sync_folder
from streambits.errors import StorageError
from streambits.sinks.appending import Appending
from streambits.sinks.given import Rows


class JsonlSink(Appending):
    """A file of lines such as {"id": 7, "code": "05a0", "epoch": 0}; the code is in hexadecimal.

    Its bytes are those of `Codes.packed`. Memory: what is given at a time.
    """

    kind = "jsonl"

    def __init__(self, path: str | Path, bits: int) -> None:
        file = Path(path)
        super().__init__(file, bits, file.parent, escape(file.name))
        self._file: BinaryIO | None = None
        self._bytes = 0

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
        self._bytes += len(lines)

    def _flush(self) -> None:
        os.fsync(self._open().fileno())

    def _cut(self, state: dict[str, Any]) -> None:
        self._release()
        self._bytes = state["bytes"]
        size = self._size()
        if size < self._bytes:
            raise StorageError(
                f"{self.path} has {size} bytes, and {self._bytes} were written: restore it"
            )
        self._open().truncate(self._bytes)
        self._open().seek(self._bytes)

    def _adopt(self) -> int:
        self._release()
        whole = rows = 0
        for line in self._lines():
            if line.endswith(b"\n"):
                whole, rows = whole + len(line), rows + 1
        self._cut({"bytes": whole})
        return rows

    def _ids(self) -> NDArray[np.int64]:
        return np.fromiter((json.loads(line)["id"] for line in self._lines()), np.int64)

    def _rewrite(self, keep: NDArray[np.bool_]) -> list[str]:
        with replacing(self._swap.new(self.path.name)) as file:
            file.writelines(line for line, stays in zip(self._lines(), keep) if stays)
        return [self.path.name]

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

    def _more(self) -> dict[str, Any]:
        return {"bytes": self._bytes}
