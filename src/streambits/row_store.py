"""RowStore: raw rows by id, in memory or in a file that is mapped."""

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._files import close_file
from streambits.errors import StorageError

Numbers = NDArray[np.int64]
NONE: Numbers = np.empty(0, np.int64)
LEAST = 1024  # rows for which there is room at first
STEP = 8192  # rows that are copied at a time


class RowStore:
    """Rows in the order in which they came, and where the last one of each id is.

    Parameters
    ----------
    path : Path, optional
        File of the rows; without one they are in memory.
    dtype : dtype, optional
    columns : int, optional
        Both are those of the first rows by default.

    Notes
    -----
    Ids are numbers. Where rows are is in sorted runs of ids, each at least twice as long as the
    next: 16 bytes per row, found by bisection. Rows of ids that were removed, or came again, stay
    until the store is written anew.
    """

    def __init__(
        self, path: Path | None = None, dtype: Any = None, columns: int | None = None
    ) -> None:
        self.path, self.dtype, self.columns = path, dtype, columns
        self._count = self._written = 0
        self._runs: list[tuple[Numbers, Numbers]] = []
        self._held: NDArray[Any] | None = None
        self._file = -1

    def __len__(self) -> int:
        """Rows that are kept, also those that are not needed any more."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        held = 0 if self._held is None or self.path is not None else self._held.nbytes
        return held + sum(ids.nbytes + places.nbytes for ids, places in self._runs)

    def write(self, rows: NDArray[Any]) -> None:
        """Put rows behind the others, for `put` to name them; those not named are written over."""
        if not len(rows):
            return
        if self.columns is None:
            self.dtype, self.columns = rows.dtype, int(rows.shape[1])
        if self.path is None:
            return
        if self._file < 0:
            self._open(os.O_RDWR | os.O_CREAT)
        content = memoryview(np.ascontiguousarray(rows, self.dtype).tobytes())
        done, start = 0, self._count * self._row_bytes
        try:
            while done < len(content):
                done += os.pwrite(self._file, content[done:], start + done)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}") from error

    def put(self, numbers: Numbers, rows: NDArray[Any]) -> None:
        """Keep rows under numbers; in a file they were written before."""
        if not len(rows):
            return
        if self.columns is None:
            self.dtype, self.columns = rows.dtype, int(rows.shape[1])
        if self.path is None:
            self._append(rows)
        places = np.arange(self._count, self._count + len(rows))
        order = np.argsort(numbers, kind="stable")
        ids, places = numbers[order], places[order]
        last = np.append(ids[1:] != ids[:-1], True)
        self._runs.append((ids[last], places[last]))
        self._count += len(rows)
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [_merged(*self._runs[-2:])]

    def _append(self, rows: NDArray[Any]) -> None:
        wanted = self._count + len(rows)
        if self._held is None or wanted > len(self._held):
            new = np.empty((max(LEAST, 2 * wanted), rows.shape[1]), self.dtype)
            if self._held is not None:
                new[: self._count] = self._held[: self._count]
            self._held = new
        self._held[self._count : wanted] = rows

    def get(self, numbers: Numbers) -> NDArray[Any]:
        """Return the rows (n, d) of numbers; KeyError if one is not there."""
        places = np.full(len(numbers), -1)
        for ids, where in self._runs:
            at = np.minimum(np.searchsorted(ids, numbers), len(ids) - 1)
            found = ids[at] == numbers
            places[found] = where[at[found]]
        if (places < 0).any():
            raise KeyError(int(numbers[places < 0][0]))
        return np.asarray(self._all()[places])

    def _all(self) -> NDArray[Any]:
        """All rows that are kept."""
        if self.path is None:
            assert self._held is not None
            return self._held
        if self._held is None or len(self._held) < self._count:
            if self._file < 0:
                self._open(os.O_RDONLY)
            shape = (self._count, self.columns or 0)
            with os.fdopen(os.dup(self._file), "rb") as file:
                self._held = np.memmap(file, self.dtype, "r", shape=shape)
        return self._held

    def _open(self, flags: int) -> None:
        assert self.path is not None
        try:
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be opened: {error.strerror}") from error

    @property
    def _row_bytes(self) -> int:
        return int(np.dtype(self.dtype).itemsize) * int(self.columns or 0)

    def written(self, path: Path, live: Numbers) -> "RowStore":
        """Write the rows of these numbers, and no others, to a file of their own."""
        new = RowStore(path, self.dtype, self.columns)
        new._open(os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        live = np.sort(live)
        for start in range(0, len(live), STEP):
            some = live[start : start + STEP]
            rows = self.get(some)
            new.write(rows)
            new.put(some, rows)
        return new

    def compact(self, live: Numbers) -> None:
        """Keep the rows of these numbers and no others; of a store in memory."""
        rows = self.get(np.sort(live)) if len(live) else None
        self._count, self._runs, self._held = 0, [], None
        if rows is not None:
            self.put(np.sort(live), rows)

    def sync(self) -> None:
        """Bring the file to the disk."""
        if self._file < 0:
            self._open(os.O_RDWR | os.O_CREAT)
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        close_file(self)
        self._held = None if self.path is not None else self._held

    def __del__(self) -> None:
        close_file(self)

    def state(self) -> dict[str, Any]:
        """Return where rows are, for `from_state`."""
        ids, places = NONE, NONE
        for run in self._runs:
            ids, places = _merged((ids, places), run)
        dtype = None if self.dtype is None else np.dtype(self.dtype).str
        return {
            "count": self._count,
            "dtype": dtype,
            "columns": self.columns,
            "ids": ids,
            "places": places,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], path: Path, *, writes: bool) -> Self:
        """Open the rows in a file.

        Raises
        ------
        StorageError
            If the file is too short.
        """
        self = cls(path, state["dtype"] and np.dtype(state["dtype"]), state["columns"])
        self._count = state["count"]
        self._runs = [(state["ids"], state["places"])] if len(state["ids"]) else []
        self._open(os.O_RDWR if writes else os.O_RDONLY)
        size, wanted = os.fstat(self._file).st_size, self._count * self._row_bytes
        if size < wanted:
            raise StorageError(f"{path} is cut off: it has {size:,} bytes, and needs {wanted:,}")
        return self


def _merged(old: tuple[Numbers, Numbers], new: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    """Two runs as one, in which the new places count."""
    ids, places = (np.concatenate([a, b]) for a, b in zip(old, new, strict=True))
    order = np.argsort(ids, kind="stable")
    ids, places = ids[order], places[order]
    last = np.append(ids[1:] != ids[:-1], True)
    return ids[last], places[last]
