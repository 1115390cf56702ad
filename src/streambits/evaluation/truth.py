"""True neighbours, by Euclidean distance in double precision: within thresholds, or the nearest."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import squared_distances

BLOCK = 100  # queries at a time
EPS = 64 * float(np.finfo(np.float64).eps)


def draw_queries(count: int, length: int, *, seed: int = 0) -> NDArray[np.intp]:
    """Draw `count` different places among `length` rows, or all of them if there are fewer."""
    return np.random.default_rng(seed).choice(length, min(count, length), replace=False)


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

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Iterate over queries, near and closest: all there is with one threshold."""
        return iter((self.queries, self.near, self.closest))


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


def true_neighbours(rows: NDArray[Any], queries: NDArray[Any] | None, k: int) -> NDArray[np.bool_]:
    """Whether each row is among the k nearest of each query, found by exact search.

    Parameters
    ----------
    rows : array of shape (n, d)
        The database, of more than `k` rows.
    queries : array of shape (q, d), or None
        Rows that are not in the database; None: every row of it, which is not among its own
        nearest.
    k : int
        Number of nearest rows.

    Returns
    -------
    ndarray of bool, of shape (q, n)
        At least `k` per query: all rows as near as the k-th count.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [1.0], [3.0]])
    >>> true_neighbours(rows, np.array([[0.2]]), 2).tolist()
    [[True, True, True, False]]
    """
    centre = rows.mean(axis=0, dtype=np.float64)
    shifted = rows - centre
    asked = shifted if queries is None else queries - centre
    largest = np.vecdot(shifted, shifted).max()
    near = np.empty((len(asked), len(rows)), np.bool_)
    for start in range(0, len(asked), BLOCK):
        some = asked[start : start + BLOCK]
        squared = squared_distances(some, shifted)
        if queries is None:
            leave_out(squared, start)
        farthest = np.partition(squared, k - 1, axis=1)[:, k - 1 : k]
        rounding = EPS * (np.vecdot(some, some)[:, None] + largest)
        near[start : start + BLOCK] = squared <= farthest + rounding
    return near


def nearest_radii(
    rows: NDArray[Any],
    queries: NDArray[Any],
    k: int,
    subsets: Callable[[], Iterable[NDArray[np.intp]]],
) -> NDArray[np.float64]:
    """Find how far the k-th nearest of each query is, among each of several subsets of rows.

    Parameters
    ----------
    rows : array of shape (n, d)
    queries : array of shape (q, d)
        Rows that are not in the database.
    k : int
        Number of nearest rows; all of a subset that has fewer.
    subsets : callable
        Returns an iterable of places of rows; it is called once per block of queries.

    Returns
    -------
    ndarray of shape (subsets, q)
        Squared distances, with room for rounding: a row within them is one of the k nearest, or
        as near as the k-th. Those in an empty subset are below 0. Costs q n d once, and q times
        the rows of all subsets.

    Examples
    --------
    >>> rows, asked = np.array([[0.0], [1.0], [3.0]]), np.array([[0.0]])
    >>> nearest_radii(rows, asked, 2, lambda: [np.array([0, 1]), np.array([0, 2])]).round(6)
    array([[1.],
           [9.]])
    """
    centre = rows.mean(axis=0, dtype=np.float64)
    shifted, asked = rows - centre, queries - centre
    largest = np.vecdot(shifted, shifted).max()
    found = []
    for start in range(0, len(asked), BLOCK):
        some = asked[start : start + BLOCK]
        squared = np.ascontiguousarray(squared_distances(some, shifted).T)  # subsets are its rows
        rounding = EPS * (np.vecdot(some, some) + largest)
        own = queries[start : start + BLOCK].astype(np.float64)
        far = [_kth(rows, own, squared, places, k) for places in subsets()]
        found.append(np.stack(far) + rounding)
    return np.concatenate(found, axis=1)


def _kth(
    rows: NDArray[Any],
    queries: NDArray[np.float64],
    squared: NDArray[np.float64],
    places: NDArray[np.intp],
    k: int,
) -> NDArray[np.float64]:
    """The squared distance of the k-th nearest place, or the last of fewer; of none, -infinity.

    squared: (n, q) finds it; its distance is computed anew, from the rows as they are.
    """
    if not len(places):
        return np.full(len(queries), -np.inf)
    last = min(k, len(places)) - 1
    found = places[np.argpartition(squared[places].T, last, axis=1)[:, last]]
    offsets = rows[found] - queries
    return np.asarray(np.vecdot(offsets, offsets))


def leave_out(distances: NDArray[Any], start: int) -> None:
    """Make distances (n, m) of the rows from `start` on to themselves infinite."""
    own = np.arange(len(distances))
    distances[own, start + own] = np.inf
