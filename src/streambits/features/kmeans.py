"""k-means: the centres of a sample, as landmarks."""

import numpy as np

from streambits._arrays import (
    Array,
    array_namespace,
    as_count,
    as_rows,
    as_seed,
    double,
    move,
    to_numpy,
)
from streambits._threads import one_blas_thread

LLOYD_STEPS = 10
BLOCK = 2048  # rows at a time


def centres(sample: Array, count: int, *, seed: int | np.random.Generator = 0) -> Array:
    """k-means centres of a sample, as landmarks: worth about three times as many uniform rows.

    Parameters
    ----------
    sample : array of shape (n, d)
        Rows like those to come.
    count : int
        Number of centres, at most n.
    seed : int or Generator, default 0
        Of the rows from which the centres start.

    Returns
    -------
    array of shape (count, d)
        In the library and precision of the sample, the same for any number of threads.

    Raises
    ------
    InputError
        If `count` is not from 1 to n.

    Notes
    -----
    Ten steps of Lloyd's algorithm from `count` random rows; a centre that loses all its rows stays
    where it is. Costs 10 n count d; memory 2048 x count. (`scipy.cluster.vq.kmeans2` would hold
    all n x count distances, and warn of every empty centre.)

    Examples
    --------
    >>> centres(np.array([[0.0], [0.1], [9.0], [9.1]]), 2).round(2).ravel().tolist()
    [0.05, 9.05]
    """
    sample = as_rows(sample, name="sample")
    xp = array_namespace(sample)
    rows = to_numpy(double(sample))
    offset = rows.mean(axis=0)
    rows = rows - offset
    count = as_count(count, "count", most=len(rows))
    rng = np.random.default_rng(as_seed(seed))
    found = rows[rng.choice(len(rows), count, replace=False)]
    with one_blas_thread():
        for _ in range(LLOYD_STEPS):
            found = _lloyd_step(rows, found)
    return move(xp.asarray(found + offset), sample)


def _lloyd_step(rows: Array, found: Array) -> Array:
    half = np.vecdot(found, found) / 2
    blocks = (rows[i : i + BLOCK] for i in range(0, len(rows), BLOCK))
    owner = np.concatenate([np.argmax(b @ found.T - half, axis=1) for b in blocks])
    sizes = np.bincount(owner, minlength=len(found))
    order = np.argsort(owner, kind="stable")
    filled = np.flatnonzero(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[filled])[:-1]])
    found = found.copy()
    found[filled] = np.add.reduceat(rows[order], starts, axis=0) / sizes[filled, None]
    return found
