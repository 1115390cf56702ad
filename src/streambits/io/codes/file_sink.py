"""What sinks that are files share: one process writes to them, and trouble ends them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streambits._files import make_folder
from streambits._locks import Lock, supported
from streambits.errors import InputError, StorageError
from streambits.model.codes import as_bits


class FileSink:
    """A place on the disk that is locked from the first write, or `resume`, until it is closed.

    The lock is a file `.NAME.lock` in `folder`; `streambits._locks` says what it promises. Every
    commit looks whether it is still there. Where the system has no such locks there is none.
    """

    kind: str

    def __init__(self, path: str | Path, bits: int, folder: Path) -> None:
        self.path, self.bits, self.folder = Path(path), as_bits(bits), folder
        self.name = f"{self.kind}:{path}"
        self._lock: Lock | None = None
        self._begun = self._closed = False

    def _take(self) -> None:
        """Keep others out; before it is looked what is there."""
        make_folder(self.folder)
        if self._lock is None and supported():
            real = Path(os.path.realpath(self.path))
            inside = real if self.folder == self.path else real.parent
            does, remedy = f"writes to {self.path}", "wait until it is done, or choose another sink"
            self._lock = Lock(inside / f".{real.name}.lock", does, remedy)

    def _check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(f"{self.name} is closed: open it again, and resume")

    def _let_go(self) -> None:
        self._closed = True
        try:
            self._release()
        finally:
            lock, self._lock = self._lock, None
            if lock is not None:
                lock.release()

    def _release(self) -> None:
        """Close what is open."""

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Trouble in one sentence, which ends this sink: what was written is not known then."""
        try:
            try:
                yield
            except OSError as error:
                reason = error.strerror or error
                raise StorageError(f"{self.path} cannot be written: {reason}") from error
        except StorageError:
            with suppress(OSError):
                self._let_go()
            raise
