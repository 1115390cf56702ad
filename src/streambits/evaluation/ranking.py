"""How well a ranking finds what is true, from a tally; equal distances come in random order.

Each function gives a number for each query, its expected value over the orders of ties, and NaN
where there is nothing to find: such a query says nothing about a ranking. `mean` leaves it out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits.evaluation.histograms import Counts

RECALLS = tuple(np.linspace(0.05, 1, 20).round(2).tolist())


def mean(values: NDArray[np.float64]) -> Any:
    """The mean over queries (the first axis) that have a value; NaN if none has."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)[()]


def average_precisions(count: Counts, true: Counts) -> NDArray[np.float64]:
    """(q,) average precision: the mean, over true rows, of the precision down to each.

    count, true: (q, levels) rows and true rows at each distance. In a group of equal distances
    with c rows, t of them true, N rows and T true ones before, the row at place i is true with
    chance t / c and then has T + 1 + (i - 1)(t - 1)/(c - 1) true rows up to itself among N + i.
    The sum over i has a closed form in harmonic numbers (McSherry & Najork, ECIR 2008).
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
    """(q,) the share of the true rows among the `first` by distance: recall@R.

    Of a group of ties that the first `first` cut through, every row is in with the same chance.
    All true rows count, so with more of them than `first` it stays below 1.
    """
    room = np.clip((first - _before(count)) / np.maximum(count, 1), 0, 1)
    return _per((room * true).sum(axis=1), true.sum(axis=1))


def precisions_at(
    count: Counts, true: Counts, recalls: Sequence[float] = RECALLS
) -> NDArray[np.float64]:
    """(q, recalls) the precision where each recall is reached: the precision-recall curve.

    recalls: above 0, at most 1. Every ranking of all rows reaches them all, so nothing is
    undefined but for queries with nothing true. Inside a group of ties true and other rows come
    in proportion.
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


def _per(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """part / whole, NaN where there is no whole."""
    known = whole > 0
    return np.where(known, part / np.where(known, whole, 1), np.nan)


def _before(count: Counts) -> NDArray[np.int64]:
    return np.cumsum(count, axis=1) - count
