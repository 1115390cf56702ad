"""Arrays in .npy and .npz files, read in blocks of rows; no more of a file is ever in memory.

Files are read, not mapped: a mapped file that somebody cuts off ends the process by a signal.
"""

import contextlib
import io
import itertools
import math
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from streambits._arrays import TEXT, Ids, as_ids
from streambits.errors import InputError, StorageError
from streambits.io.bad_rows import why_bad_id
from streambits.io.rows.files import (
    At,
    DamagedFileError,
    Layout,
    ReadOptions,
    file_errors,
    refuse_names,
    sift_array,
)
from streambits.io.rows.inputs import LARGEST_BATCH, Input, batch_rows, fill, skip
from streambits.model.batches import RowBatch

LONGEST_HEAD = 10_000  # characters that NumPy parses


class ArrayHead(NamedTuple):
    """What a .npy file says of its array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize


class Npy:
    """A .npy file with one array of two dimensions."""

    keys: tuple[str, ...] = ("row",)

    def __init__(self, source: Input, options: ReadOptions) -> None:
        refuse_names(source.name, options)
        self.path, self.source, self._rows = source.name, source, options.rows

    def length(self) -> int | None:
        return self._head().shape[0] if self.source.seeks else None

    def layout(self) -> Layout | None:
        return Layout(self._head().shape[1], self.path) if self.source.seeks else None

    def _head(self) -> ArrayHead:
        with file_errors(self.path, ".npy"), self.source.open() as stream:
            return _as_rows_head(_read_head(stream), self.path)

    def batches(self, layout: Layout | None, at: At | None) -> Iterator[RowBatch]:
        del layout  # the head says it
        row = at["row"] if at else 0
        where = file_errors(self.path, ".npy", lambda: f" from row {row} on")
        with where, self.source.open() as stream:
            head = _as_rows_head(_read_head(stream), self.path)
            for rows in _array_rows(stream, head, row, self._rows, self.source):
                yield sift_array(rows, row, f"{self.path}, row")
                row += len(rows)


class Npz:
    """A .npz archive: the array that `columns` names, or X, or the only one of two dimensions.

    `ids` names another array. Arrays are read out of the archive as a stream.
    """

    keys: tuple[str, ...] = ("row",)

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self.path, self.source, self._options = source.name, source, options
        if options.columns is not None and len(options.columns) != 1:
            raise InputError(f"{self.path}: columns must name one array, not {options.columns}")
        if options.removed is not None or options.keep:
            raise InputError(f"{self.path} is not a table: leave out removed and keep")

    def length(self) -> int | None:
        return self._rows_head().shape[0]

    def layout(self) -> Layout | None:
        head, ids = self._rows_head(), self._options.ids
        text = None
        if ids is not None and head.shape[0]:
            with file_errors(self.path, ".npz"):
                text = self._head(ids).dtype.kind == "U"
        return Layout(head.shape[1], self.path, text=text)

    def batches(self, layout: Layout | None, at: At | None) -> Iterator[RowBatch]:
        text = layout.text if layout else None  # the head says the rest
        row = at["row"] if at else 0
        with file_errors(self.path, ".npz", lambda: f" from row {row} on"):
            count = self._rows_head().shape[0]
            ids = itertools.repeat(None) if self._options.ids is None else self._ids(row, count)
            for rows, some in zip(self._blocks(self._name(), row), ids, strict=False):
                where = f"{self.path}, row"
                if some is None or (some.dtype.kind == "i" and not text):
                    yield sift_array(rows, row, where, some)
                else:
                    yield sift_array(rows, row, where, *_text_ids(some, text=bool(text)))
                row += len(rows)

    def _rows_head(self) -> ArrayHead:
        with file_errors(self.path, ".npz"):
            return _as_rows_head(self._head(self._name()), self.path)

    def _ids(self, row: int, count: int) -> Iterator[NDArray[Any]]:
        """Blocks of ids, as long as those of the rows; texts as the file has them."""
        name = str(self._options.ids)
        head = self._head(name)
        if head.shape != (count,):
            raise InputError(f"{self.path}: {name!r} has the shape {head.shape}, not {(count,)}")
        if head.dtype.kind not in "iuU":
            kind = f"have the type {head.dtype}; they must be integers or texts"
            raise InputError(f"{self.path}: the ids {name!r} {kind}")
        for block in self._blocks(name, row):
            yield block if head.dtype.kind == "U" else as_ids(block, f"{self.path}: {name!r}")

    def _blocks(self, name: str, row: int) -> Iterator[NDArray[Any]]:
        member = _Member(self.path, name)
        with member.open() as stream:
            yield from _array_rows(stream, _read_head(stream), row, self._options.rows, member)

    def _head(self, name: str) -> ArrayHead:
        if name not in self._names():
            has = ", ".join(self._names())
            raise InputError(f"{self.path} has no array {name!r}; it has {has or 'none'}")
        with _Member(self.path, name).open() as stream:
            return _read_head(stream)

    def _names(self) -> list[str]:
        with _archive(self.path) as archive:
            return [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]

    def _name(self) -> str:
        if self._options.columns is not None:
            return self._options.columns[0]
        shapes = {name: self._head(name).shape for name in self._names()}
        matrices = [name for name, shape in shapes.items() if len(shape) == 2]
        if "X" in shapes or len(matrices) == 1:
            return "X" if "X" in shapes else matrices[0]
        has = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(
            f"{self.path} has {len(matrices)} arrays of two dimensions and none named X: choose "
            f"one with columns; it has {has or 'none'}"
        )


def _text_ids(values: NDArray[Any], *, text: bool) -> tuple[Ids, Callable[[int], str]]:
    """Ids of the kind of the source, and what tells which of them are bad."""
    plain = values.tolist()

    def why(place: int) -> str:
        return why_bad_id(plain[place], text)

    nothing: Any = "" if text else 0
    good = [nothing if why(place) else value for place, value in enumerate(plain)]
    return np.array(good, TEXT if text else np.int64), why


class _Member(Input):
    """An array of an archive."""

    direct = False  # what comes before a place is decompressed

    def __init__(self, path: str, name: str) -> None:
        self.name, self._array = path, name

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with _archive(self.name) as archive:
            with _parsing():
                stream = archive.open(f"{self._array}.npy")
            with stream:
                yield cast("BinaryIO", stream)


@contextmanager
def _archive(path: str) -> Iterator[zipfile.ZipFile]:
    with _parsing():
        archive = zipfile.ZipFile(path)
    with archive:
        yield archive


@contextmanager
def _parsing() -> Iterator[None]:
    """Around a call of a library that parses bytes: what it raises, the bytes are to blame for."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise DamagedFileError(str(error) or type(error).__name__) from error


def _read_head(stream: BinaryIO) -> ArrayHead:
    """The head of the array that begins here."""
    magic = stream.read(npy.MAGIC_LEN)
    size = stream.read(2 if magic[-2:] == b"\1\0" else 4)
    text = stream.read(min(int.from_bytes(size, "little"), LONGEST_HEAD + 1))
    head = io.BytesIO(magic + size + text)
    with _parsing():
        version = npy.read_magic(head)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"its version is {version}, and it should be 1.0 or 2.0")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        found = ArrayHead(*read(head))
    if min(found.shape, default=0) < 0:
        raise DamagedFileError(f"its head says that the array has the shape {found.shape}")
    return found


def _as_rows_head(head: ArrayHead, path: str) -> ArrayHead:
    """Check that the array is rows of numbers."""
    if len(head.shape) != 2 or not head.shape[1]:
        raise InputError(
            f"{path} has an array of shape {head.shape}; it should be two-dimensional, one row "
            f"per vector"
        )
    if head.dtype.kind not in "fiub":
        raise InputError(f"{path} has an array of the type {head.dtype}, which is not numeric")
    return head


def _array_rows(
    stream: BinaryIO, head: ArrayHead, row: int, most: int, source: Input
) -> Iterator[NDArray[Any]]:
    """The rows from `row` on. A file that is cut off first gives the whole rows that it has."""
    _check_size(head.row_bytes, source)
    most = batch_rows(most, head.row_bytes)
    with contextlib.ExitStack() as stack:
        if not head.fortran:
            skip(stream, row * head.row_bytes, source)
        elif not source.direct:  # its columns are read piece by piece, which needs seeking
            unpacked = cast("BinaryIO", stack.enter_context(tempfile.TemporaryFile()))
            shutil.copyfileobj(stream, unpacked)
            source.verify()
            unpacked.seek(0)
            stream = unpacked
        start = stream.tell() if head.fortran else 0
        while row < head.shape[0]:
            count = min(most, head.shape[0] - row)
            if head.fortran:
                rows = _by_column(stream, head, start, row, count)
            else:
                rows = _by_row(stream, head, count, source)
            if not len(rows):
                end = f"it ends in row {row} of {head.shape[0]}"
                raise StorageError(f"{source.name} is cut off: {end}")
            yield rows
            row += len(rows)


def _check_size(size: int, source: Input) -> None:
    """Refuse rows that cannot be there, before memory is allocated for them."""
    there = source.size() if source.direct else None
    if there is not None and size > there:
        raise StorageError(
            f"{source.name} is cut off, or its head is wrong: a row has {size:,} bytes, and the "
            f"file {there:,}"
        )
    if size > LARGEST_BATCH:
        raise StorageError(
            f"{source.name} has rows of {size:,} bytes: at most {LARGEST_BATCH:,} are read"
        )


def _by_row(stream: BinaryIO, head: ArrayHead, count: int, source: Input) -> NDArray[Any]:
    block = np.empty((count, *head.shape[1:]), head.dtype)
    size = head.row_bytes
    return block[: fill(stream, _bytes(block), size, source) // size]


def _by_column(stream: Any, head: ArrayHead, start: int, row: int, count: int) -> NDArray[Any]:
    """A piece of every column; the stream is a file."""
    block, size = np.empty((head.shape[1], count), head.dtype), head.dtype.itemsize
    for place, column in enumerate(block):
        stream.seek(start + (place * head.shape[0] + row) * size)
        count = min(count, stream.readinto(_bytes(column)) // size)
    return block[:, :count].T


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
