"""Arrays in .npz files, streamed out of the archive."""

import itertools
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_ids
from streambits.errors import InputError
from streambits.io.rows.handles import Handle
from streambits.io.rows.npy import Head, as_rows_head, blocks, read_head
from streambits.io.rows.parts import (
    At,
    Layout,
    Options,
    Part,
    float_type,
    numbers_reject,
    reading,
    sift,
)


class Member:
    """An array of an archive, as a handle."""

    seeks = True
    direct = False  # what is before a place is unpacked

    def __init__(self, path: str, name: str) -> None:
        self.name, self._array = path, name

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with zipfile.ZipFile(self.name) as archive, archive.open(f"{self._array}.npy") as stream:
            yield cast("BinaryIO", stream)

    def size(self) -> None:
        return None

    def ready(self, unit: int = 0) -> bool:
        del unit
        return True

    def verify(self) -> None:
        pass


class Npz:
    """The array named by `columns`, or X, or the only one of two dimensions; ids: another one."""

    keys: tuple[str, ...] = ("row",)

    def __init__(self, handle: Handle, options: Options) -> None:
        self.path, self.handle, self._options = handle.name, handle, options
        if options.columns is not None and len(options.columns) != 1:
            raise InputError(f"{self.path}: columns must name one array, not {options.columns}")

    def length(self) -> int | None:
        return self._rows().shape[0]

    def layout(self) -> Layout | None:
        return Layout(self._rows().shape[1], self.path)

    def parts(self, layout: Layout | None, at: At | None) -> Iterator[Part]:
        del layout  # the head says it
        row = at["row"] if at else 0
        with reading(self.path, ".npz", lambda: f" from row {row} on"):
            self._rows()
            ids = self._ids(row)
            for block in self._blocks(self._name(), row):
                reject = numbers_reject(f"{self.path}, row", row, block)
                row += len(block)
                rows = block.astype(float_type(block.dtype), copy=False)
                yield sift(rows, next(ids), {"row": row}, reject)

    def _rows(self) -> Head:
        with reading(self.path, ".npz"):
            return as_rows_head(self._head(self._name()), self.path)

    def _ids(self, row: int) -> Iterator[NDArray[np.int64] | None]:
        """Beside the blocks of rows, those of ids."""
        name = self._options.ids
        if name is None:
            yield from itertools.repeat(None)
        else:
            shape, wanted = self._head(name).shape, self._rows().shape[:1]
            if shape != wanted:
                raise InputError(f"{self.path}: {name!r} has the shape {shape}, not {wanted}")
            for block in self._blocks(name, row):
                yield as_ids(block, f"{self.path}: {name!r}")

    def _blocks(self, name: str, row: int) -> Iterator[NDArray[Any]]:
        handle = Member(self.path, name)
        with handle.open() as stream:
            yield from blocks(stream, read_head(stream), row, self._options.rows, handle)

    def _head(self, name: str) -> Head:
        if name not in self._names():
            has = ", ".join(self._names())
            raise InputError(f"{self.path} has no array {name!r}; it has {has or 'none'}")
        with Member(self.path, name).open() as stream:
            return read_head(stream)

    def _names(self) -> list[str]:
        with zipfile.ZipFile(self.path) as archive:
            return [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]

    def _name(self) -> str:
        if self._options.columns is not None:
            return self._options.columns[0]
        names = self._names()
        shapes = {name: self._head(name).shape for name in names}
        flat = [name for name, shape in shapes.items() if len(shape) == 2]
        if "X" in names or len(flat) == 1:
            return "X" if "X" in names else flat[0]
        raise InputError(
            f"{self.path} has {len(flat)} arrays of two dimensions and none named X: choose one "
            f"with columns; it has {', '.join(f'{n} {s}' for n, s in shapes.items()) or 'none'}"
        )
