"""Search across the epochs of an index."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from streambits.index import scan
from streambits.index.hits import Hits, merged, scaled
from streambits.index.queries import Query
from streambits.index.shelf import Shelf

FEW = 8  # queries that scan all epochs together
Shelves = Mapping[int, Shelf]
Queries = Mapping[int, Query]
Scales = Mapping[int, NDArray[np.float64]] | None


def nearest(shelves: Shelves, asked: Queries, k: int, scales: Scales) -> Hits | None:
    """The k nearest of every query over all epochs; None where there are no shelves.

    scales: what a Hamming distance means in each epoch, (queries, bits + 1).
    """
    few = all(len(query.words) <= FEW and query.weights is None for query in asked.values())
    together = _at_once(shelves, asked, k, scales) if few else None
    return together or _in_turn(shelves, asked, k, scales)


def _at_once(shelves: Shelves, asked: Queries, k: int, scales: Scales) -> Hits | None:
    """What few queries find by scans of all shelves together; None if there are no such."""
    segments = [(epoch, segment) for epoch in shelves for segment in shelves[epoch].segments]
    if len(segments) < 2:
        return None
    parts = [segment.part(asked[epoch].words, k) for epoch, segment in segments]
    scanned = [part for part in parts if part is not None]
    if len(scanned) < len(parts):
        return None
    found = scan.nearest_of(scanned)
    hits = []
    for (epoch, segment), (places, distances) in zip(segments, found, strict=True):
        some = Hits(segment.store.at(places), distances)
        hits.append(some if scales is None else scaled(some, scales[epoch]))
    return merged(hits, k)


def _in_turn(shelves: Shelves, asked: Queries, k: int, scales: Scales) -> Hits | None:
    """What queries find in the shelves, the largest first, whose hits limit what follows."""
    best: Hits | None = None
    for epoch in sorted(shelves, key=lambda e: -len(shelves[e])):
        scale = None if scales is None else scales[epoch]
        words, costs = asked[epoch]
        limits = None if best is None or costs is not None else _limits(best, k, scale)
        hits = shelves[epoch].nearest(words, k, costs, limits)
        hits = hits if scale is None else scaled(hits, scale)
        best = hits if best is None else merged([best, hits], k)
    return best


def _limits(best: Hits, k: int, scale: NDArray[np.float64] | None) -> NDArray[np.int64] | None:
    """The Hamming distances below which a hit of another epoch can still be among the k best."""
    if best.ids.shape[1] < k:
        return None
    last = best.distances[:, -1:]
    if scale is None:
        return np.asarray(last[:, 0].astype(np.int64) + 1)  # as far, with a smaller id
    return np.asarray((scale <= last).sum(axis=1))
