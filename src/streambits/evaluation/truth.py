"""True neighbours, by Euclidean distance in double precision: within thresholds, or the nearest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits.features import all_pairs, nearest

BLOCK = 100  # queries at a time


def draw_queries(count: int, length: int, *, seed: int = 0) -> NDArray[np.intp]:
    """`count` different places among `length` rows."""
    return np.random.default_rng(seed).choice(length, min(count, length), replace=False)


def paper_thresholds(train: NDArray[Any]) -> dict[str, float]:
    """The paper's three distances below which rows are neighbours, from landmarks (m, d).

    sigma_30: the mean distance to the 30th neighbour; sigma_all: the mean over all pairs.
    """
    near = nearest(30).distance(train)
    return {"sigma_30": near, "sigma_30 / 4": near / 4, "sigma_all": all_pairs().distance(train)}


@dataclass(frozen=True)
class Truth:
    """What there is to find, for queries that are rows of the database, without themselves.

    queries: (q,) their places; level: (q, n) within how many of the thresholds each row lies, a
    byte a pair; closest: (q, k) places of the k nearest, nearest first, those at equal distances
    in any order; thresholds: as they were given.
    """

    queries: NDArray[np.intp]
    level: NDArray[np.uint8]
    closest: NDArray[np.intp]
    thresholds: tuple[float, ...]

    @property
    def steps(self) -> list[int]:
        """For each threshold, the lowest level of the rows within it."""
        return [
            sum(other >= threshold for other in self.thresholds) for threshold in self.thresholds
        ]

    def within(self, which: int) -> NDArray[np.bool_]:
        """(q, n): who lies within that threshold."""
        return self.level >= self.steps[which]

    @property
    def near(self) -> NDArray[np.bool_]:
        """(q, n): who lies within the first threshold."""
        return self.within(0)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """queries, near, closest: what there is where there is one threshold."""
        return iter((self.queries, self.near, self.closest))


def find(
    rows: NDArray[Any],
    queries: NDArray[np.intp],
    threshold: float | Sequence[float],
    *,
    closest: int = 10,
) -> Truth:
    """The true neighbours of queries among rows (n, d), for one threshold or several at once.

    closest: how many nearest ones, at most all others. Costs q n d; memory: a byte a pair.

    >>> found = find(np.array([[0.0], [1.0], [3.0]]), np.array([0]), (2.0, 5.0), closest=2)
    >>> found.level.tolist(), found.within(1).tolist(), found.closest.tolist()
    ([[0, 2, 1]], [[False, True, True]], [[1, 2]])
    """
    thresholds = tuple(np.atleast_1d(np.asarray(threshold, np.float64)).tolist())
    count = min(closest, len(rows) - 1)
    levels, places = [], []
    for squared in _squared_blocks(rows, queries):
        levels.append(_level(squared, thresholds))
        places.append(_closest(squared, count))
    return Truth(queries, np.concatenate(levels), np.concatenate(places), thresholds)


def _squared_blocks(rows: NDArray[Any], queries: NDArray[np.intp]) -> Iterator[NDArray[np.float64]]:
    """Squared distances of some queries at a time to all rows; to themselves NaN."""
    shifted = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    squares = np.vecdot(shifted, shifted)
    for start in range(0, len(queries), BLOCK):
        some = queries[start : start + BLOCK]
        squared = squares[some, None] + squares - 2 * (shifted[some] @ shifted.T)
        squared[np.arange(len(some)), some] = np.nan  # within nothing, and sorted last
        yield squared


def _level(squared: NDArray[np.float64], thresholds: tuple[float, ...]) -> NDArray[np.uint8]:
    level = np.zeros(squared.shape, np.uint8)
    for threshold in thresholds:
        level += squared <= threshold**2
    return level


def _closest(squared: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    places = np.argpartition(squared, count - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(squared, places, axis=1), axis=1)
    return np.take_along_axis(places, order, axis=1)
