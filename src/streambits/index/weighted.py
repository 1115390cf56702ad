"""Exact search by a weighted Hamming distance: for real-valued queries, and for weights of bits.

The distance of a code is the sum of the query's weights over the bits where they differ, in
float64 and always added in the same order, so it does not depend on how a code was found. For
real values z = coder.project(row), with signs for words and |z| for weights, it is
(sum |z| - z . (+-1 code)) / 2: it ranks by the inner product.

Tables alone (a look-up for half a byte) take 40 times as long as the plain scan. So codes are ruled
out first, by counting bits in planes of rounded weights (`kernels/weighted.py`), and only what is
left, about 1 in 1000, is scored: 0.5 to 2.5 times the plain scan at 64 bits. A bound from the
number of differing bits alone leaves a third of random codes (20 times the plain scan); weights
rounded only down leave 4 times as many as weights rounded both ways. Random codes of thousands of
bits are all about equally far, and nearly all are scored.
"""

import numpy as np
from numpy.typing import NDArray

from streambits._threads import one_blas_thread, ordered_map
from streambits.index.scan import GATHER_K, SPARSE, Alive, Places, ranges
from streambits.index.store import Words
from streambits.kernels.scan import APART, SAMPLED, PlacedCodes
from streambits.kernels.weighted import BLOCK, NOWHERE, Costs, half_byte_costs, nearest_by_costs

Weights = NDArray[np.float64]

SHARE = 1 << 15  # words a thread should have for the start of it to pay
CANDIDATES = 1 << 20  # kept at a time over all queries of a group
GROUP = 128  # queries that pass over a chunk together
PLANNING_WEIGHTS = 64  # weights that stand for all of a query's while its masks are planned


def weighted_nearest(  # noqa: PLR0917 - as `scan_nearest`, and weights
    words: Words, alive: Alive, end: int, queries: Words, weights: Weights, k: int
) -> tuple[Places, Weights]:
    """The k nearest places (queries, k) and their distances; equal ones by place.

    words: (width, places) planes; queries: (queries, width) signs; weights: (queries, bits), what
    a bit that differs costs, finite and zero or more; k: at most the living before `end`.
    Memory: 2 KB for every word of a query, and 16 bytes per hit for each thread.

    >>> words, alive = np.array([[0b111, 0b001, 0b100]], np.uint64), np.ones(3, np.bool_)
    >>> queries, weights = np.array([[0]], np.uint64), np.array([[0.5, 2.0, 0.25]])
    >>> weighted_nearest(words, alive, 3, queries, weights, k=2)
    (array([[2, 1]]), array([[0.25, 0.5 ]]))
    """
    codes, step = PlacedCodes(words, alive), max(1, min(GROUP, CANDIDATES // k))
    groups = [
        _nearest(codes, end, queries[i : i + step], weights[i : i + step], k)
        for i in range(0, len(queries), step)
    ]
    places = np.concatenate([np.empty((0, k), np.int64), *(g[0] for g in groups)])
    return places, np.concatenate([np.empty((0, k)), *(g[1] for g in groups)])


def _nearest(
    codes: PlacedCodes, end: int, queries: Words, weights: Weights, k: int
) -> tuple[Places, Weights]:
    queries, weights = np.array(queries, order="C"), np.array(weights, order="C")
    endless = np.full(len(queries), np.inf)
    costs = Costs(half_byte_costs(weights, queries.shape[1]), *_relative(weights), endless)
    if k < GATHER_K or end < SPARSE * k:
        return _within_limits(codes, end, queries, k, costs)
    limits = _likely_limits(codes, end, queries, k, costs)
    places, distances = _within_limits(codes, end, queries, k, costs._replace(limits=limits))
    few = (places == NOWHERE).any(axis=1)
    if few.any():
        rest = Costs(*(part[few] for part in costs))
        places[few], distances[few] = _within_limits(codes, end, queries[few], k, rest)
    return places, distances


def _within_limits(
    codes: PlacedCodes, end: int, queries: Words, k: int, costs: Costs
) -> tuple[Places, Weights]:
    def work(span: tuple[int, int]) -> tuple[Places, Weights]:
        most = min(k, span[1] - span[0])
        return nearest_by_costs(codes, span, queries, most, costs)  # type: ignore[no-any-return]

    with one_blas_thread() as workers:
        spans = ranges(end * queries.shape[1], end, workers, block=BLOCK, share=SHARE)
        found = list(ordered_map(work, spans))
    places, distances = (np.concatenate(side, axis=1) for side in zip(*found, strict=True))
    order = np.lexsort((places, distances))[:, :k]
    return np.take_along_axis(places, order, 1), np.take_along_axis(distances, order, 1)


def _likely_limits(codes: PlacedCodes, end: int, queries: Words, k: int, costs: Costs) -> Weights:
    """For each query a distance within which at least k places are likely to be, by a sample.

    With a large k, most of what enters the nearest so far leaves them again; with limits, little.
    """
    sample = (np.arange(0, end, APART)[:, None] + np.arange(SAMPLED)).ravel()
    sample = sample[sample < end]
    few = PlacedCodes(np.ascontiguousarray(codes.words[:, sample]), codes.alive[sample])
    wanted = k * len(sample) / end
    wanted = min(len(sample), int(wanted + 2 * wanted**0.5) + 1)
    _, distances = nearest_by_costs(few, (0, len(sample)), queries, wanted, costs)
    return np.asarray(distances.max(axis=1))


def _relative(weights: Weights) -> tuple[Weights, Weights, Weights, Weights]:
    """What `Costs` has after the tables."""
    most = weights.max(axis=1)
    most[most == 0] = 1
    relative = weights / most[:, None]
    above = np.maximum(np.count_nonzero(relative, axis=1), 1)
    last = relative.shape[1] - 1
    drawn = last - np.linspace(above - 1, 0, PLANNING_WEIGHTS, axis=1).astype(np.int64)
    samples = np.take_along_axis(np.sort(relative, axis=1), drawn, axis=1)
    return relative, most, samples, PLANNING_WEIGHTS / above
