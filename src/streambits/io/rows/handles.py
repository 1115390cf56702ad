"""Handles: what is opened for reading, a file on disk or standard input."""

import gzip
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO, Protocol, cast

from streambits.errors import StorageError

PIECE = 1 << 20  # bytes
CHUNK = 1 << 25  # bytes of rows that are handed out together, at most; no row may have more
WINDOW = 1 << 16  # bytes at the ends of a file, and before an offset, by which it is known again
SPREAD, SMALL = 14, 1 << 12  # further windows between the ends, and their bytes


class Handle(Protocol):
    """seeks: whether it can be opened again and read from any place; direct: and that is cheap."""

    name: str
    seeks: bool
    direct: bool

    def open(self) -> AbstractContextManager[BinaryIO]: ...

    def size(self) -> int | None:
        """Bytes of the file, where there is one."""
        ...

    def ready(self, unit: int = 0) -> bool:
        """Whether so many bytes, or a line, or the end can be had without waiting."""
        ...

    def verify(self) -> None:
        """An error if what was passed over is not what was read before."""
        ...


class OnDisk:
    """A file; one that ends in .gz is unpacked on the way."""

    seeks = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.direct = not name.endswith(".gz")

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with open(self.name, "rb") as file:
            if self.direct:
                yield file
                return
            with gzip.open(file) as unpacked:
                yield cast("BinaryIO", unpacked)

    def size(self) -> int:
        try:
            return os.stat(self.name).st_size
        except OSError as error:
            raise StorageError(f"{self.name} cannot be read: {error.strerror}") from error

    def ready(self, unit: int = 0) -> bool:
        del unit
        return True

    def verify(self) -> None:
        pass


Print = dict[str, Any]  # of a file: size, time, and digests of some windows, by their names
WORDS = {
    "head": f"its first {WINDOW // 1024} KiB differ",
    "tail": f"its last {WINDOW // 1024} KiB differ",
    "before": "what stands before the place to go on from differs",
    "spread": "some of its content differs",
}


def fingerprint(path: str, size: int | None = None) -> Print | None:
    """By what a file is known again, from a few windows of it; None for what is no plain file.

    size: take the windows of a file of that size; its own by default.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):  # opening a pipe would already change it
        return None
    size = found.st_size if size is None else size
    places = [size * (i + 1) // (SPREAD + 1) for i in range(SPREAD)]
    with open(path, "rb", buffering=0) as file:
        return {
            "size": found.st_size,
            "modified": found.st_mtime_ns,
            "head": _digest(file, [0], min(WINDOW, size)),
            "tail": _digest(file, [max(0, size - WINDOW)], min(WINDOW, size)),
            "spread": _digest(file, places, SMALL),
        }


def before(path: str, position: int) -> str | None:
    """A digest of what stands before a place; None if the file is gone."""
    start = max(0, position - WINDOW)
    try:
        with open(path, "rb", buffering=0) as file:
            return _digest(file, [start], position - start)
    except OSError:
        return None


def _digest(file: Any, places: list[int], count: int) -> str:
    found = hashlib.blake2b(digest_size=8)
    for place in places:
        file.seek(place)
        found.update(file.read(count) or b"")
    return found.hexdigest()


def change(path: str, known: Print) -> str:
    """In what a file differs from what is known of it, in words; nothing if it does not.

    Its time alone says nothing: copies and backups change it.
    """
    now = fingerprint(path, known["size"])
    if now is None:
        return "it is not a plain file any more"
    if known.get("before") is not None:
        place, digest = known["before"]
        now["before"], known = before(path, place), known | {"before": digest}
    words = [text for name, text in WORDS.items() if now.get(name) != known.get(name)]
    if now["size"] != known["size"]:
        words.insert(0, f"it has {now['size']:,} bytes and had {known['size']:,}")
    if not words:
        return ""
    then, today = (_time(found["modified"]) for found in (known, now))
    when = "" if then == today else f" (last modified {today}; when it was read, {then})"
    return f"{words[0]}{when}"


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def skip(stream: BinaryIO, count: int, handle: Handle, where: str = "") -> None:
    """Go on by so many bytes; what cannot seek is read, and must be what was read before."""
    if handle.seeks:
        stream.seek(count, os.SEEK_CUR)
        return
    while count:
        piece = stream.read(min(count, PIECE))
        if not piece:
            raise StorageError(
                f"{handle.name} ends before the place to go on from{where}: is it the same as "
                f"before?"
            )
        count -= len(piece)
    handle.verify()


def fill(stream: BinaryIO, buffer: memoryview, unit: int, handle: Handle, done: int = 0) -> int:
    """Read into a buffer, which has `done` bytes; gives how many it has then.

    All that it has room for, or up to the end; of what comes slowly, the whole units that are
    there.
    """
    while done < len(buffer):
        rest = -done % unit
        if done and not rest and not handle.ready(unit):
            break
        end = len(buffer) if handle.seeks else done + (rest or unit)
        got = stream.readinto(buffer[done:end])  # type: ignore[attr-defined]
        if not got:
            break
        done += got
    return done


def rows_in_chunk(most: int, size: int) -> int:
    """How many rows of so many bytes are handed out together: at most 32 MiB, and at least one."""
    return max(1, min(most, CHUNK // max(1, size)))
