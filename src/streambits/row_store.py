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
SINGLE = 4  # bytes of a number of single precision
FIRST_SLOTS = 1024  # rows for which there is room at first
STEP = 8192  # rows that are copied at a time


class RowStore:
    """Rows in the order in which they came, and where the last one of each id is.

    Parameters
    ----------
    path : Path, optional
        File of the rows; without one they are in memory.
    columns : int, optional
        That of the first rows by default.

    Notes
    -----
    Ids are numbers. Where rows are is in sorted runs of ids, each at least twice as long as the
    next: 16 bytes per row, found by bisection. Rows of ids that were removed, or came again, stay
    until the store is written anew.

    Every row keeps its precision. Rows are in slots of one row of single precision; one of double
    precision takes two of them, and its place is negative (`~place`).
    """

    def __init__(self, path: Path | None = None, columns: int | None = None) -> None:
        self.path, self.columns = path, columns
        self._count = 0  # slots
        self._runs: list[tuple[Numbers, Numbers]] = []
        self._slots: NDArray[np.float32] | None = None
        self._file = -1

    def __len__(self) -> int:
        """About how many rows there are, also those that are not needed any more."""
        width = 1 + (np.concatenate([NONE, *(places for _, places in self._runs)]) < 0)
        return round(self._count / width.mean()) if len(width) else self._count

    @property
    def name(self) -> str | None:
        """Name of the file."""
        return None if self.path is None else self.path.name

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        own = 0 if self._slots is None or self.path is not None else self._slots.nbytes
        return own + sum(ids.nbytes + places.nbytes for ids, places in self._runs)

    def write(self, rows: NDArray[Any]) -> None:
        """Put rows behind the others, for `put` to name them; those not named are written over."""
        if self.path is None or not len(rows):
            return
        if self._file < 0:
            self._open(os.O_RDWR | os.O_CREAT)
        content = memoryview(_slots_of(rows).tobytes())
        done, start = 0, self._count * SINGLE * rows.shape[1]
        try:
            while done < len(content):
                done += os.pwrite(self._file, content[done:], start + done)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}") from error

    def put(self, numbers: Numbers, rows: NDArray[Any]) -> None:
        """Keep rows under numbers; in a file they were written before."""
        if not len(rows):
            return
        self.columns = int(rows.shape[1])
        if self.path is None:
            self._append(_slots_of(rows))
        double = rows.dtype == np.float64
        width = 2 if double else 1
        places = self._count + width * np.arange(len(rows))
        order = np.argsort(numbers, kind="stable")
        ids, places = numbers[order], (~places if double else places)[order]
        last = np.append(ids[1:] != ids[:-1], True)
        runs = [*self._runs, (ids[last], places[last])]
        while len(runs) > 1 and len(runs[-2][0]) < 2 * len(runs[-1][0]):
            runs[-2:] = [_merged(*runs[-2:])]
        self._runs = runs
        self._count += width * len(rows)

    def _append(self, slots: NDArray[np.float32]) -> None:
        wanted = self._count + len(slots)
        if self._slots is None or wanted > len(self._slots):
            new = np.empty((max(FIRST_SLOTS, 2 * wanted), slots.shape[1]), np.float32)
            if self._slots is not None:
                new[: self._count] = self._slots[: self._count]
            self._slots = new
        self._slots[self._count : wanted] = slots

    def get(self, numbers: Numbers) -> NDArray[Any]:
        """Return the rows (n, d) of numbers, in double precision if one of them came in it.

        Raises
        ------
        KeyError
            If one is not there.
        """
        places = self._places(numbers)
        if not len(numbers):
            return np.empty((0, self.columns or 0), np.float32)
        slots, double = self._all(), places < 0
        if not double.any():
            return np.asarray(slots[places])
        rows = np.empty((len(numbers), self.columns or 0), np.float64)
        rows[~double] = slots[places[~double]]
        pairs = slots[~places[double][:, None] + np.arange(2)]
        rows[double] = pairs.reshape(len(pairs), -1).view(np.float64)
        return rows

    def _places(self, numbers: Numbers) -> Numbers:
        places, missing = np.zeros(len(numbers), np.int64), np.ones(len(numbers), np.bool_)
        for ids, where in self._runs:
            at = np.minimum(np.searchsorted(ids, numbers), len(ids) - 1)
            match = ids[at] == numbers
            places[match], missing[match] = where[at[match]], False
        if missing.any():
            raise KeyError(int(numbers[missing][0]))
        return places

    def _all(self) -> NDArray[np.float32]:
        """All slots that are used."""
        if self.path is None:
            assert self._slots is not None
            return self._slots
        if self._slots is None or len(self._slots) < self._count:
            if self._file < 0:
                self._open(os.O_RDONLY)
            shape = (self._count, self.columns or 0)
            with os.fdopen(os.dup(self._file), "rb") as file:
                self._slots = np.memmap(file, np.float32, "r", shape=shape)
        return self._slots

    def _open(self, flags: int) -> None:
        assert self.path is not None
        try:
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be opened: {error.strerror}") from error

    def written(self, path: Path, live: Numbers) -> "RowStore":
        """Write the rows of these numbers, and no others, to a file of their own."""
        path.unlink(missing_ok=True)  # left over
        new = RowStore(path, self.columns)
        new._open(os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._copy_to(new, live)
        return new

    def compacted(self, live: Numbers) -> "RowStore":
        """Return the rows of these numbers, and no others, in memory."""
        new = RowStore(columns=self.columns)
        self._copy_to(new, live)
        return new

    def _copy_to(self, new: "RowStore", live: Numbers) -> None:
        live = np.sort(live)
        for start in range(0, len(live), STEP):
            numbers = live[start : start + STEP]
            double = self._places(numbers) < 0
            for some in (numbers[~double], numbers[double]):
                rows = self.get(some)
                new.write(rows)
                new.put(some, rows)

    def sync(self) -> None:
        """Bring the file to the disk."""
        if self._file < 0:
            self._open(os.O_RDWR | os.O_CREAT)
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        close_file(self)
        self._slots = None if self.path is not None else self._slots

    def __del__(self) -> None:
        close_file(self)

    def state(self) -> dict[str, Any]:
        """Return where rows are, for `from_state`."""
        ids, places = NONE, NONE
        for run in self._runs:
            ids, places = _merged((ids, places), run)
        return {
            "count": self._count,
            "dtype": "<f4",
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
        self = cls(path, state["columns"])
        self._count, places = state["count"], state["places"]
        if state["dtype"] == "<f8":  # of an earlier version, in which all rows had one precision
            self._count, places = 2 * self._count, ~(2 * places)
        self._runs = [(state["ids"], places)] if len(places) else []
        self._open(os.O_RDWR if writes else os.O_RDONLY)
        size = os.fstat(self._file).st_size
        wanted = self._count * SINGLE * (self.columns or 0)
        if size < wanted:
            raise StorageError(f"{path} is cut off: it has {size:,} bytes, and needs {wanted:,}")
        return self


def _slots_of(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Rows as slots of single precision, two for a row of double precision."""
    return np.ascontiguousarray(rows).view(np.float32).reshape(-1, rows.shape[1])


def _merged(old: tuple[Numbers, Numbers], new: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    """Two runs as one, in which the new places count."""
    ids, places = (np.concatenate([a, b]) for a, b in zip(old, new, strict=True))
    order = np.argsort(ids, kind="stable")
    ids, places = ids[order], places[order]
    last = np.append(ids[1:] != ids[:-1], True)
    return ids[last], places[last]
