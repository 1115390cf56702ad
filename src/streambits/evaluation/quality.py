"""How well distances find true neighbours: the short way to the figures used most.

`histograms` counts rows by distance; `ranking` has the metrics, each a pure function of counts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.evaluation import ranking
from streambits.evaluation.histograms import (
    DistanceCounts,
    Distances,
    count_codes,
    count_distances,
    histogram,
)
from streambits.evaluation.truth import Truth, find
from streambits.model.codes import Codes


class Quality(NamedTuple):
    """How well a ranking finds true neighbours.

    Attributes
    ----------
    map : float
        Mean average precision.
    recall : float
        Share of the truly nearest rows among the first returned.
    """

    map: float
    recall: float


def quality(truth: Truth, distances: Distances, *, first: int = 100) -> Quality:
    """How well distances rank the true neighbours.

    Parameters
    ----------
    truth : Truth
        The queries and their true neighbours.
    distances : callable
        From places of queries to distances (some, n), whole or real, smaller is nearer. Real ones
        are sorted into 4096 levels.
    first : int, default 100
        Number of rows that are returned, for recall.

    Returns
    -------
    Quality
        Expected values over random orders of ties. Queries with nothing within the first
        threshold do not count in MAP.
    """
    return _quality(count_distances(truth, distances), first)


def mean_average_precision(
    codes: Codes, rows: NDArray[Any], queries: NDArray[np.intp], threshold: float
) -> float:
    """MAP of ranking all other rows by Hamming distance to each query.

    Parameters
    ----------
    codes : Codes
        Codes of the rows.
    rows : ndarray of shape (n, d)
        The database.
    queries : ndarray of int of shape (q,)
        Places of rows that are queries, each left out of its own results.
    threshold : float
        Rows within this distance are true neighbours.

    Returns
    -------
    float
        The mean over queries that have a neighbour.
    """
    return _quality(count_codes(find(rows, queries, threshold, closest=1), codes), 1).map


def _quality(counts: DistanceCounts, first: int) -> Quality:
    precisions = ranking.average_precisions(counts.rows, counts.true[0])
    recalls = ranking.recalls_at(counts.rows, counts.closest, first)
    return Quality(float(ranking.mean(precisions)), float(ranking.mean(recalls)))


def average_precision(
    distances: NDArray[np.integer[Any]], near: NDArray[np.bool_], levels: int
) -> NDArray[np.float64]:
    """Average precision of each query, its expected value over random orders of ties.

    Parameters
    ----------
    distances : ndarray of int of shape (q, n)
        Whole numbers from 0 to levels - 1.
    near : ndarray of bool of shape (q, n)
        Which rows are true neighbours.
    levels : int
        Number of distances that there may be.

    Returns
    -------
    ndarray of shape (q,)
        NaN for a query without a true neighbour: there is nothing to find.
    """
    true = histogram(np.where(near, distances.astype(np.int64), levels), levels + 1)[:, :-1]
    return ranking.average_precisions(histogram(distances, levels), true)


def expected_recall(
    distances: NDArray[np.integer[Any]], closest: NDArray[np.intp], first: int, levels: int
) -> float:
    """The share of each query's closest rows among the `first` by distance, in expectation.

    Parameters
    ----------
    distances : ndarray of int of shape (q, n)
        Whole numbers from 0 to levels - 1.
    closest : ndarray of int of shape (q, k)
        Places of the truly nearest rows.
    first : int
        Number of rows that are returned.
    levels : int
        Number of distances that there may be.

    Returns
    -------
    float
        The mean over queries.
    """
    wanted = histogram(np.take_along_axis(distances, closest, axis=1), levels)
    recalls = ranking.recalls_at(histogram(distances, levels), wanted, first)
    return float(ranking.mean(recalls))
