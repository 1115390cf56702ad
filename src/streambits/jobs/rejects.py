"""Rejects: rows that cannot be used, each refused or put aside in a file."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from streambits._digests import Digest
from streambits._files import private_opener, sync_folder
from streambits.errors import InputError, StorageError
from streambits.jobs.folder import disk_errors
from streambits.model.batches import Reject


class Rejects:
    """A file of lines such as {"where": "a.csv:7", "reason": "...", "text": "..."}.

    skip: put rows aside; otherwise the first one is an error. digest: of the file.
    The file is made when it is needed, for its owner alone: it holds rows as they came.
    """

    def __init__(self, path: Path | None, *, skip: bool) -> None:
        if skip and path is None:
            raise InputError("say in which file bad rows are put aside")
        self.path, self.skip = path, skip
        self.count, self.digest = 0, Digest()
        self._file: BinaryIO | None = None

    def check(self, rejects: Iterable[Reject]) -> None:
        """An error for the first one, unless they are put aside."""
        for reject in () if self.skip else rejects:
            raise InputError(f"{reject.where}: {reject.reason}; --skip-bad puts such rows aside")

    def put(self, rejects: Iterable[Reject]) -> None:
        """Append to the file."""
        lines = [json.dumps(reject._asdict()).encode() + b"\n" for reject in rejects]
        content = b"".join(lines)
        if not lines:
            return
        with disk_errors(self._named):
            self._open().write(content)
            self._open().flush()
        self.count += len(lines)
        self.digest = self.digest.then(content)

    def commit(self) -> None:
        """Bring it to the disk."""
        if self._file is not None:
            with disk_errors(self._named):
                os.fsync(self._file.fileno())

    def resume(self, count: int, digest: Digest) -> None:
        """Go back to what was committed."""
        self.close()
        self.count, self.digest = count, digest
        if self.path is None or not (digest.size or self.path.exists()):
            return
        with disk_errors(self.path):
            if not digest.size:
                self.path.unlink()
                return
            with self.path.open("r+b") as file:
                if Digest.of_file(file, digest.size) != digest:
                    raise StorageError(
                        f"{self.path} does not begin with the {digest.size} bytes that were "
                        f"written: restore it"
                    )
                file.truncate(digest.size)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def _named(self) -> Path:
        return self.path or Path("rejects")

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._file = open(self._named, "ab", opener=private_opener)  # noqa: SIM115
            sync_folder(self._named.parent)
        return self._file
