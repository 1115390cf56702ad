"""Inputs: where the bytes of a file source come from, and how a file is recognised later.

An input is a file on disk, plain or gzip, or standard input, which is read once and forward only.
The fingerprint of a file tells after a restart whether it is still the one that was read.
"""

import gzip
import hashlib
import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO, cast

from streambits.errors import StorageError

PIECE = 1 << 20  # bytes that are read at once
LARGEST_BATCH = 1 << 25  # bytes of rows that are handed out together; no row may have more
WINDOW = 1 << 16  # bytes at the ends of a file, and before an offset, that make its fingerprint
SPREAD, SMALL = 14, 1 << 12  # further windows between the ends, and their bytes


class Input:
    """Bytes that a reader can open.

    `seeks` says whether it can be opened again and read from any place, `direct` whether that is
    cheap. The methods other than `open` are for inputs that are not plain files.
    """

    name: str
    seeks: bool = True
    direct: bool = True

    def open(self) -> AbstractContextManager[BinaryIO]:
        """The bytes from the beginning."""
        raise NotImplementedError

    def size(self) -> int | None:
        """Bytes of the file, where there is one."""
        return None

    def ready(self, unit: int = 0) -> bool:
        """Whether `unit` bytes (0: a line), or the end, can be read without waiting."""
        del unit
        return True

    def digest(self) -> str | None:
        """A digest of all bytes read so far, for inputs that cannot seek."""
        return None

    def expect(self, digest: str) -> None:
        """Set what `digest` was at the offset from which reading resumes."""

    def verify(self) -> None:
        """Raise an error if the bytes that were skipped are not those that were read before."""


class DiskFile(Input):
    """A file; one whose name ends in .gz is decompressed."""

    def __init__(self, name: str) -> None:
        self.name, self.direct = name, not name.endswith(".gz")

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


class StandardInput(Input):
    """Standard input, read once.

    To resume from an offset, the bytes before it are read again and dropped. A digest of them is
    part of every offset, so other bytes than before are refused.
    """

    name = "standard input"
    seeks = direct = False

    def __init__(self) -> None:
        self._stream: _ForwardStream | None = None
        self._expected: str | None = None

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        if self._stream is not None:
            raise StorageError("standard input can be read only once: write it to a file first")
        self._stream = _ForwardStream()
        try:
            yield cast("BinaryIO", self._stream)
        finally:
            self._stream.close()

    def ready(self, unit: int = 0) -> bool:
        return self._stream is None or self._stream.ready(unit)

    def digest(self) -> str:
        return "" if self._stream is None else self._stream.digest()

    def expect(self, digest: str) -> None:
        self._expected = digest

    def verify(self) -> None:
        if self._expected is not None and self._expected != self.digest():
            raise other_bytes()


class _ForwardStream:
    """The bytes of standard input, each handed out once, and a digest of those that were."""

    def __init__(self) -> None:
        self._source, self._number = _unbuffered_stdin()
        self._buffer = b""
        self._place = self._hashed = 0  # in the buffer: what was handed out, what was hashed
        self._digest = hashlib.blake2b(digest_size=8)

    def ready(self, unit: int) -> bool:
        while not self._has(unit):
            if not self._can_read():
                return False
            if not self._read_more():
                break
        return True

    def read(self, count: int = -1) -> bytes:
        """`count` bytes, or fewer at the end."""
        while (count < 0 or len(self._buffer) - self._place < count) and self._read_more():
            pass
        return self._up_to(len(self._buffer) if count < 0 else self._place + count)

    def readline(self, most: int) -> bytes:
        """To the end of a line, or `most` bytes of it."""
        searched = 0
        while True:
            end = self._buffer.find(b"\n", self._place + searched, self._place + most)
            if end >= 0:
                return self._up_to(end + 1)
            searched = min(most, len(self._buffer) - self._place)
            if searched == most or not self._read_more():
                return self._up_to(self._place + searched)

    def readinto(self, buffer: memoryview) -> int:
        """What is there, at least one byte unless this is the end."""
        if self._place == len(self._buffer):
            self._read_more()
        found = self._up_to(self._place + len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def digest(self) -> str:
        self._hash()
        return self._digest.hexdigest()

    def close(self) -> None:
        if self._number is not None:
            self._source.close()

    def _can_read(self) -> bool:
        """Whether reading would not wait; where the system cannot tell, it is read."""
        try:
            return self._number is None or bool(select.select([self._number], [], [], 0)[0])
        except OSError:
            return True

    def _has(self, unit: int) -> bool:
        if unit:
            return len(self._buffer) - self._place >= unit
        return self._buffer.find(b"\n", self._place) >= 0

    def _up_to(self, end: int) -> bytes:
        found = self._buffer[self._place : end]
        self._place += len(found)
        return found

    def _hash(self) -> None:
        self._digest.update(memoryview(self._buffer)[self._hashed : self._place])
        self._hashed = self._place

    def _read_more(self) -> bool:
        found = self._source.read(PIECE)
        if not found:
            return False
        self._hash()
        self._buffer = self._buffer[self._place :] + found
        self._place = self._hashed = 0
        return True


def _unbuffered_stdin() -> tuple[Any, int | None]:
    """A stream, and its number if there is a file behind it.

    It is not `sys.stdin`: Python cannot end while a thread waits in that.
    """
    try:
        number = sys.stdin.buffer.fileno()
    except (AttributeError, OSError, ValueError):  # replaced by something without a file
        return sys.stdin.buffer, None
    return open(number, "rb", closefd=False, buffering=0), number


def skip(stream: BinaryIO, count: int, source: Input, where: str = "") -> None:
    """Skip bytes; where the input cannot seek they are read, and must be those read before."""
    if source.seeks:
        stream.seek(count, os.SEEK_CUR)
        return
    while count:
        piece = stream.read(min(count, PIECE))
        if not piece:
            raise ends_before(source, where)
        count -= len(piece)
    source.verify()


def other_bytes() -> StorageError:
    """The error of standard input that does not begin as it did."""
    return StorageError(
        "standard input is not what this job has read before: it must begin with the same bytes, "
        "which are skipped. For other rows choose another folder (with --from and the folder of "
        "this job to continue learning from it), or put all rows into files, to which more may be "
        "added"
    )


def ends_before(source: Input, where: str) -> StorageError:
    """The error of an input that is shorter than the offset to resume from."""
    if not source.seeks:
        return other_bytes()
    return StorageError(
        f"{source.name} ends before the place to resume from{where}: is it the same as before?"
    )


def fill(stream: BinaryIO, buffer: memoryview, unit: int, source: Input, done: int = 0) -> int:
    """Read into a buffer that has `done` bytes already, and return how many it has then.

    Reads all there is room for, or up to the end; of an input that comes slowly, only the whole
    units of `unit` bytes that are there.
    """
    while done < len(buffer):
        rest = -done % unit
        if done and not rest and not source.ready(unit):
            break
        end = len(buffer) if source.seeks else done + (rest or unit)
        got = stream.readinto(buffer[done:end])  # type: ignore[attr-defined]
        if not got:
            break
        done += got
    return done


def batch_rows(most: int, size: int) -> int:
    """How many rows of `size` bytes are handed out together: at most 32 MiB, at least one."""
    return max(1, min(most, LARGEST_BATCH // max(1, size)))


Fingerprint = dict[str, Any]  # of a file: size, time, and digests of some windows, by name
DIFFERENCES = {
    "head": f"its first {WINDOW // 1024} KiB differ",
    "tail": f"its last {WINDOW // 1024} KiB differ",
    "before": "what comes before the place to resume from differs",
    "spread": "some of its content differs",
}


def fingerprint(path: str, size: int | None = None) -> Fingerprint | None:
    """What identifies a file, from a few windows of it; None for what is not a plain file.

    The windows are those of a file of `size` bytes, by default its own size.
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
            "head": _window_digest(file, [0], min(WINDOW, size)),
            "tail": _window_digest(file, [max(0, size - WINDOW)], min(WINDOW, size)),
            "spread": _window_digest(file, places, SMALL),
        }


def digest_before(path: str, position: int) -> str | None:
    """A digest of the window before a position; None if the file is gone."""
    start = max(0, position - WINDOW)
    try:
        with open(path, "rb", buffering=0) as file:
            return _window_digest(file, [start], position - start)
    except OSError:
        return None


def difference(path: str, earlier: Fingerprint, *, quick: bool = False) -> str:
    """In what a file differs from an earlier fingerprint, in words; nothing if it does not.

    Its time alone says nothing: copies and backups change it. If `quick`, a file of the same size
    and time is the same.
    """
    found = os.stat(path)
    if quick and (found.st_size, found.st_mtime_ns) == (earlier["size"], earlier["modified"]):
        return ""
    now = fingerprint(path, earlier["size"])
    if now is None:
        return "it is not a plain file any more"
    if earlier.get("before") is not None:
        place, digest = earlier["before"]
        now["before"], earlier = digest_before(path, place), earlier | {"before": digest}
    words = [text for name, text in DIFFERENCES.items() if now.get(name) != earlier.get(name)]
    if now["size"] != earlier["size"]:
        words.insert(0, f"it has {now['size']:,} bytes and had {earlier['size']:,}")
    if not words:
        return ""
    then, today = (_time(found["modified"]) for found in (earlier, now))
    when = "" if then == today else f" (last modified {today}; when it was read, {then})"
    return f"{words[0]}{when}"


def _window_digest(file: Any, places: list[int], count: int) -> str:
    found = hashlib.blake2b(digest_size=8)
    for place in places:
        file.seek(place)
        found.update(file.read(count) or b"")
    return found.hexdigest()


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
