"""Arrays in .npy files, read in blocks of rows; no more of the file is ever in memory."""

import math
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from streambits.errors import InputError, StorageError
from streambits.io.rows.handles import CHUNK, Handle, fill, rows_in_chunk, skip
from streambits.io.rows.parts import (
    At,
    Layout,
    Options,
    Part,
    float_type,
    numbers_reject,
    reading,
    refuse_names,
    sift,
)


class Head(NamedTuple):
    """What a .npy file says of itself."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]


class Npy:
    """One array of two dimensions."""

    keys: tuple[str, ...] = ("row",)

    def __init__(self, handle: Handle, options: Options) -> None:
        refuse_names(handle.name, options)
        self.path, self.handle, self._rows = handle.name, handle, options.rows

    def length(self) -> int | None:
        return self._head().shape[0] if self.handle.seeks else None

    def layout(self) -> Layout | None:
        return Layout(self._head().shape[1], self.path) if self.handle.seeks else None

    def _head(self) -> Head:
        with reading(self.path, ".npy"), self.handle.open() as stream:
            return as_rows_head(read_head(stream), self.path)

    def parts(self, layout: Layout | None, at: At | None) -> Iterator[Part]:
        del layout  # the head says it
        row = at["row"] if at else 0
        with (
            reading(self.path, ".npy", lambda: f" from row {row} on"),
            self.handle.open() as stream,
        ):
            head = as_rows_head(read_head(stream), self.path)
            for rows in blocks(stream, head, row, self._rows, self.handle):
                reject = numbers_reject(f"{self.path}, row", row, rows)
                row += len(rows)
                yield sift(
                    rows.astype(float_type(rows.dtype), copy=False), None, {"row": row}, reject
                )


def read_head(stream: BinaryIO) -> Head:
    """Of the array that begins here."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its version is {version}, and it should be 1.0 or 2.0")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return Head(*read(stream))


def as_rows_head(head: Head, path: str) -> Head:
    """Check that the array is rows of numbers."""
    if len(head.shape) != 2 or not head.shape[1]:
        raise InputError(
            f"{path} has an array of shape {head.shape}; it should be two-dimensional, one row "
            f"per vector"
        )
    if head.dtype.kind not in "fiub":
        raise InputError(f"{path} has an array of the type {head.dtype}, which is not numeric")
    return head


def blocks(
    stream: BinaryIO, head: Head, row: int, most: int, handle: Handle
) -> Iterator[NDArray[Any]]:
    """The rows from `row` on. A file that is cut off gives the whole rows that it has first."""
    if head.fortran and not handle.direct:
        with tempfile.TemporaryFile() as unpacked:
            shutil.copyfileobj(stream, unpacked)
            handle.verify()
            unpacked.seek(0)
            yield from _blocks(unpacked, head, row, most, handle)
        return
    if not head.fortran:
        skip(stream, row * _size(head), handle)
    yield from _blocks(stream, head, row, most, handle)


def _blocks(
    stream: BinaryIO, head: Head, row: int, most: int, handle: Handle
) -> Iterator[NDArray[Any]]:
    start, size = stream.tell() if head.fortran else 0, _size(head)
    _check_size(size, handle)
    most = rows_in_chunk(most, size)
    while row < head.shape[0]:
        count = min(most, head.shape[0] - row)
        if head.fortran:
            rows = _by_column(stream, head, start, row, count)
        else:
            rows = _by_row(stream, head, count, handle)
        row += len(rows)
        if not len(rows):
            raise StorageError(f"{handle.name} is cut off: it ends in row {row} of {head.shape[0]}")
        yield rows


def _check_size(size: int, handle: Handle) -> None:
    """Refuse rows that cannot be there, before there is memory for them."""
    there = handle.size() if handle.direct else None
    if there is not None and size > there:
        raise StorageError(
            f"{handle.name} is cut off, or its head is wrong: a row has {size:,} bytes, and the "
            f"file {there:,}"
        )
    if size > CHUNK:
        raise StorageError(f"{handle.name} has rows of {size:,} bytes: at most {CHUNK:,} are read")


def _by_row(stream: BinaryIO, head: Head, count: int, handle: Handle) -> NDArray[Any]:
    block = np.empty((count, *head.shape[1:]), head.dtype)
    return block[: fill(stream, _bytes(block), _size(head), handle) // _size(head)]


def _by_column(stream: BinaryIO, head: Head, start: int, row: int, count: int) -> NDArray[Any]:
    """A piece of every column."""
    block, size = np.empty((head.shape[1], count), head.dtype), head.dtype.itemsize
    for place, column in enumerate(block):
        stream.seek(start + (place * head.shape[0] + row) * size)
        count = min(count, _read(stream, _bytes(column)) // size)
    return block[:, :count].T


def _size(head: Head) -> int:
    """Bytes of a row."""
    return math.prod(head.shape[1:]) * head.dtype.itemsize


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _read(stream: BinaryIO, buffer: memoryview) -> int:
    """Read into a buffer; gives the number of bytes that there were."""
    done = 0
    while done < len(buffer):
        got = stream.readinto(buffer[done:])  # type: ignore[attr-defined]
        if not got:
            break
        done += got
    return done
