"""How well a ranking finds what is true, from counts; equal distances come in random order.

Each metric has a number for each query, its expected value over the orders of ties, and NaN where
there is nothing to find: such a query says nothing about a ranking. `mean` leaves it out. All of
them take counts of rows (`count`) and of true rows (`true`) at each distance, of shape (q, levels).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits.evaluation.histograms import Counts

RECALLS = tuple(np.linspace(0.05, 1, 20).round(2).tolist())


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


def precisions_at(
    count: Counts, true: Counts, recalls: Sequence[float] = RECALLS
) -> NDArray[np.float64]:
    """The precision where each recall is reached: the precision-recall curve.

    Parameters
    ----------
    count, true : ndarray of int of shape (q, levels)
        Rows and true rows at each distance.
    recalls : sequence of float
        Above 0, at most 1. Every ranking of all rows reaches them all.

    Returns
    -------
    ndarray of shape (q, recalls)
        NaN where nothing is true. Inside a group of ties true and other rows come in proportion.
    """
    total = true.sum(axis=1)
    places, found = np.cumsum(count, axis=1), np.cumsum(true, axis=1)
    here = np.arange(len(count))
    curve = np.empty((len(count), len(recalls)))
    for column, recall in enumerate(recalls):
        wanted = recall * total
        group = np.argmax(found >= wanted[:, None] - 1e-9, axis=1)
        missing = wanted - (found[here, group] - true[here, group])
        share = missing / np.maximum(true[here, group], 1)
        returned = places[here, group] - (1 - share) * count[here, group]
        curve[:, column] = _per(wanted, np.where(total > 0, returned, 0))
    return curve


def _per(some: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """some / whole, NaN where the whole is 0."""
    present = whole > 0
    return np.where(present, some / np.where(present, whole, 1), np.nan)


def _before(count: Counts) -> NDArray[np.int64]:
    return np.cumsum(count, axis=1) - count
