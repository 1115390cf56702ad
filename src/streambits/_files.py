"""Files that are written whole or not at all."""

import glob
import os
import platform
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from streambits.errors import StorageError

_MACHINE = f"{zlib.crc32(platform.node().encode()):08x}"  # numbers of processes hold on one


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` at the end, unless an error is raised.

    Parameters
    ----------
    path : Path
    private : bool, default False
        Whether only the owner may read the file.

    Yields
    ------
    binary file

    Raises
    ------
    StorageError
        If it cannot be written.

    Notes
    -----
    It is written under a temporary name in the same folder, brought to the disk, then renamed:
    whenever it is read, and whenever this process is killed, there is the old file or the new one;
    once this is over, the new one also after a power cut. Files left by killed processes are
    removed.
    """
    beside = path.with_name(f".{path.name}.{_MACHINE}.{os.getpid()}.{threading.get_ident()}.new")
    try:
        _remove_left_over(path)
        with open(beside, "xb", opener=private_opener if private else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def private_opener(path: str, flags: int) -> int:
    """Open a new file that only its owner may read; the `opener` of `open`."""
    return os.open(path, flags, 0o600)


def _remove_left_over(path: Path) -> None:
    """Remove files that processes of this machine that are gone have left beside a path."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{_MACHINE}.*.new"):
        process = left.name.split(".")[-3]
        if process.isdigit() and not _runs(int(process)):
            with suppress(OSError):
                left.unlink()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; where folders cannot be opened, do nothing."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, and bring their names to the disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def close_file(holder: Any) -> None:
    """Close the descriptor `_file` of an object, once; it may have none yet."""
    file = getattr(holder, "_file", -1)
    holder._file = -1
    if file >= 0:
        os.close(file)


def check_writable(path: Path) -> None:
    """Raise now the StorageError that `replacing` would raise later; leaves nothing behind."""
    beside = path.with_name(f".{path.name}.{_MACHINE}.{os.getpid()}.{threading.get_ident()}.new")
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        beside.write_bytes(b"")
        beside.unlink()
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): choose another place"
        ) from error
