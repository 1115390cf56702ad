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


def batches(stream: Iterable[Any]) -> Iterator[Batch]:
    """Any iterable of row arrays, or of (ids, rows), as batches; missing ids are counted from 0."""
    counted = 0
    for item in stream:
        if isinstance(item, tuple):
            ids, rows = np.asarray(item[0]), item[1]
        else:
            ids, rows = np.arange(counted, counted + len(item)), item
        if ids.shape != (len(rows),) or ids.dtype.kind not in "iu":
            raise InputError(
                f"a batch of {len(rows)} rows needs as many whole numbers as ids; "
                f"got shape {ids.shape} and type {ids.dtype}"
            )
        counted += len(rows)
        yield Batch(ids.astype(np.int64), rows)
