"""True neighbours, by Euclidean distance in double precision."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 100  # queries at a time


class Neighbours(NamedTuple):
    """queries: places of the queries in the database; near: (queries, n) who is a neighbour."""

    queries: NDArray[np.intp]
    near: NDArray[np.bool_]


def draw_queries(count: int, length: int, *, seed: int = 0) -> NDArray[np.intp]:
    """`count` different places among `length` rows."""
    return np.random.default_rng(seed).choice(length, min(count, length), replace=False)


def near_blocks(
    rows: NDArray[Any], queries: NDArray[np.intp], threshold: float
) -> Iterator[Neighbours]:
    """The rows within `threshold` of each query, a block of queries at a time."""
    shifted = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    squares = np.vecdot(shifted, shifted)
    for start in range(0, len(queries), BLOCK):
        some = queries[start : start + BLOCK]
        squared = squares[some, None] + squares - 2 * (shifted[some] @ shifted.T)
        yield Neighbours(some, squared <= threshold**2)
