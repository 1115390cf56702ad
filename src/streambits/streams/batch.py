"""Batches: rows with their ids."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array
from streambits.errors import InputError


class Batch(NamedTuple):
    """ids: (n,) 64-bit integers; rows: (n, d)."""

    ids: NDArray[np.int64]
    rows: Array


def _count(rows: Array) -> int:
    return int(rows.shape[0]) if getattr(rows, "shape", ()) else len(rows)


def batches(stream: Iterable[Any]) -> Iterator[Batch]:
    """Any iterable of row arrays, or of (ids, rows), as batches; missing ids are counted from 0."""
    counted = 0
    for item in stream:
        if isinstance(item, tuple):
            ids, rows = np.asarray(item[0]), item[1]
        else:
            ids, rows = np.arange(counted, counted + _count(item)), item
        count = _count(rows)
        fits = ids.dtype.kind in "iu" and np.all(ids <= np.iinfo(np.int64).max)
        if ids.shape != (count,) or not fits:
            raise InputError(
                f"a batch of {count} rows needs as many whole numbers as ids; "
                f"got shape {ids.shape} and type {ids.dtype}"
            )
        counted += count
        yield Batch(ids.astype(np.int64), rows)
