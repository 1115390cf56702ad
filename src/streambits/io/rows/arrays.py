"""Arrays: .npy, one array of a .npz, and records of vectors, .fvecs and .bvecs.

Files are read, not mapped: a mapped file that somebody cuts off ends the process by a signal. The
array of a .npz is read whole.
"""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from streambits._arrays import TEXT, Ids, as_ids
from streambits.errors import InputError, StorageError
from streambits.io.bad_rows import why_bad_id
from streambits.io.rows.files import (
    DamagedFileError,
    ParsedRows,
    Position,
    ReadOptions,
    RowSchema,
    file_errors,
    float_type,
    split_rejects,
)
from streambits.io.rows.inputs import LARGEST_BATCH, Input, batch_rows, ends_before, read_units
from streambits.model.batches import RowBatch

WIDEST = 1 << 20  # a record that says that it has more numbers is not one


class ArrayReader:
    """What the formats of arrays have in common."""

    keys: tuple[str, ...] = ("row",)
    kind: str
    row_name = "row"

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self.path, self.source, self._options = source.name, source, options
        self._check_names(options)

    def _check_names(self, options: ReadOptions) -> None:
        if options.columns is not None or options.others:
            raise InputError(
                f"{self.path} has no columns with names: leave out columns, ids, removed and keep"
            )

    def _errors(self, where: Callable[[], str] = lambda: "") -> Any:
        return file_errors(self.path, self.kind, where)

    def _batch(
        self,
        rows: NDArray[Any],
        row: int,
        ids: Ids | None = None,
        why: Callable[[int], str] | None = None,
    ) -> RowBatch:
        """row: of the file, the first of these; why: what is wrong with the id at a place."""
        bad = None if why is None else np.array([bool(why(i)) for i in range(len(rows))], np.bool_)
        numbers = rows.astype(float_type(rows.dtype), copy=False)
        parsed = ParsedRows(numbers, ids, bad, why=why or (lambda _: None))

        def where(place: int) -> str:
            return f"{self.path}, {self.row_name} {row + place}"

        return split_rejects(
            parsed, {"row": row + len(rows)}, where, lambda place: str(rows[place].tolist())
        )


class ArrayHead(NamedTuple):
    """What a .npy file says of its array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize


class Npy(ArrayReader):
    """A .npy file with one array of two dimensions, read in blocks of rows."""

    kind = ".npy"

    def length(self) -> int | None:
        return None if self.source.once else self._head().shape[0]

    def schema(self) -> RowSchema | None:
        return None if self.source.once else RowSchema(self._head().shape[1], self.path)

    def _head(self) -> ArrayHead:
        with self._errors(), self.source.open() as stream:
            return self._checked(read_head(stream))

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
        del schema  # the head says it
        row = at["row"] if at else 0
        with self._errors(lambda: f" from row {row} on"), self.source.open() as stream:
            head = self._checked(read_head(stream))
            if head.fortran and not self.source.seekable:
                raise InputError(
                    f"{self.path} has an array in the order of Fortran, which is read from plain "
                    f"files only: write it to one, or save it in the order of C"
                )
            start = stream.tell() if self.source.seekable else 0
            if row and not head.fortran:
                stream.seek(start + row * head.row_bytes)
            most = batch_rows(self._options.rows, head.row_bytes)
            while row < head.shape[0]:
                count = min(most, head.shape[0] - row)
                if head.fortran:
                    rows = _by_column(stream, head, start, row, count)
                else:
                    rows = _read_rows(stream, np.empty((count, *head.shape[1:]), head.dtype))
                if not len(rows):
                    end = f"it ends in row {row} of {head.shape[0]}"
                    raise StorageError(f"{self.path} is cut off: {end}")
                yield self._batch(rows, row)
                row += len(rows)

    def _checked(self, head: ArrayHead) -> ArrayHead:
        check_rows_head(head, self.path)
        size = self.source.size()
        if size is not None and head.row_bytes > size:
            raise StorageError(
                f"{self.path} is cut off, or its head is wrong: a row has {head.row_bytes:,} "
                f"bytes, and the file {size:,}"
            )
        if head.row_bytes > LARGEST_BATCH:
            raise StorageError(
                f"{self.path} has rows of {head.row_bytes:,} bytes: at most {LARGEST_BATCH:,} are "
                f"read"
            )
        return head


class Npz(ArrayReader):
    """A .npz archive: the array that `columns` names, or X, or the only one of two dimensions.

    `ids` names another array.
    """

    kind = ".npz"

    def _check_names(self, options: ReadOptions) -> None:
        if options.columns is not None and len(options.columns) != 1:
            raise InputError(f"{self.path}: columns must name one array, not {options.columns}")
        if options.removed is not None or options.keep:
            raise InputError(f"{self.path} is not a table: leave out removed and keep")

    def length(self) -> int | None:
        with self._errors(), self._archive() as archive:
            return self._heads(archive)[self._name(archive)].shape[0]

    def schema(self) -> RowSchema | None:
        with self._errors(), self._archive() as archive:
            heads, ids = self._heads(archive), self._options.ids
            head = heads[self._name(archive)]
            check_rows_head(head, self.path)
            text = ids is not None and self._has(heads, ids) and heads[ids].dtype.kind == "U"
            known = ids is not None and head.shape[0]
            return RowSchema(head.shape[1], self.path, text=text if known else None)

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
        text = bool(schema and schema.text)
        row = at["row"] if at else 0
        with self._errors(lambda: f" from row {row} on"):
            with self._archive() as archive:
                rows = self._array(archive, self._name(archive))
                ids = self._ids(archive, len(rows))
            most = batch_rows(self._options.rows, rows[:1].nbytes)
            for row in range(row, len(rows), most):  # noqa: B020 - the message says how far it came
                some = slice(row, row + most)
                if ids is None or (ids.dtype.kind == "i" and not text):
                    yield self._batch(rows[some], row, None if ids is None else ids[some])
                else:
                    yield self._batch(rows[some], row, *_text_ids(ids[some], text=text))

    def _ids(self, archive: zipfile.ZipFile, count: int) -> NDArray[Any] | None:
        """The ids; texts as the file has them."""
        name = self._options.ids
        if name is None:
            return None
        head = self._heads(archive).get(name)
        if head is not None and head.shape != (count,):
            raise InputError(f"{self.path}: {name!r} has the shape {head.shape}, not {(count,)}")
        if head is not None and head.dtype.kind not in "iuU":
            kind = f"have the type {head.dtype}; they must be integers or texts"
            raise InputError(f"{self.path}: the ids {name!r} {kind}")
        ids = self._array(archive, name)
        return ids if ids.dtype.kind == "U" else as_ids(ids, f"{self.path}: {name!r}")

    def _array(self, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
        head = self._heads(archive)
        self._has(head, name)
        size = math.prod(head[name].shape) * head[name].dtype.itemsize
        stored = archive.getinfo(f"{name}.npy").file_size
        if size > stored:
            raise StorageError(
                f"{self.path} is cut off, or the head of {name!r} is wrong: it says {size:,} "
                f"bytes, and there are {stored:,}"
            )
        if head[name].shape[:1] and len(head[name].shape) == 2:
            check_rows_head(head[name], self.path)
        with _parsing(), archive.open(f"{name}.npy") as stream:
            array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
            stream.read(1)  # at the end of the member its checksum is compared
            return array

    def _has(self, heads: dict[str, ArrayHead], name: str) -> bool:
        if name not in heads:
            has = ", ".join(heads)
            raise InputError(f"{self.path} has no array {name!r}; it has {has or 'none'}")
        return True

    def _name(self, archive: zipfile.ZipFile) -> str:
        heads = self._heads(archive)
        if self._options.columns is not None:
            self._has(heads, self._options.columns[0])
            return self._options.columns[0]
        matrices = [name for name, head in heads.items() if len(head.shape) == 2]
        if "X" in heads or len(matrices) == 1:
            return "X" if "X" in heads else matrices[0]
        has = ", ".join(f"{name} {head.shape}" for name, head in heads.items())
        raise InputError(
            f"{self.path} has {len(matrices)} arrays of two dimensions and none named X: choose "
            f"one with columns; it has {has or 'none'}"
        )

    def _heads(self, archive: zipfile.ZipFile) -> dict[str, ArrayHead]:
        heads = {}
        for name in archive.namelist():
            if name.endswith(".npy"):
                with _parsing(), archive.open(name) as stream:
                    heads[name.removesuffix(".npy")] = read_head(stream)
        return heads

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        with self.source.open() as stream:
            with _parsing():
                archive = zipfile.ZipFile(stream)
            with archive:
                yield archive


class Vecs(ArrayReader):
    """Records of a 32-bit count d and then d numbers: floats in .fvecs, bytes in .bvecs."""

    kind = "vectors"
    row_name = "record"
    number: np.dtype[Any] = np.dtype("<f4")

    def length(self) -> int | None:
        size, schema = self.source.size(), self.schema()
        if size is None:
            return None
        return 0 if schema is None else size // self._record(schema.width).itemsize

    def schema(self) -> RowSchema | None:
        if self.source.once:
            return None
        with self._errors(), self.source.open() as stream:
            width = self._width(stream)
            return None if width is None else RowSchema(width, self.path)

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
        del schema  # the first record says it
        row = at["row"] if at else 0
        with self._errors(lambda: f" from record {row} on"), self.source.open() as stream:
            width = self._width(stream)
            if width is None:
                if row:
                    raise ends_before(self.source, f", record {row}")
                return
            record, head = self._record(width), width.to_bytes(4, "little")
            if row:
                stream.seek(row * record.itemsize)
                head = b""
            most = batch_rows(self._options.rows, record.itemsize * 4 // self.number.itemsize)
            while True:
                data = np.empty(most * record.itemsize, np.uint8)
                data[: len(head)] = np.frombuffer(head, np.uint8)
                size = read_units(stream, data.data, record.itemsize, len(head))
                records = data[: size // record.itemsize * record.itemsize].view(record)
                other = np.flatnonzero(records["d"] != width)
                records = records[: other[0] if len(other) else None]
                if len(records):
                    yield self._batch(records["v"], row)
                row, head = row + len(records), b""
                self._check_rest(data[records.nbytes : size][:4].tobytes(), width, row)
                if not size:
                    return

    def _width(self, stream: BinaryIO) -> int | None:
        """What the first record says; None if there is none."""
        head = bytearray(4)
        head = head[: read_units(stream, memoryview(head), 4)]
        if not head:
            return None
        width = int.from_bytes(head, "little", signed=True)
        if len(head) < 4 or not 0 < width <= WIDEST:
            raise StorageError(
                f"{self.path} is not a file of vectors: record 0 should begin with its length, 1 "
                f"to {WIDEST} in 4 bytes; it begins with the bytes {head.hex(' ')}"
            )
        size, stored = self._record(width).itemsize, self.source.size()
        if stored is not None and size > stored:
            raise StorageError(
                f"{self.path} says that record 0 has {width:,} numbers, {size:,} bytes, and the "
                f"file has {stored:,}: it is cut off, or not a file of vectors"
            )
        return width

    def _record(self, width: int) -> np.dtype[Any]:
        return np.dtype([("d", "<i4"), ("v", self.number, (width,))])

    def _check_rest(self, rest: bytes, width: int, row: int) -> None:
        """Nothing may be left after the whole records of a block."""
        found = int.from_bytes(rest, "little", signed=True)
        if len(rest) >= 4 and found != width:
            raise StorageError(
                f"{self.path}, record {row}: it should have {width} numbers like those before, "
                f"and says {found}"
            )
        if rest:
            raise StorageError(f"{self.path} is cut off in record {row}")


class ByteVecs(Vecs):
    """.bvecs"""

    number = np.dtype("u1")


def _text_ids(values: NDArray[Any], *, text: bool) -> tuple[Ids, Callable[[int], str]]:
    """Ids of the kind of the source, and what tells which of them are bad."""
    plain = values.tolist()

    def why(place: int) -> str:
        return why_bad_id(plain[place], text)

    nothing: Any = "" if text else 0
    good = [nothing if why(place) else value for place, value in enumerate(plain)]
    return np.array(good, TEXT if text else np.int64), why


@contextmanager
def _parsing() -> Iterator[None]:
    """Around a call of a library that parses bytes: what it raises, the bytes are to blame for."""
    try:
        yield
    except (OSError, DamagedFileError):
        raise
    except Exception as error:
        raise DamagedFileError(str(error) or type(error).__name__) from error


def read_head(stream: Any) -> ArrayHead:
    """The head of the array that begins here."""
    with _parsing():
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"its version is {version}, and it should be 1.0 or 2.0")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        head = ArrayHead(*read(stream))
    if min(head.shape, default=0) < 0:
        raise DamagedFileError(f"its head says that the array has the shape {head.shape}")
    return head


def check_rows_head(head: ArrayHead, path: str) -> None:
    """Check that an array is rows of numbers."""
    if len(head.shape) != 2 or not head.shape[1]:
        raise InputError(
            f"{path} has an array of shape {head.shape}; it should be two-dimensional, one row "
            f"per vector"
        )
    if head.dtype.kind not in "fiub":
        raise InputError(f"{path} has an array of the type {head.dtype}, which is not numeric")


def _read_rows(stream: BinaryIO, block: NDArray[Any]) -> NDArray[Any]:
    """The next rows, or those that are left."""
    size = block[0].nbytes
    return block[: read_units(stream, block.reshape(-1).view(np.uint8).data, size) // size]


def _by_column(stream: Any, head: ArrayHead, start: int, row: int, count: int) -> NDArray[Any]:
    """A piece of every column."""
    block, size = np.empty((head.shape[1], count), head.dtype), head.dtype.itemsize
    for place, column in enumerate(block):
        stream.seek(start + (place * head.shape[0] + row) * size)
        count = min(count, len(_read_rows(stream, column[:, None])))
    return block[:, :count].T
