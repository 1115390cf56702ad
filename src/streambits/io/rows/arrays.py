"""Arrays: .npy, one array of a .npz, and records of vectors, .fvecs and .bvecs.

Blocks of rows are read, not mapped: a mapped file that somebody cuts off ends the process by a
signal. Only an array in the order of Fortran is mapped; one of a .npz is read whole.
"""

from collections.abc import Iterator, Sequence
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
from streambits.io.rows.inputs import LARGEST_BATCH, Input, batch_rows, fill
from streambits.model.batches import RowBatch

WIDEST = 1 << 20  # a record that says that it has more numbers is not one


class ArrayHead(NamedTuple):
    """What a .npy file says of its array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]


class _ArrayReader:
    """What the formats of arrays have in common. A subclass knows `_width` and `_rows`."""

    keys: tuple[str, ...] = ("row",)
    kind: str
    place = "row"

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self.path, self.source, self._options = source.name, source, options
        self._check(options)

    def _check(self, options: ReadOptions) -> None:
        if options.columns is not None or options.others:
            raise InputError(
                f"{self.path} has no columns with names: leave out columns, ids, removed and keep"
            )

    def _batch(
        self, rows: NDArray[Any], row: int, ids: Ids | None = None, wrong: Sequence[str] = ()
    ) -> RowBatch:
        """row: of the file, the first of these; wrong: what is wrong with the ids, if any is."""
        bad = np.array([bool(why) for why in wrong], np.bool_) if any(wrong) else None
        numbers = rows.astype(float_type(rows.dtype), copy=False)
        parsed = ParsedRows(numbers, ids, bad, why=lambda at: wrong[at] if wrong else None)
        return split_rejects(
            parsed,
            {"row": row + len(rows)},
            lambda at: f"{self.path}, {self.place} {row + at}",
            lambda at: str(rows[at].tolist()),
        )


class Npy(_ArrayReader):
    """A .npy file with one array of two dimensions, read in blocks of rows."""

    kind = ".npy"

    def length(self) -> int | None:
        return None if self.source.once else self._head().shape[0]

    def schema(self) -> RowSchema | None:
        return None if self.source.once else RowSchema(self._head().shape[1], self.path)

    def _head(self) -> ArrayHead:
        with file_errors(self.path, self.kind), self.source.open() as stream:
            return check_rows(read_head(stream), self.path)

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
        del schema  # the head says it
        row = at["row"] if at else 0
        where = file_errors(self.path, self.kind, lambda: f" from row {row} on")
        with where, self.source.open() as stream:
            (count, width), fortran, dtype = check_rows(read_head(stream), self.path)
            most = batch_rows(self._options.rows, width * dtype.itemsize)
            if fortran:
                array = self._mapped()
            elif row:
                stream.seek(stream.tell() + row * width * dtype.itemsize)
            while row < count:
                size = min(most, count - row)
                rows = array[row : row + size] if fortran else _read(stream, size, width, dtype)
                if not len(rows):
                    raise StorageError(f"{self.path} is cut off: it ends in row {row} of {count}")
                yield self._batch(rows, row)
                row += len(rows)

    def _mapped(self) -> NDArray[Any]:
        path = self.source.local_path
        if path is None:
            raise InputError(
                f"{self.path} has an array in the order of Fortran, which is read from plain files "
                f"only: write it to one, or save it in the order of C"
            )
        with _parsing():
            mapped: NDArray[Any] = np.load(path, mmap_mode="r")
            return mapped


class Npz(_ArrayReader):
    """A .npz archive: the array that `columns` names, or X, or the only one of two dimensions.

    `ids` names another array.
    """

    kind = ".npz"

    def _check(self, options: ReadOptions) -> None:
        if options.columns is not None and len(options.columns) != 1:
            raise InputError(f"{self.path}: columns must name one array, not {options.columns}")
        if options.removed is not None or options.keep:
            raise InputError(f"{self.path} is not a table: leave out removed and keep")

    def length(self) -> int | None:
        with self._opened() as archive:
            return self._chosen(archive)[1].shape[0]

    def schema(self) -> RowSchema | None:
        with self._opened() as archive:
            _, head, text = self._chosen(archive)
            return RowSchema(head.shape[1], self.path, text=text)

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
        text, ids = bool(schema and schema.text), None
        with self._opened() as archive, _parsing():
            rows = archive[self._chosen(archive)[0]]
            if self._options.ids is not None:
                ids = archive[self._options.ids]
        if ids is not None and ids.dtype.kind != "U":
            ids = as_ids(ids, f"{self.path}: {self._options.ids!r}")
        most = batch_rows(self._options.rows, rows[:1].nbytes)
        for row in range(at["row"] if at else 0, len(rows), most):
            some = slice(row, row + most)
            if ids is None or (ids.dtype.kind == "i" and not text):
                yield self._batch(rows[some], row, None if ids is None else ids[some])
            else:
                yield self._batch(rows[some], row, *_text_ids(ids[some], text=text))

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with file_errors(self.path, self.kind), self.source.open() as stream:
            with _parsing():
                archive = np.load(stream)
                if not hasattr(archive, "zip"):
                    raise ValueError("it is not an archive")
            with archive:
                yield archive

    def _chosen(self, archive: Any) -> tuple[str, ArrayHead, bool | None]:
        """The array of the rows, its head, and whether ids are texts."""
        heads = {}
        for name in archive.files:
            with _parsing(), archive.zip.open(f"{name}.npy") as stream:
                heads[name] = read_head(stream)
        matrices = [name for name, head in heads.items() if len(head.shape) == 2]
        matrices = ["X"] if "X" in heads else matrices
        names = self._options.columns or matrices
        ids = self._options.ids
        asked = [*(self._options.columns or ()), *(() if ids is None else (ids,))]
        missing = [name for name in asked if name not in heads]
        if missing:
            has = ", ".join(heads) or "none"
            raise InputError(f"{self.path} has no array {missing[0]!r}; it has {has}")
        if len(names) != 1:
            has = ", ".join(f"{name} {head.shape}" for name, head in heads.items())
            raise InputError(
                f"{self.path} has {len(names)} arrays of two dimensions and none named X: choose "
                f"one with columns; it has {has or 'none'}"
            )
        head = check_rows(heads[names[0]], self.path)
        if ids is None:
            return names[0], head, None
        if heads[ids].shape != head.shape[:1]:
            shapes = f"{heads[ids].shape}, not {head.shape[:1]}"
            raise InputError(f"{self.path}: {ids!r} has the shape {shapes}")
        if heads[ids].dtype.kind not in "iuU":
            kind = f"{heads[ids].dtype}; they must be integers or texts"
            raise InputError(f"{self.path}: the ids {ids!r} have the type {kind}")
        return names[0], head, heads[ids].dtype.kind == "U" if head.shape[0] else None


class Vecs(_ArrayReader):
    """Records of a 32-bit count d and then d numbers: floats in .fvecs, bytes in .bvecs."""

    kind = "vectors"
    place = "record"
    number: np.dtype[Any] = np.dtype("<f4")

    def length(self) -> int | None:
        with file_errors(self.path, self.kind):
            size, schema = self.source.size(), self.schema()
        record = self._record(schema.width if schema else 0).itemsize
        return None if size is None else size // record

    def schema(self) -> RowSchema | None:
        if self.source.once:
            return None
        with file_errors(self.path, self.kind), self.source.open() as stream:
            width = self._width(stream)
            return RowSchema(width, self.path) if width else None

    def batches(self, schema: RowSchema | None, at: Position | None) -> Iterator[RowBatch]:
        del schema  # the first record says it
        row = at["row"] if at else 0
        where = file_errors(self.path, self.kind, lambda: f" from record {row} on")
        with where, self.source.open() as stream:
            width = self._width(stream)
            if not width:
                return
            record, done = self._record(width), 4
            if row:
                stream.seek(row * record.itemsize)
                done = 0
            most = batch_rows(self._options.rows, record.itemsize * 4 // self.number.itemsize)
            size = -1
            while size:
                data = np.empty(most * record.itemsize, np.uint8)
                data[:4] = np.frombuffer(width.to_bytes(4, "little"), np.uint8)
                size, done = fill(stream, data.data, done), 0
                records = data[: size // record.itemsize * record.itemsize].view(record)
                other = np.flatnonzero(records["d"] != width)
                records = records[: other[0] if len(other) else None]
                if len(records):
                    yield self._batch(records["v"], row)
                row += len(records)
                self._check_rest(data[records.nbytes : size][:4].tobytes(), width, row)

    def _record(self, width: int) -> np.dtype[Any]:
        return np.dtype([("d", "<i4"), ("v", self.number, (width,))])

    def _width(self, stream: BinaryIO) -> int:
        """What the first record says; 0 if there is none."""
        head = bytearray(4)
        head = head[: fill(stream, memoryview(head))]
        width = int.from_bytes(head, "little", signed=True)
        if head and (len(head) < 4 or not 0 < width <= WIDEST):
            raise StorageError(
                f"{self.path} is not a file of vectors: record 0 should begin with its length, 1 "
                f"to {WIDEST} in 4 bytes; it begins with the bytes {head.hex(' ')}"
            )
        return width

    def _check_rest(self, rest: bytes, width: int, row: int) -> None:
        """Nothing may be left after the whole records of a block."""
        other = int.from_bytes(rest, "little", signed=True)
        if len(rest) >= 4 and other != width:
            raise StorageError(
                f"{self.path}, record {row}: it should have {width} numbers like those before, "
                f"and says {other}"
            )
        if rest:
            raise StorageError(f"{self.path} is cut off in record {row}")


class ByteVecs(Vecs):
    """.bvecs"""

    number = np.dtype("u1")


def _text_ids(values: NDArray[Any], *, text: bool) -> tuple[Ids, list[str]]:
    """Ids of the kind of the source, and what is wrong with each."""
    plain: list[Any] = values.tolist()
    wrong = [why_bad_id(value, text) for value in plain]
    good = [("" if text else 0) if why else value for value, why in zip(plain, wrong, strict=True)]
    return np.array(good, TEXT if text else np.int64), wrong


@contextmanager
def _parsing() -> Iterator[None]:
    """Around a call of a library that parses bytes: what it raises, the bytes are to blame for."""
    try:
        yield
    except (OSError, DamagedFileError, InputError, StorageError):
        raise
    except Exception as error:
        raise DamagedFileError(str(error) or type(error).__name__) from error


def read_head(stream: Any) -> ArrayHead:
    """The head of the array that begins here."""
    with _parsing():
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        head = ArrayHead(*read(stream))
        if min(head.shape, default=0) < 0:
            raise ValueError(f"its head says that the array has the shape {head.shape}")
        return head


def check_rows(head: ArrayHead, path: str) -> ArrayHead:
    """Check that an array is rows of numbers, and that there can be memory for one."""
    if len(head.shape) != 2 or not head.shape[1]:
        raise InputError(
            f"{path} has an array of shape {head.shape}; it should be two-dimensional, one row "
            f"per vector"
        )
    if head.dtype.kind not in "fiub":
        raise InputError(f"{path} has an array of the type {head.dtype}, which is not numeric")
    size = head.shape[1] * head.dtype.itemsize
    if size > LARGEST_BATCH:
        raise StorageError(f"{path} has rows of {size:,} bytes: at most {LARGEST_BATCH:,} are read")
    return head


def _read(stream: BinaryIO, count: int, width: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The next rows, or those that are left."""
    rows = np.empty((count, width), dtype)
    return rows[: fill(stream, rows.reshape(-1).view(np.uint8).data) // rows[0].nbytes]
