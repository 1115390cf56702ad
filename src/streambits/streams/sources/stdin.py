"""Standard input: a stream that is read once, forward only."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import BinaryIO

from streambits.errors import StorageError


class StandardInput:
    """To go on from an offset, what was read before is read again and dropped."""

    name = "standard input"
    seeks = direct = False

    def __init__(self) -> None:
        self._read = False

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        if self._read:
            raise StorageError("standard input can be read only once: write it to a file first")
        self._read = True
        with _stream() as stream:
            yield stream

    def size(self) -> None:
        return None


def _stream() -> AbstractContextManager[BinaryIO]:
    """A stream of our own: Python cannot end while a thread waits in its own `sys.stdin`."""
    try:
        number = sys.stdin.buffer.fileno()
    except (AttributeError, OSError, ValueError):  # put there by someone, without a file behind it
        return nullcontext(sys.stdin.buffer)
    return open(number, "rb", closefd=False)
