"""Batches: rows with their ids."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_ids
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
            ids, rows = as_ids(item[0]), item[1]
        else:
            ids, rows = np.arange(counted, counted + _count(item), dtype=np.int64), item
        count = _count(rows)
        if len(ids) != count:
            raise InputError(f"a batch of {count} rows needs as many ids; got {len(ids)}")
        counted += count
        yield Batch(ids, rows)
