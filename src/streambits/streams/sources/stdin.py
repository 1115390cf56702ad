"""Standard input: a stream that is read once, forward only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
        yield sys.stdin.buffer

    def size(self) -> None:
        return None
