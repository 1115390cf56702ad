"""Calibration: which Euclidean distance a Hamming distance stands for.

Two steps. A curve for the epoch: the mean distance of rows of its sample whose codes differ in h
bits, made to rise with h. Then for each query what the curve misses, smoothed over h: a query that
lies outside the epoch's rows has small Hamming distances to some of them, because a coder cannot
tell far rows apart, and its true distances to the sample say so. (One curve for all queries makes
sorted streams worse than plain Hamming distances; `experiments/drift.py` measures all three.)
"""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
PRIOR = 3.0  # rows without a miss that the smoothing adds
REACH = 32  # the smoothing reaches bits / 32 bits to either side


def curve(near: NDArray[np.uint16], far: Matrix) -> Matrix:
    """(bits + 1,) the distance that each number of differing bits stands for, never falling.

    near, far: (n, n) Hamming and Euclidean distances of the same rows; bits: the largest seen.
    Isotonic regression by pooling neighbours that fall; linear where a number was not seen.
    """
    above = np.triu_indices(len(near), 1)
    counts = np.bincount(near[above])
    sums = np.bincount(near[above], far[above])
    seen = np.flatnonzero(counts)
    pooled: list[list[float]] = []  # mean, count, how many numbers of bits
    for mean, count in zip(sums[seen] / counts[seen], counts[seen], strict=True):
        pooled.append([float(mean), float(count), 1])
        while len(pooled) > 1 and pooled[-2][0] > pooled[-1][0]:
            mean_last, count_last, length = pooled.pop()
            total = pooled[-1][1] + count_last
            pooled[-1][0] += (mean_last - pooled[-1][0]) * count_last / total
            pooled[-1][1:] = [total, pooled[-1][2] + length]
    fitted = np.concatenate([np.full(int(length), mean) for mean, _, length in pooled])
    return np.asarray(np.interp(np.arange(len(counts)), seen, fitted))


def tables(base: Matrix, near: NDArray[np.uint16], far: Matrix, bits: int) -> Matrix:
    """(queries, bits + 1) the distance that each Hamming distance means for each query, rising.

    base: a curve; near, far: (queries, n) distances of the queries to the rows of the sample.
    """
    steps = np.arange(bits + 1)
    base = np.interp(steps, np.arange(len(base)), base)
    flat = near + (bits + 1) * np.arange(len(near))[:, None]
    shape = (len(near), bits + 1)
    size = shape[0] * shape[1]
    counts = np.bincount(flat.ravel(), minlength=size).reshape(shape)
    misses = np.bincount(flat.ravel(), (far - base[near]).ravel(), size).reshape(shape)
    kernel = np.exp(-0.5 * ((steps[:, None] - steps) / max(1.0, bits / REACH)) ** 2)
    missed = (misses @ kernel) / (counts @ kernel + PRIOR)
    nearest = near.min(axis=1).astype(np.intp)[:, None]
    below = steps < nearest  # nothing is known there: as at the nearest
    missed = np.where(below, np.take_along_axis(missed, nearest, axis=1), missed)
    rising = np.maximum.accumulate(np.maximum(base + missed, 0), axis=1)
    return np.asarray(rising + 1e-6 * (base[-1] + 1e-9) * steps)  # and no two equal
