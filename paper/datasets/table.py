"""Rows with their classes: how they are kept in a file, and what is done to them after reading."""

import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._files import replacing
from streambits.errors import StorageError

Rows = NDArray[Any]
Labels = NDArray[np.int64]


class Table(NamedTuple):
    """rows: (n, d); labels: (n,) the class of each row, None where the data have no classes."""

    rows: Rows
    labels: Labels | None = None

    def take(self, places: NDArray[np.intp]) -> "Table":
        """Those rows, in that order, with their labels."""
        return Table(self.rows[places], None if self.labels is None else self.labels[places])


def sample(table: Table, most: int) -> Table:
    """At most that many rows, drawn uniformly with seed 0, in the order of the file.

    The ready files are drawn like this, so an official file gives the same rows.
    """
    count = len(table.rows)
    if count <= most:
        return table
    return table.take(np.sort(np.random.default_rng(0).choice(count, most, replace=False)))


def single(rows: Rows) -> Rows:
    """The rows in single precision."""
    return np.asarray(rows, np.float32)


def standardise(rows: Rows) -> Rows:
    """Mean 0 and variance 1 in every column; constant columns are zero.

    Rounded to single precision first, as the ready file is, so both give the same rows.
    """
    exact = single(rows).astype(np.float64)
    spread = exact.std(axis=0)
    return single((exact - exact.mean(axis=0)) / np.where(spread > 0, spread, 1))


def read(path: Path) -> Table:
    """A table from a .npz: X and, where there are classes, y; the ready SIFT has base and learn."""
    try:
        with path.open("rb") as raw, np.load(raw) as file:
            arrays = {name: file[name] for name in ("X", "y", "base", "learn") if name in file}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise StorageError(f"{path} is cut off or no .npz file: put a whole one there") from error
    if "X" not in arrays and not {"base", "learn"} <= set(arrays):
        raise StorageError(f"{path} holds no array X: put the ready file of that name there")
    rows = arrays["X"] if "X" in arrays else np.concatenate([arrays["base"], arrays["learn"]])
    labels = arrays.get("y")
    if labels is not None and len(labels) != len(rows):
        raise StorageError(f"{path} has {len(rows)} rows, but {len(labels)} labels in its array y")
    return Table(rows, None if labels is None else labels.astype(np.int64))


def write(path: Path, table: Table) -> None:
    """Keep a table as .npz, whole or not at all."""
    arrays = {"X": table.rows} if table.labels is None else {"X": table.rows, "y": table.labels}
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
