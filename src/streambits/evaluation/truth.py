"""True neighbours, by Euclidean distance in double precision: within a radius, or the nearest."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import squared_distances

BLOCK = 100  # queries at a time
EPS = 64 * float(np.finfo(np.float64).eps)


def draw_queries(count: int, length: int, *, seed: int = 0) -> NDArray[np.intp]:
    """Draw `count` different places among `length` rows, or all of them if there are fewer."""
    return np.random.default_rng(seed).choice(length, min(count, length), replace=False)


def neighbours_within(
    rows: NDArray[Any], places: NDArray[np.intp], radius: float
) -> NDArray[np.bool_]:
    """Whether each row lies within a radius of each query, which is a row but not its own.

    Parameters
    ----------
    rows : array of shape (n, d)
        The database.
    places : ndarray of int of shape (q,)
        Places of the queries.
    radius : float
        Distance up to which a row is a neighbour.

    Returns
    -------
    ndarray of bool, of shape (q, n)

    Examples
    --------
    >>> neighbours_within(np.array([[0.0], [1.0], [3.0]]), np.array([0]), 2.0).tolist()
    [[False, True, False]]
    """
    shifted = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    near = np.empty((len(places), len(rows)), np.bool_)
    for start in range(0, len(places), BLOCK):
        block = slice(start, start + BLOCK)
        near[block] = squared_distances(shifted[places[block]], shifted) <= radius**2
    near[np.arange(len(places)), places] = False
    return near


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


def leave_out(distances: NDArray[Any], start: int) -> None:
    """Make distances (n, m) of the rows from `start` on to themselves infinite."""
    own = np.arange(len(distances))
    distances[own, start + own] = np.inf
