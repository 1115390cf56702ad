"""How well a ranking finds what is true, from counts; equal distances come in random order.

Each metric has a number for each query, its expected value over the orders of ties, and NaN where
there is nothing to find: such a query says nothing about a ranking. `mean` leaves it out. All of
them take counts of rows (`count`) and of true rows (`true`) at each distance, of shape (q, levels).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits.model.codes import Codes

BLOCK = 16  # queries at a time: their Hamming distances stay in the cache

Counts = NDArray[np.integer[Any]]


def histogram(values: NDArray[np.integer[Any]], levels: int) -> NDArray[np.int32]:
    """Count how often each query has each value.

    Parameters
    ----------
    values : ndarray of int of shape (q, n)
        From 0 to levels - 1.
    levels : int
        Number of values that there may be.

    Returns
    -------
    ndarray of int of shape (q, levels)
        The counts.
    """
    counts = np.empty((len(values), levels), np.int32)
    for row, out in zip(values, counts, strict=True):  # one at a time: it stays in the cache
        out[:] = np.bincount(row, minlength=levels)
    return counts


def counts_by_level(
    distances: Iterable[NDArray[np.integer[Any]]], near: NDArray[np.bool_], levels: int
) -> Iterator[tuple[Counts, Counts]]:
    """Count all rows and the true ones at each distance from each query.

    Parameters
    ----------
    distances : iterable of ndarray of int of shape (some, n)
        Of the queries in their order, some at a time: whole numbers from 0 to levels - 1.
    near : ndarray of bool of shape (q, n)
        Which rows are true neighbours.
    levels : int
        Number of distances that there may be.

    Yields
    ------
    count, true : ndarray of int of shape (some, levels)
    """
    start = 0
    for block in distances:
        true = np.where(near[start : start + len(block)], block.astype(np.int64), levels)
        start += len(block)
        yield histogram(block, levels), histogram(true, levels + 1)[:, :-1]


def hamming_counts(
    codes: Codes, queries: Codes, near: NDArray[np.bool_], places: NDArray[np.intp] | None = None
) -> Iterator[tuple[Counts, Counts]]:
    """Count all rows and the true ones at each Hamming distance from each query.

    Parameters
    ----------
    codes, queries : Codes
        Codes of n rows, and of q queries.
    near : ndarray of bool of shape (q, n)
        Which rows are true neighbours.
    places : ndarray of int of shape (q,), optional
        Which rows the queries are; each comes after all others in its own ranking.

    Yields
    ------
    count, true : ndarray of int of shape (some, bits + 2)
    """

    def blocks() -> Iterator[NDArray[np.uint16]]:
        for start in range(0, len(queries), BLOCK):
            distances = queries[start : start + BLOCK].hamming(codes)
            if places is not None:
                distances[np.arange(len(distances)), places[start : start + BLOCK]] = codes.bits + 1
            yield distances

    return counts_by_level(blocks(), near, codes.bits + 2)


def mean_average_precision(counted: Iterable[tuple[Counts, Counts]]) -> float:
    """The mean of the average precisions of queries that have a true neighbour.

    Parameters
    ----------
    counted : iterable
        What `counts_by_level` or `hamming_counts` yields.
    """
    return float(mean(np.concatenate([average_precisions(*counts) for counts in counted])))


def mean(values: NDArray[np.float64]) -> Any:
    """The mean over queries that have a value.

    Parameters
    ----------
    values : ndarray of shape (q, ...)
        NaN where a query has none.

    Returns
    -------
    float or ndarray
        NaN where no query has a value.
    """
    present = ~np.isnan(values)
    total = np.where(present, values, 0).sum(axis=0)
    return np.where(present.any(axis=0), total / np.maximum(present.sum(axis=0), 1), np.nan)[()]


def average_precisions(count: Counts, true: Counts) -> NDArray[np.float64]:
    """Average precision: the mean, over true rows, of the precision down to each.

    Parameters
    ----------
    count, true : ndarray of int of shape (q, levels)
        Rows and true rows at each distance.

    Returns
    -------
    ndarray of shape (q,)
        NaN where nothing is true.

    Notes
    -----
    In a group of equal distances with c rows, t of them true, N rows and T true ones before, the
    row at place i is true with chance t / c and then has T + 1 + (i - 1)(t - 1)/(c - 1) true rows
    up to itself among N + i. The sum over i has a closed form in harmonic numbers.

    References
    ----------
    McSherry & Najork, "Computing Information Retrieval Performance Measures Efficiently in the
    Presence of Tied Scores", ECIR 2008.

    Examples
    --------
    >>> average_precisions(np.array([[1, 2]]), np.array([[0, 1]])).round(4).tolist()
    [0.4167]
    """
    before, true_before = _before(count), _before(true)
    most = int(count.sum(axis=1).max(initial=0))
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, most + 1))])
    reciprocal = harmonic[before + count] - harmonic[before]
    places = count - (before + 1) * reciprocal  # the sum of (i - 1) / (N + i)
    companions = (true - 1) / np.maximum(count - 1, 1)
    share = true / np.maximum(count, 1)
    total = (share * ((true_before + 1) * reciprocal + companions * places)).sum(axis=1)
    return _per(total, true.sum(axis=1))


def recalls_at(count: Counts, true: Counts, first: int) -> NDArray[np.float64]:
    """The share of the true rows among the `first` by distance: recall@R.

    Parameters
    ----------
    count, true : ndarray of int of shape (q, levels)
        Rows and true rows at each distance.
    first : int
        Number of rows that are returned.

    Returns
    -------
    ndarray of shape (q,)
        Of a group of ties that is cut, every row is in with the same chance. All true rows count,
        so with more of them than `first` it stays below 1.
    """
    room = np.clip((first - _before(count)) / np.maximum(count, 1), 0, 1)
    return _per((room * true).sum(axis=1), true.sum(axis=1))


def _per(some: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """some / whole, NaN where the whole is 0."""
    present = whole > 0
    return np.where(present, some / np.where(present, whole, 1), np.nan)


def _before(count: Counts) -> NDArray[np.int64]:
    return np.cumsum(count, axis=1) - count
