"""Answers that are proven, by bounds on the errors of decoded rows.

A certified code says how far its row is from what it decodes to, at most. So every distance lies
between two bounds. Raw rows read in ascending order of the lower ones are enough as soon as the
next lower bound is above the k-th distance read; without raw rows, an answer is certain if at most
k - 1 others can be as near.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits.errors import InputError
from streambits.index.hits import Hits, no_hits
from streambits.index.keys import Numbers
from streambits.index.queries import RowQuery
from streambits.index.rerank import looked_up, true_distances
from streambits.index.snapshot import MANY, Snapshot
from streambits.kernels.decode import LOW

LEAST_BOUNDS, BOUNDS_PER_HIT, MORE_BOUNDS = 64, 4, 8  # found at first; times as many later
LEAST_READS, READS = 8, 8  # rows at least that are read at a time, or an eighth of those read
Queries = Mapping[int, RowQuery]


def check_certified(asked: Queries) -> None:
    """Refuse queries of a coder whose codes have no bounds."""
    for epoch, query in asked.items():
        if not query.refinement.certified:
            raise InputError(
                f"exact needs bounds on the errors of codes, and those of epoch {epoch} have none: "
                f"learn with certified=True"
            )


def proven(
    held: Snapshot, asked: Queries, k: int, metric: str, look_up: Callable[[Numbers], Any]
) -> Hits:
    """The k nearest of every query by raw rows: those of all codes, from as few rows as it takes.

    look_up: from numbers of ids to rows.
    """
    rows, total = next(iter(asked.values())).rows, len(held)
    if not total:
        return no_hits(len(rows), np.float64, reads=np.zeros(len(rows), np.int64))
    proofs = [_Proof(row, min(k, total), metric, look_up) for row in rows]
    open_ones, size = np.arange(len(rows)), max(LEAST_BOUNDS, BOUNDS_PER_HIT * k)
    while len(open_ones):
        size, step = min(size, total), max(1, MANY // size)
        left = []
        for start in range(0, len(open_ones), step):
            which = open_ones[start : start + step]
            some = {epoch: query.some(which) for epoch, query in asked.items()}
            bounds = held.ranked(some, size, metric=metric, candidates="all", side=LOW)
            assert bounds is not None
            for q, ids, low in zip(which, bounds.ids, bounds.distances, strict=True):
                if not proofs[q].read(ids, low) and size < total:
                    left.append(q)
        open_ones, size = np.array(left, np.int64), size * MORE_BOUNDS
    return Hits(
        np.stack([proof.ids for proof in proofs]),
        np.stack([proof.distances for proof in proofs]),
        reads=np.array([proof.reads for proof in proofs], np.int64),
    )


class _Proof:
    """One query: the nearest rows that were read, and how many were read."""

    def __init__(
        self, row: NDArray[np.float64], k: int, metric: str, look_up: Callable[[Numbers], Any]
    ) -> None:
        self.ids, self.distances, self.reads = np.empty(0, np.int64), np.empty(0), 0
        self._row, self._k, self._metric, self._look_up = row, k, metric, look_up

    def read(self, ids: Numbers, bounds: NDArray[np.float64]) -> bool:
        """Read on: all ids so far by ascending bounds. Gives whether nothing else can be nearer."""
        while True:
            end = self._end(ids, bounds)
            if self.reads >= end:
                return end < len(bounds)
            step = max(LEAST_READS, self.reads // READS) if self.reads else self._k
            self._enter(ids[self.reads : min(end, self.reads + step)])

    def _end(self, ids: Numbers, bounds: NDArray[np.float64]) -> int:
        """How many of the ids can still be among the k nearest; equal bounds come by id."""
        if len(self.ids) < self._k:
            return len(bounds)
        last = self.distances[-1]
        low, high = bounds.searchsorted(last, "left"), bounds.searchsorted(last, "right")
        return int(low + ids[low:high].searchsorted(self.ids[-1]))

    def _enter(self, ids: Numbers) -> None:
        vectors = looked_up(self._look_up, ids, len(self._row))
        ids = np.concatenate([self.ids, ids])
        far = true_distances(vectors, self._row, self._metric)
        far = np.concatenate([self.distances, far])
        order = np.lexsort((ids, far))[: self._k]
        self.reads += len(vectors)
        self.ids, self.distances = ids[order], far[order]


def certain(held: Snapshot, asked: Queries, hits: Hits, metric: str) -> NDArray[np.bool_]:
    """Which hits, of a ranking of all codes, are among the k nearest rows for certain: (q, k).

    Those with an upper bound below the (k + 1)-th of all lower bounds: only k, itself included,
    can be as near.
    """
    k = hits.ids.shape[1]
    if len(held) <= k:
        return np.ones(hits.ids.shape, np.bool_)
    lowest = held.ranked(asked, k + 1, metric=metric, candidates="all", side=LOW)
    assert lowest is not None
    return np.asarray(held.highest(asked, hits.ids, metric) < lowest.distances[:, k:])
