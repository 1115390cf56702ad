"""How well distances find true neighbours: the short way to the figures used most.

`tally` counts; `ranking`, `radii` and `bits` hold the metrics, each a pure function.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.evaluation import ranking
from streambits.evaluation.bits import bits_changed
from streambits.evaluation.histograms import (
    DistanceCounts,
    Distances,
    count_codes,
    count_distances,
    histogram,
)
from streambits.evaluation.truth import Truth, find
from streambits.model.codes import Codes

__all__ = [
    "Distances",
    "Quality",
    "average_precision",
    "bits_changed",
    "expected_recall",
    "mean_average_precision",
    "quality",
]


class Quality(NamedTuple):
    """map: mean average precision; recall: share of the true nearest among the first returned."""

    map: float
    recall: float


def quality(truth: Truth, distances: Distances, *, first: int = 100) -> Quality:
    """How well distances rank the true neighbours, ties in random order (expected values).

    distances: a function from places of queries to (some, n) distances, whole or real, smaller is
    nearer. Real ones are sorted into 4096 levels. Queries with nothing within the first threshold
    do not count in MAP.
    """
    return _quality(count_distances(truth, distances), first)


def mean_average_precision(
    codes: Codes, rows: NDArray[Any], queries: NDArray[np.intp], threshold: float
) -> float:
    """MAP of ranking all other rows by Hamming distance to each query.

    rows: (n, d), codes: theirs; queries: places of rows that are queries, each left out of its own
    results; threshold: neighbours are rows within it. Queries with no neighbour are left out.
    """
    return _quality(count_codes(find(rows, queries, threshold, closest=1), codes), 1).map


def _quality(counts: DistanceCounts, first: int) -> Quality:
    precisions = ranking.average_precisions(counts.rows, counts.true[0])
    recalls = ranking.recalls_at(counts.rows, counts.closest, first)
    return Quality(float(ranking.mean(precisions)), float(ranking.mean(recalls)))


def average_precision(
    distances: NDArray[np.integer[Any]], near: NDArray[np.bool_], levels: int
) -> NDArray[np.float64]:
    """(queries,) average precision, its expected value over random orders of ties.

    distances: (queries, n) whole numbers below `levels`; near: (queries, n). A query with no true
    neighbour gives NaN: there is nothing to find.
    """
    true = histogram(np.where(near, distances.astype(np.int64), levels), levels + 1)[:, :-1]
    return ranking.average_precisions(histogram(distances, levels), true)


def expected_recall(
    distances: NDArray[np.integer[Any]], closest: NDArray[np.intp], first: int, levels: int
) -> float:
    """The share of each query's closest rows among the `first` by distance, in expectation."""
    wanted = histogram(np.take_along_axis(distances, closest, axis=1), levels)
    recalls = ranking.recalls_at(histogram(distances, levels), wanted, first)
    return float(ranking.mean(recalls))
