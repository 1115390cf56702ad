"""Rejects: rows that cannot be used, each refused or put aside in a file."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from streambits._files import sync_folder
from streambits.errors import InputError, StorageError
from streambits.jobs.folder import told
from streambits.streams.connect import Reject


class Rejects:
    """A file of lines such as {"where": "a.csv:7", "reason": "...", "text": "..."}.

    skip: put rows aside; otherwise the first one is an error. length: of the file, in bytes.
    The file is made when it is needed, for its owner alone: it holds rows as they came.
    """

    def __init__(self, path: Path | None, *, skip: bool) -> None:
        if skip and path is None:
            raise InputError("say in which file bad rows are put aside")
        self.path, self.skip = path, skip
        self.count = self.length = 0
        self._file: BinaryIO | None = None

    def check(self, rejects: Iterable[Reject]) -> None:
        """An error for the first one, unless they are put aside."""
        for reject in () if self.skip else rejects:
            raise InputError(f"{reject.where}: {reject.reason}; --skip-bad puts such rows aside")

    def put(self, rejects: Iterable[Reject]) -> None:
        """Append to the file."""
        lines = [json.dumps(reject._asdict()).encode() + b"\n" for reject in rejects]
        if not lines:
            return
        with told(self._named):
            self._open().writelines(lines)
            self._open().flush()
        self.count += len(lines)
        self.length += sum(map(len, lines))

    def commit(self) -> None:
        """Bring it to the disk."""
        if self._file is not None:
            with told(self._named):
                os.fsync(self._file.fileno())

    def resume(self, count: int, length: int) -> None:
        """Go back to what was committed."""
        self.close()
        self.count, self.length = count, length
        if self.path is None or not (length or self.path.exists()):
            return
        with told(self.path):
            size = self.path.stat().st_size if self.path.exists() else 0
            if size < length:
                raise StorageError(
                    f"{self.path} has {size} bytes, and {length} were written: restore it"
                )
            if length:
                os.truncate(self.path, length)
            else:
                self.path.unlink()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def _named(self) -> Path:
        return self.path or Path("rejects")

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._file = open(self._named, "ab", opener=_private)  # noqa: SIM115
            sync_folder(self._named.parent)
        return self._file


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
