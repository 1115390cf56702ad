"""Answers that are proven, from as few raw rows as it takes.

A certified code says how far its row is at most from what it decodes to. By the triangle inequality
that gives a lower bound of the distance between the row and any query. Raw rows are read in the
order of these bounds, until the k-th distance that was read lies below the next bound.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._threads import one_blas_thread
from streambits.errors import InputError
from streambits.index.hits import Hits, no_hits
from streambits.index.keys import Numbers
from streambits.index.queries import RowQuery
from streambits.index.rerank import looked_up, true_distances
from streambits.index.snapshot import Snapshot
from streambits.model.codes import Codes

DECODED_CODES = 1 << 13  # codes that are decoded at a time
HELD_BOUNDS = 1 << 24  # bounds of all queries that are held at a time
FEWEST_READS, READ_SHARE = 8, 8  # rows that are read at a time, or that share of those read
DOUBLE, SINGLE = (float(np.finfo(kind).eps) for kind in (np.float64, np.float32))
Queries = Mapping[int, RowQuery]
Bounds = NDArray[np.float64]


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
    """The k nearest rows of every query, as a search of all raw rows finds them.

    Parameters
    ----------
    held : Snapshot
    asked : mapping from epochs to RowQuery
    k : int
    metric : str
    look_up : callable
        From numbers of ids to their raw rows.

    Returns
    -------
    Hits
        With `reads`, the number of raw rows that were read for each query.

    Notes
    -----
    Every code is decoded once for some `HELD_BOUNDS` / codes queries.
    """
    rows, total = next(iter(asked.values())).rows, len(held)
    if not total:
        return no_hits(len(rows), np.float64, reads=np.zeros(len(rows), np.int64))
    searched, step = [], max(1, HELD_BOUNDS // total)
    for part in (slice(start, start + step) for start in range(0, len(rows), step)):
        queries = {epoch: query.some(part) for epoch, query in asked.items()}
        numbers, bounds = _bounds_of_all(held, queries, metric)
        for row, low in zip(rows[part], bounds, strict=True):
            search = _Search(row, min(k, total), metric, look_up)
            search.read_until_proven(numbers, low)
            searched.append(search)
    return Hits(
        np.stack([search.ids for search in searched]),
        np.stack([search.distances for search in searched]),
        reads=np.array([search.reads for search in searched], np.int64),
    )


class _Search:
    """One query: the nearest rows that were read, and how many were read."""

    def __init__(
        self, row: NDArray[np.float64], k: int, metric: str, look_up: Callable[[Numbers], Any]
    ) -> None:
        self.ids, self.distances, self.reads = np.empty(0, np.int64), np.empty(0), 0
        self._row, self._k, self._metric, self._look_up = row, k, metric, look_up

    def read_until_proven(self, numbers: Numbers, low: Bounds) -> None:
        """Read rows by ascending bounds, until no other row can be as near as the k-th."""
        first = np.argpartition(low, self._k - 1)[: self._k]
        self._read(numbers[first])
        rest = low <= self.distances[-1]
        rest[first] = False
        numbers, low = numbers[rest], low[rest]
        order = np.lexsort((numbers, low))
        numbers, low = numbers[order], low[order]
        while len(numbers):
            step = max(FEWEST_READS, self.reads // READ_SHARE)
            self._read(numbers[:step])
            end = int(low.searchsorted(self.distances[-1], "right"))
            numbers, low = numbers[step:end], low[step:end]

    def _read(self, numbers: Numbers) -> None:
        rows = looked_up(self._look_up, numbers, len(self._row))
        distances = true_distances(rows, self._row, self._metric)
        self.reads += len(numbers)
        numbers = np.concatenate([self.ids, numbers])
        distances = np.concatenate([self.distances, distances])
        order = np.lexsort((numbers, distances))[: self._k]
        self.ids, self.distances = numbers[order], distances[order]


def _bounds_of_all(held: Snapshot, asked: Queries, metric: str) -> tuple[Numbers, Bounds]:
    """Numbers (n,) of all ids, and lower bounds (q, n) of the distances of their rows."""
    numbers, bounds = [], []
    for epoch in held.epochs:
        own = held.numbers(epoch)
        numbers.append(own)
        for start in range(0, len(own), DECODED_CODES):
            codes = held.codes(epoch, own[start : start + DECODED_CODES])
            with one_blas_thread():
                bounds.append(lower_bounds(asked[epoch], codes, metric))
    return np.concatenate(numbers), np.concatenate(bounds, axis=1)


def lower_bounds(query: RowQuery, codes: Codes, metric: str) -> Bounds:
    """Bounds (q, n) below the distances of the rows of codes from queries.

    A sum of d products errs by about sqrt(d) units of the lengths that are multiplied. Rows that
    were encoded in single precision differ from those in double precision by half a unit of it.
    """
    assert codes.refinement is not None
    decoded = query.refinement.decode(codes.packed, codes.refinement)
    lengths, asked = _lengths(decoded), _lengths(query.rows)[:, None]
    unit = 32 * DOUBLE * decoded.shape[1] ** 0.5
    radii = query.refinement.bounds(codes.refinement)
    radii = radii + (unit + SINGLE * query.single) * (lengths + radii)
    products = query.rows @ decoded.T
    if metric == "euclidean":
        squares = asked**2 - 2 * products + lengths**2 - unit * (asked + lengths) ** 2
        below = np.sqrt(np.maximum(squares, 0)) - radii - unit * (asked + lengths + radii)
        return np.asarray(below)
    if metric == "inner":
        with np.errstate(invalid="ignore"):
            below = -products - asked * (radii + unit * (lengths + radii))
        return np.where(asked == 0, 0.0, below)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = products / (asked * lengths)
        turn = np.arcsin(np.where(radii < lengths, radii / lengths, 1.0))
    angles = np.arccos(np.clip(cosines + unit, -1, 1)) - turn
    below = 1 - np.cos(np.maximum(angles, 0)) - unit
    return np.where(asked == 0, 1.0, np.where(radii < lengths, below, 0.0))


def _lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(np.vecdot(rows, rows)))
