"""Files of vectors, .fvecs and .bvecs: before each stands how many numbers it has."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from streambits.errors import StorageError
from streambits.io.rows.handles import Handle, fill, rows_in_chunk, skip
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

WIDEST = 1 << 20  # a head that says more is rubbish


class Vecs:
    """Records of a 32-bit count d and then d numbers: floats in .fvecs, bytes in .bvecs."""

    keys: tuple[str, ...] = ("row",)
    number: np.dtype[Any] = np.dtype("<f4")

    def __init__(self, handle: Handle, options: Options) -> None:
        refuse_names(handle.name, options)
        self.path, self.handle, self._rows = handle.name, handle, options.rows

    def length(self) -> int | None:
        size, layout = self.handle.size(), self.layout()
        if size is None or not self.handle.direct:
            return None
        return 0 if layout is None else size // self._record(layout.width).itemsize

    def layout(self) -> Layout | None:
        if not self.handle.seeks:
            return None
        with reading(self.path, "vectors"), self.handle.open() as stream:
            return self._layout(stream.read(4))

    def parts(self, layout: Layout | None, at: At | None) -> Iterator[Part]:
        del layout  # the first record says it
        row = at["row"] if at else 0
        with (
            reading(self.path, "vectors", lambda: f" from record {row} on"),
            self.handle.open() as stream,
        ):
            head = stream.read(4)
            found = self._layout(head)
            if found is None:
                return
            record = self._record(found.width)
            if row:
                skip(stream, row * record.itemsize - len(head), self.handle)
                head = b""
            while len(data := self._read(stream, head, record.itemsize)):
                records = data[: len(data) // record.itemsize * record.itemsize].view(record)
                records = records[: _first_other(records["d"], found.width)]
                if len(records):
                    yield self._part(records, row)
                row, head = row + len(records), b""
                self._check(data[records.nbytes :][:4].tobytes(), found.width, row)

    def _read(self, stream: BinaryIO, head: bytes, size: int) -> NDArray[np.uint8]:
        """The bytes of the next records, of which `head` was read already."""
        rows = rows_in_chunk(self._rows, size * 4 // self.number.itemsize)  # as floats
        data = np.empty(rows * size, np.uint8)
        data[: len(head)] = np.frombuffer(head, np.uint8)
        return data[: fill(stream, data.data, size, self.handle, len(head))]

    def _layout(self, head: bytes) -> Layout | None:
        if not head:
            return None
        width = int.from_bytes(head, "little", signed=True)
        if len(head) < 4 or not 0 < width <= WIDEST:
            raise StorageError(
                f"{self.path} is no file of vectors: record 0 should begin with its length, 1 to "
                f"{WIDEST} in 4 bytes; it begins with the bytes {head.hex(' ')}"
            )
        size, there = self._record(width).itemsize, self.handle.size()
        if self.handle.direct and there is not None and size > there:
            raise StorageError(
                f"{self.path} says that record 0 has {width:,} numbers, {size:,} bytes, and the "
                f"file has {there:,}: it is cut off, or no file of vectors"
            )
        return Layout(width, self.path)

    def _record(self, width: int) -> np.dtype[Any]:
        return np.dtype([("d", "<i4"), ("v", self.number, (width,))])

    def _part(self, records: Any, row: int) -> Part:
        rows = records["v"].astype(float_type(self.number))
        reject = numbers_reject(f"{self.path}, record", row, rows)
        return sift(rows, None, {"row": row + len(rows)}, reject)

    def _check(self, rest: bytes, width: int, row: int) -> None:
        """Nothing may be left after the whole records of a block."""
        found = int.from_bytes(rest[:4], "little", signed=True)
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
