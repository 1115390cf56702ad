"""Standard input: a stream that is read once, forward only."""

import hashlib
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from streambits.errors import StorageError
from streambits.io.rows.handles import PIECE


class StandardInput:
    """To go on from an offset, what was read before is read again and dropped.

    A digest of all that was read is part of every offset, and so what is dropped is known to be
    the same; anything else is refused.
    """

    name = "standard input"
    seeks = direct = False

    def __init__(self) -> None:
        self._stream: Once | None = None
        self._expected: str | None = None

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        if self._stream is not None:
            raise StorageError("standard input can be read only once: write it to a file first")
        self._stream = Once()
        try:
            yield cast("BinaryIO", self._stream)
        finally:
            self._stream.close()

    def size(self) -> None:
        return None

    def ready(self, unit: int = 0) -> bool:
        return self._stream is None or self._stream.ready(unit)

    def digest(self) -> str:
        """Of all that was taken so far."""
        return "" if self._stream is None else self._stream.digest()

    def expect(self, digest: str) -> None:
        """What `digest` was at the place to go on from."""
        self._expected = digest

    def verify(self) -> None:
        if self._expected is not None and self._expected != self.digest():
            raise StorageError(
                "standard input is not what this job has read before: it must begin with the same "
                "bytes, which are passed over. For other rows choose another folder, or put all of "
                "them into files"
            )


class Once:
    """The bytes of standard input, each handed out once; a digest of those that were."""

    def __init__(self) -> None:
        self._source, self._number = _source()
        self._held = b""
        self._taken = self._hashed = 0  # of those held
        self._digest = hashlib.blake2b(digest_size=8)

    def ready(self, unit: int) -> bool:
        """Whether so many, or a whole line if that is 0, or the end can be had without waiting."""
        while not self._has(unit):
            if not self._comes():
                return False
            if not self._more():
                break
        return True

    def _comes(self) -> bool:
        """Whether reading would not wait; where the system cannot tell, it is read."""
        try:
            return self._number is None or bool(select.select([self._number], [], [], 0)[0])
        except OSError:
            return True

    def _has(self, unit: int) -> bool:
        if unit:
            return len(self._held) - self._taken >= unit
        return self._held.find(b"\n", self._taken) >= 0

    def read(self, count: int = -1) -> bytes:
        """So many, or fewer at the end."""
        while (count < 0 or len(self._held) - self._taken < count) and self._more():
            pass
        return self._take(len(self._held) if count < 0 else self._taken + count)

    def readline(self, most: int) -> bytes:
        """To the end of a line, or so many."""
        looked = 0
        while True:
            end = self._held.find(b"\n", self._taken + looked, self._taken + most)
            if end >= 0:
                return self._take(end + 1)
            looked = min(most, len(self._held) - self._taken)
            if looked == most or not self._more():
                return self._take(self._taken + looked)

    def readinto(self, buffer: memoryview) -> int:
        """Those that are there, one at least if it is not the end."""
        if self._taken == len(self._held):
            self._more()
        found = self._take(self._taken + len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def digest(self) -> str:
        self._hash()
        return self._digest.hexdigest()

    def close(self) -> None:
        if self._number is not None:
            self._source.close()

    def _take(self, end: int) -> bytes:
        found = self._held[self._taken : end]
        self._taken += len(found)
        return found

    def _hash(self) -> None:
        self._digest.update(memoryview(self._held)[self._hashed : self._taken])
        self._hashed = self._taken

    def _more(self) -> bool:
        """Hold more; not if this is the end."""
        found = self._source.read(PIECE)
        if not found:
            return False
        self._hash()
        self._held = self._held[self._taken :] + found
        self._taken = self._hashed = 0
        return True


def _source() -> tuple[Any, int | None]:
    """What to read, unbuffered, and its number, if there is a file behind it.

    A stream of our own: Python cannot end while a thread waits in its own `sys.stdin`.
    """
    try:
        number = sys.stdin.buffer.fileno()
    except (AttributeError, OSError, ValueError):  # put there by someone, without a file behind it
        return sys.stdin.buffer, None
    return open(number, "rb", closefd=False, buffering=0), number
