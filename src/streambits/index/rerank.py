"""Ranking hits again by the original vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Ids,
    as_choice,
    as_count,
    as_ids,
    as_rows,
    double,
    squared_distances,
    to_numpy,
)
from streambits.errors import InputError
from streambits.index.hits import Hits, no_hits
from streambits.index.keys import numbers_of
from streambits.kernels.decode import METRICS

Rows = NDArray[np.float64]
STEP = 64  # queries at a time
ROUNDING = 1e-9  # of the largest squared distance, by which a product may be wrong at most


def rerank(hits: Hits, queries: Any, rows: Any, k: int, *, metric: str = "euclidean") -> Hits:
    """Rank hits again, by distances of the original vectors.

    Parameters
    ----------
    hits
        What a search found; ask for more than k, say 10 k: codes find the candidates, and the
        vectors order them.
    queries
        (n, d) the rows that were encoded.
    rows
        Where the vectors are: an array (also a memory-mapped one) whose row i has the id i, or a
        function from (h,) ids to their (h, d) rows.
    k
        Number of hits per query that stay.
    metric
        What distances are, as for `HammingIndex.search`.

    Returns
    -------
    Hits
        The k nearest of each query's hits, equal distances in the order of ids. Reads hits
        x columns values.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [3.0]])
    >>> found = rerank(Hits(np.array([[0, 1, 2]]), np.array([[0, 0, 1]])), [[1.2]], rows, k=2)
    >>> found.ids.tolist(), found.distances.round(6).tolist()
    ([[1, 0]], [[0.2, 1.2]])
    """
    asked = to_numpy(double(as_rows(queries, name="queries")))
    if hits.ids.ndim != 2 or len(asked) != len(hits):
        raise InputError(f"there are {len(asked)} queries for hits of shape {hits.ids.shape}")
    metric = as_choice(metric, "metric", METRICS)
    look_up, count = as_look_up(rows, "rows"), as_count(k, "k")
    kept = min(count, hits.ids.shape[1])
    ids, distances = np.empty((len(asked), kept), hits.ids.dtype), np.empty((len(asked), kept))
    for i, query in enumerate(asked):
        found = hits.ids[i]
        vectors = looked_up(look_up, found, asked.shape[1])
        far = true_distances(vectors, query, metric)
        order = np.lexsort((numbers_of(found), far))[:kept]
        ids[i], distances[i] = found[order], far[order]
    return Hits(ids, distances)


def true_distances(vectors: Rows, query: Rows, metric: str) -> Rows:
    """Distances (n,) of rows (n, d) from a query (d,), each by itself; as `HammingIndex.search`.

    >>> true_distances(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([0.0, 2.0]), "cosine")
    array([0.2, 1. ])
    """
    if metric == "euclidean":
        return np.asarray(np.sqrt(((vectors - query) ** 2).sum(axis=1)))
    products = (vectors * query).sum(axis=1)
    if metric == "inner":
        return np.asarray(-products)
    lengths = np.sqrt((vectors**2).sum(axis=1)) * np.sqrt((query**2).sum())
    cosines = np.divide(products, lengths, out=np.zeros(len(vectors)), where=lengths > 0)
    return np.asarray(np.clip(1 - cosines, 0, 2))


def nearest_rows(
    queries: Any, ids: Ids, rows: Any, k: int, metric: str, *, allow: Any = None
) -> Hits:
    """Find the nearest rows of each query by true distances, without codes.

    Parameters
    ----------
    queries
        (q, d) checked rows.
    ids, rows
        (n,) and (n, d) what is searched; rows may be None if there are none.
    k
        Number of hits per query.
    metric
        What distances are, as for `HammingIndex.search`.
    allow
        Ids to choose from.

    Returns
    -------
    Hits
        Equal distances in the order of ids.
    """
    asked = to_numpy(double(queries))
    numbers, here = numbers_of(ids), np.ones(len(ids), np.bool_)
    if allow is not None:
        here = np.isin(numbers, numbers_of(as_ids(allow, "allow")))
    if not here.any():
        return no_hits(len(asked), np.float64)
    ids, numbers, held = ids[here], numbers[here], np.asarray(rows)[here].astype(np.float64)
    count = min(as_count(k, "k"), len(ids))
    places, distances = np.empty((len(asked), count), np.intp), np.empty((len(asked), count))
    for start in range(0, len(asked), STEP):
        few = _candidates(asked[start : start + STEP], held, count, metric)
        for q, near in enumerate(few, start):
            far = true_distances(held[near], asked[q], metric)
            order = np.lexsort((numbers[near], far))[:count]
            places[q], distances[q] = near[order], far[order]
    return Hits(ids[places], distances)


def _candidates(queries: Rows, rows: Rows, count: int, metric: str) -> list[NDArray[np.intp]]:
    """Places of the nearest rows of each query by one product, with all that rounding may hide."""
    if metric != "euclidean" or count >= len(rows):
        return [np.arange(len(rows))] * len(queries)
    centre = rows.mean(axis=0)
    far = squared_distances(queries - centre, rows - centre)
    last = np.partition(far, count - 1, axis=1)[:, count - 1]
    doubt = ROUNDING * np.abs(far).max(axis=1)
    return [np.flatnonzero(each <= limit) for each, limit in zip(far, last + doubt, strict=True)]


def as_look_up(rows: Any, name: str) -> Callable[[Ids], Any]:
    """A function from ids to rows: `rows` if it is one, or of an array whose row i has the id i."""
    if callable(rows):
        return rows  # type: ignore[no-any-return]
    if getattr(rows, "ndim", None) != 2:
        raise InputError(f"{name} must be an (n, d) array, or a function from ids to rows")

    def look_up(ids: Ids) -> Any:
        if ids.dtype.kind == "T":
            raise InputError(
                f"{name} is an array, and ids are texts, as {ids[0]!r}: pass a function from ids "
                f"to rows"
            )
        outside = (ids < 0) | (ids >= len(rows))
        if outside.any():
            raise InputError(
                f"the id {ids[outside][0]} has no row: there are {len(rows)}. Pass a function from "
                f"ids to rows where ids are not row numbers"
            )
        return rows[ids]

    return look_up


def looked_up(look_up: Callable[[Any], Any], ids: Ids, width: int) -> Rows:
    """The rows (n, width) of ids, checked."""
    if not len(ids):
        return np.empty((0, width))
    vectors = to_numpy(double(as_rows(look_up(ids), width=width)))
    if len(vectors) != len(ids):
        raise InputError(f"rows gave {len(vectors)} rows for {len(ids)} ids: give one for each")
    return np.asarray(vectors)
