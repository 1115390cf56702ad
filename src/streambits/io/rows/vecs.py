"""Files of vectors, .fvecs and .bvecs: each vector is preceded by its number of values."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from streambits.errors import StorageError
from streambits.io.rows.files import (
    At,
    Layout,
    ReadOptions,
    file_errors,
    refuse_names,
    sift_array,
)
from streambits.io.rows.inputs import Input, batch_rows, ends_before, fill, skip
from streambits.model.batches import RowBatch

WIDEST = 1 << 20  # a head that says more is not one


class Vecs:
    """Records of a 32-bit count d and then d numbers: floats in .fvecs, bytes in .bvecs."""

    keys: tuple[str, ...] = ("row",)
    number: np.dtype[Any] = np.dtype("<f4")

    def __init__(self, source: Input, options: ReadOptions) -> None:
        refuse_names(source.name, options)
        self.path, self.source, self._rows = source.name, source, options.rows

    def length(self) -> int | None:
        size, layout = self.source.size(), self.layout()
        if size is None or not self.source.direct:
            return None
        return 0 if layout is None else size // self._record(layout.width).itemsize

    def layout(self) -> Layout | None:
        if not self.source.seeks:
            return None
        with file_errors(self.path, "vectors"), self.source.open() as stream:
            return self._layout(stream.read(4))

    def batches(self, layout: Layout | None, at: At | None) -> Iterator[RowBatch]:
        del layout  # the first record says it
        row = at["row"] if at else 0
        where = file_errors(self.path, "vectors", lambda: f" from record {row} on")
        with where, self.source.open() as stream:
            head = stream.read(4)
            found = self._layout(head)
            if found is None:
                if row:
                    raise ends_before(self.source, f", record {row}")
                return
            record = self._record(found.width)
            if row:
                skip(stream, row * record.itemsize - len(head), self.source)
                head = b""
            while len(data := self._read(stream, head, record.itemsize)):
                records = data[: len(data) // record.itemsize * record.itemsize].view(record)
                records = records[: _first_other(records["d"], found.width)]
                if len(records):
                    yield sift_array(records["v"], row, f"{self.path}, record")
                row, head = row + len(records), b""
                self._check_rest(data[records.nbytes :][:4].tobytes(), found.width, row)

    def _read(self, stream: BinaryIO, head: bytes, size: int) -> NDArray[np.uint8]:
        """The bytes of the next records, of which `head` was read already."""
        rows = batch_rows(self._rows, size * 4 // self.number.itemsize)  # as floats
        data = np.empty(rows * size, np.uint8)
        data[: len(head)] = np.frombuffer(head, np.uint8)
        return data[: fill(stream, data.data, size, self.source, len(head))]

    def _layout(self, head: bytes) -> Layout | None:
        if not head:
            return None
        width = int.from_bytes(head, "little", signed=True)
        if len(head) < 4 or not 0 < width <= WIDEST:
            raise StorageError(
                f"{self.path} is not a file of vectors: record 0 should begin with its length, 1 "
                f"to {WIDEST} in 4 bytes; it begins with the bytes {head.hex(' ')}"
            )
        size, there = self._record(width).itemsize, self.source.size()
        if self.source.direct and there is not None and size > there:
            raise StorageError(
                f"{self.path} says that record 0 has {width:,} numbers, {size:,} bytes, and the "
                f"file has {there:,}: it is cut off, or not a file of vectors"
            )
        return Layout(width, self.path)

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


def _first_other(counts: Any, width: int) -> int:
    other = counts != width
    return int(other.argmax()) if other.any() else len(other)
