"""True neighbours, by Euclidean distance in double precision."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 100  # queries at a time


def draw_queries(count: int, length: int, *, seed: int = 0) -> NDArray[np.intp]:
    """`count` different places among `length` rows."""
    return np.random.default_rng(seed).choice(length, min(count, length), replace=False)


def _squared_blocks(
    rows: NDArray[Any], queries: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """Some queries at a time, and their squared distances to all rows."""
    shifted = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    squares = np.vecdot(shifted, shifted)
    for start in range(0, len(queries), BLOCK):
        some = queries[start : start + BLOCK]
        yield some, squares[some, None] + squares - 2 * (shifted[some] @ shifted.T)


class Truth(NamedTuple):
    """What there is to find, for queries that are rows of the database, without themselves.

    queries: (q,) their places; near: (q, n) who lies within the threshold; closest: (q, k) places
    of the k nearest.
    """

    queries: NDArray[np.intp]
    near: NDArray[np.bool_]
    closest: NDArray[np.intp]


def find(
    rows: NDArray[Any], queries: NDArray[np.intp], threshold: float, *, closest: int = 10
) -> Truth:
    """The true neighbours of queries among rows (n, d). Memory: a byte a pair."""
    near, nearest = [], []
    for some, squared in _squared_blocks(rows, queries):
        squared[np.arange(len(some)), some] = np.inf
        near.append(squared <= threshold**2)
        nearest.append(np.argpartition(squared, closest - 1, axis=1)[:, :closest])
    return Truth(queries, np.concatenate(near), np.concatenate(nearest))
