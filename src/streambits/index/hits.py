"""Hits: what a search finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Ids


@dataclass(frozen=True, eq=False)
class Hits:
    """Neighbours, nearest first; equal distances in the order of ids, for texts of their hashes.

    ids: (queries, k) int64 or texts, or (hits,) for one query of `within`; distances: the same,
    int32 numbers of bits, or float64 where queries are real-valued, weighted or ranked again;
    reads: (queries,) raw rows that were read to prove the hits exact.

    >>> hits = Hits(np.array([[7, 3]]), np.array([[0, 2]], np.int32))
    >>> hits
    Hits(1 x 2)
    >>> len(hits), hits.ids.tolist()
    (1, [[7, 3]])
    """

    ids: Ids
    distances: NDArray[Any]
    reads: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Hits({' x '.join(map(str, self.ids.shape))})"


def no_hits(queries: int, kind: Any = np.int32, *, reads: Any = None) -> Hits:
    """Nothing, for each query."""
    return Hits(np.empty((queries, 0), np.int64), np.empty((queries, 0), kind), reads)


def scaled(hits: Hits, scale: NDArray[np.float64]) -> Hits:
    """The same hits, their distances translated: scale[query, distance]; beyond it, infinity."""
    inside = hits.distances < scale.shape[1]
    places = np.where(inside, hits.distances, 0).astype(np.intp)
    translated = np.take_along_axis(scale, places, axis=1)
    return Hits(hits.ids, np.where(inside, translated, np.inf))


def interpolated(hits: Hits, scale: NDArray[np.float64], largest: NDArray[np.float64]) -> Hits:
    """The same hits, their distances translated by the share that they are of the largest (q,).

    scale: (queries, any) what equal shares from 0 to 1 mean; linear between them.
    """
    steps = scale.shape[1] - 1
    sizes = np.where(largest > 0, largest, 1.0)[:, None]
    at = np.minimum(hits.distances / sizes, 1.0) * steps
    below = np.minimum(at.astype(np.intp), steps - 1)
    low, high = (np.take_along_axis(scale, below + i, axis=1) for i in (0, 1))
    return Hits(hits.ids, low + (at - below) * (high - low))


def merge_nearest(found: Sequence[Hits], k: int) -> Hits:
    """The k nearest of each query over hits (queries, any number) of different codes."""
    if len(found) == 1:
        return Hits(found[0].ids[:, :k], found[0].distances[:, :k])
    ids, distances = _side_by_side(found, axis=1)
    order = np.lexsort((ids, distances))[:, :k]
    return Hits(np.take_along_axis(ids, order, 1), np.take_along_axis(distances, order, 1))


def merge_within(found: Sequence[Hits]) -> Hits:
    """All hits of one query, found in different codes."""
    if len(found) == 1:
        return found[0]
    ids, distances = _side_by_side(found, axis=0)
    order = np.lexsort((ids, distances))
    return Hits(ids[order], distances[order])


def _side_by_side(found: Sequence[Hits], axis: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    ids, distances = zip(*((hits.ids, hits.distances) for hits in found), strict=True)
    return np.concatenate(ids, axis=axis), np.concatenate(distances, axis=axis)
