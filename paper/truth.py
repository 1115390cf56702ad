"""True neighbours by Euclidean distance in double precision: within thresholds, and nearest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import squared_distances

BLOCK = 100  # queries at a time


@dataclass(frozen=True)
class Truth:
    """What there is to find, for queries that are rows of the database, without themselves.

    Attributes
    ----------
    queries : ndarray of int of shape (q,)
        Their places.
    level : ndarray of uint8 of shape (q, n)
        Number of thresholds within which each row lies.
    closest : ndarray of int of shape (q, k)
        Places of the k nearest, nearest first, those at equal distances in any order.
    thresholds : tuple of float
        Distances, in the order of `find`.
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
        """Which rows lie within that threshold, of shape (q, n)."""
        return self.level >= self.steps[which]

    @property
    def near(self) -> NDArray[np.bool_]:
        """Which rows lie within the first threshold, of shape (q, n)."""
        return self.within(0)


def find(
    rows: NDArray[Any],
    queries: NDArray[np.intp],
    threshold: float | Sequence[float],
    *,
    closest: int = 10,
) -> Truth:
    """Find the true neighbours of queries that are rows of the database.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The database.
    queries : ndarray of int of shape (q,)
        Places of the queries.
    threshold : float or sequence of float
        Distances within which a row is a neighbour.
    closest : int, default 10
        Number of nearest rows to find, at most all others.

    Returns
    -------
    Truth
        Costs q n d; memory: one byte per pair.

    Examples
    --------
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
    for start in range(0, len(queries), BLOCK):
        some = queries[start : start + BLOCK]
        squared = squared_distances(shifted[some], shifted)
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
