"""Locks: a place that one process writes to is closed to all others for as long."""

import errno
import os
import stat
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from streambits.errors import StorageError

BRIEF = 0.2  # seconds for others who only look whether it is held
DIGITS = 20  # of a process number, at most


class Lock:
    """A file with the number of the process that holds it, which is removed when it is let go.

    The lock (flock) is that of the system: it ends with the process, however that ends, and a file
    that was left by one that was killed is no obstacle. Symbolic links are not followed, and a file
    that is not a lock is left as it is. Folders must be there.

    does: what a holder does, and remedy: what others can do about it, both for the message.
    """

    def __init__(self, path: Path, does: str, remedy: str) -> None:
        self.path, self._descriptor, self._process = path, -1, os.getpid()
        end = time.monotonic() + BRIEF
        while self._descriptor < 0:
            descriptor = _open(path)
            try:
                holder = _holder(descriptor, path)
                if _taken(descriptor):
                    if _is_at(descriptor, path):  # or else it was let go, and another made one
                        self._descriptor = descriptor
                        os.ftruncate(descriptor, 0)
                        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                elif time.monotonic() < end:
                    time.sleep(BRIEF / 10)
                else:
                    raise StorageError(f"{_who(holder)} {does}: {remedy}")
            finally:
                if self._descriptor < 0:
                    os.close(descriptor)

    def check(self) -> None:
        """Raise if the file is gone or another: then someone else may hold the lock as well."""
        if not _is_at(self._descriptor, self.path):
            raise StorageError(
                f"{self.path}, which kept others out, was removed or replaced while this process "
                f"ran: see that no other process writes there, and give the same command again"
            )

    def release(self) -> None:
        """Let go. A process that was forked from this one leaves the file alone."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            if self._process == os.getpid() and _is_at(descriptor, self.path):
                with suppress(OSError):  # a file that stays is no obstacle
                    self.path.unlink()
        finally:
            os.close(descriptor)

    def __del__(self) -> None:
        with suppress(OSError):
            self.release()


def supported() -> bool:
    """Whether this system has such locks."""
    return find_spec("fcntl") is not None


def is_held(path: Path) -> bool:
    """Whether some process holds the lock."""
    if not supported():
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return not _taken(descriptor, shared=True)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _in_the_way(path) from error
        raise


def _holder(descriptor: int, path: Path) -> str:
    """The number in the file; refuses a file that cannot be a lock."""
    found = os.fstat(descriptor)
    content = os.pread(descriptor, DIGITS + 1, 0) if stat.S_ISREG(found.st_mode) else b"-"
    if found.st_nlink > 1 or (content and not content.isdigit()) or len(content) > DIGITS:
        raise _in_the_way(path)
    return content.decode()


def _who(holder: str) -> str:
    who = "this process" if holder == str(os.getpid()) else "another process"
    return f"{who} ({holder})" if holder else who


def _in_the_way(path: Path) -> StorageError:
    return StorageError(f"{path} must be a file of our own, and it is something else: remove it")


def _taken(descriptor: int, *, shared: bool = False) -> bool:
    """Whether the lock is ours now."""
    import fcntl  # noqa: PLC0415 - not on every system

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one by that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
