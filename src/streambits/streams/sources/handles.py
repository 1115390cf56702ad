"""Handles: what is opened for reading, a file on disk or standard input."""

import gzip
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO, Protocol, cast

from streambits.errors import StorageError

PIECE = 1 << 20  # bytes


class Handle(Protocol):
    """seeks: whether it can be opened again and read from any place; direct: and that is cheap."""

    name: str
    seeks: bool
    direct: bool

    def open(self) -> AbstractContextManager[BinaryIO]: ...

    def size(self) -> int | None: ...


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


def skip(stream: BinaryIO, count: int, handle: Handle) -> None:
    """Go on by so many bytes; what cannot seek is read."""
    if handle.seeks:
        stream.seek(count, os.SEEK_CUR)
        return
    while count:
        piece = stream.read(min(count, PIECE))
        if not piece:
            raise StorageError(
                f"{handle.name} ends before the place to go on from: is it the same as before?"
            )
        count -= len(piece)
