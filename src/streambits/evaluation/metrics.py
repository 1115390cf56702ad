"""How well Hamming distances rank true neighbours."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.codes import Codes
from streambits.evaluation.truth import BLOCK, Truth, find

Distances = Callable[[NDArray[np.intp]], NDArray[Any]]
LEVELS = 2**12


def average_precision(
    distances: NDArray[np.integer[Any]], near: NDArray[np.bool_], levels: int
) -> NDArray[np.float64]:
    """(queries,) average precision, its expected value over random orders of ties.

    distances: (queries, n) whole numbers below `levels`; near: (queries, n). A query with no true
    neighbour gives NaN: there is nothing to find.

    In a group of equal distances with c items, t of them true, N items and T true ones before,
    the item at place i is true with chance t / c and then has
    T + 1 + (i - 1)(t - 1)/(c - 1) true items up to itself among N + i. The sum over i has a
    closed form in harmonic numbers (McSherry & Najork, ECIR 2008).
    """
    distances = distances.astype(np.int64)
    count = _histogram(distances, levels)
    true = _histogram(np.where(near, distances, levels), levels + 1)[:, :-1]
    before, true_before = _before(count), _before(true)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, distances.shape[1] + 1))])
    reciprocal = harmonic[before + count] - harmonic[before]
    places = count - (before + 1) * reciprocal  # the sum of (i - 1) / (N + i)
    companions = (true - 1) / np.maximum(count - 1, 1)
    share = true / np.maximum(count, 1)
    total = (share * ((true_before + 1) * reciprocal + companions * places)).sum(axis=1)
    relevant = true.sum(axis=1)
    return np.where(relevant > 0, total / np.maximum(relevant, 1), np.nan)


def mean_average_precision(
    codes: Codes, rows: NDArray[Any], queries: NDArray[np.intp], threshold: float
) -> float:
    """MAP of ranking all other rows by Hamming distance to each query.

    rows: (n, d), codes: theirs; queries: places of rows that are queries, each left out of its own
    results; threshold: neighbours are rows within it. Queries with no neighbour are left out.
    """
    truth = find(rows, queries, threshold, closest=1)
    return quality(truth, lambda some: codes[some].hamming(codes)).map


class Quality(NamedTuple):
    """map: mean average precision; recall: share of the true nearest among the first returned."""

    map: float
    recall: float


def quality(truth: Truth, distances: Distances, *, first: int = 100) -> Quality:
    """How well distances rank the true neighbours, ties in random order (expected values).

    distances: a function from places of queries to (some, n) distances, whole or real, smaller is
    nearer. Real ones are sorted into 4096 levels. Queries with no neighbour do not count in MAP.
    """
    precision, found = [], []
    for start in range(0, len(truth.queries), BLOCK):
        part = slice(start, start + BLOCK)
        some = truth.queries[part]
        levels, whole = _levels(distances(some))
        whole[np.arange(len(some)), some] = levels  # itself: behind everything
        precision.append(average_precision(whole, truth.near[part], levels + 1))
        found.append(expected_recall(whole, truth.closest[part], first, levels + 1))
    scores = np.concatenate(precision)
    scores = scores[~np.isnan(scores)]
    return Quality(float(scores.mean()) if len(scores) else np.nan, float(np.mean(found)))


def expected_recall(
    distances: NDArray[np.integer[Any]], closest: NDArray[np.intp], first: int, levels: int
) -> float:
    """The share of each query's closest rows among the `first` by distance, in expectation.

    Of a group of ties that the first `first` cut through, every member is in with the same chance.
    """
    count = _histogram(distances, levels)
    room = np.clip((first - _before(count)) / np.maximum(count, 1), 0, 1)
    return float(np.take_along_axis(room, np.take_along_axis(distances, closest, 1), 1).mean())


def _levels(distances: NDArray[Any]) -> tuple[int, NDArray[np.int64]]:
    """The number of levels, and distances as whole numbers below it."""
    if np.issubdtype(distances.dtype, np.integer):
        return int(distances.max()) + 1, distances.astype(np.int64)
    lowest = distances.min(axis=1, keepdims=True)
    finite = np.where(np.isfinite(distances), distances, lowest)
    spread = np.maximum(finite.max(axis=1, keepdims=True) - lowest, np.finfo(np.float64).tiny)
    level = (finite - lowest) / spread * (LEVELS - 2)
    return LEVELS, np.where(np.isfinite(distances), level, LEVELS - 1).astype(np.int64)


def bits_changed(before: Codes, after: Codes) -> float:
    """The share of bits that differ between two encodings of the same rows."""
    return float((before.unpack() ^ after.unpack()).mean())


def _histogram(values: NDArray[np.integer[Any]], levels: int) -> NDArray[np.int64]:
    """(queries, levels): how often each query has each value."""
    queries = len(values)
    flat = values.astype(np.int64) + levels * np.arange(queries)[:, None]
    return np.bincount(flat.ravel(), minlength=queries * levels).reshape(queries, levels)


def _before(count: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(count, axis=1) - count
