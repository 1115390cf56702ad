"""Calibration: which Euclidean distance a Hamming distance stands for.

Two steps. A curve for the epoch: the mean distance of rows of its sample whose codes differ in h
bits, made to rise with h. Then for each query what the curve misses, smoothed over h: a query that
lies outside the epoch's rows has small Hamming distances to some of them, because a coder cannot
tell far rows apart, and its true distances to the sample say so. (One curve for all queries makes
sorted streams worse than plain Hamming distances; `experiments/calibration.py` compares them.)

Both on the logarithms of distances, so that a few rows far from all others, whose codes are often
equal, do not decide what is near: with plain means four epochs of DSADS keep 0.87 of the recall of
one, with logarithms 0.96.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from streambits._arrays import double
from streambits.model.codes import Codes

Matrix = NDArray[np.float64]
PRIOR = 0.5  # rows without a miss that the smoothing adds
LEAST = 0.01  # of the median distance is added to all: the logarithm of 0 would outweigh all others
REACH = 32  # the smoothing reaches bits / 32 bits to either side
COLUMNS = 256  # of the smoothing's weights that are in memory at a time


class Fit(NamedTuple):
    """What a sample has told: the curve, of logarithms, and the distance that is added to all."""

    curve: Matrix
    least: float


class Calibration:
    """A sample of an epoch's rows (n, d), n >= 2, and their codes: a scale for each query.

    fit: of the same sample, where it is known already; it takes n^2 (d + bits) operations.
    """

    def __init__(self, rows: NDArray[Any], codes: Codes, fit: Fit | None = None) -> None:
        self.codes = codes
        self._centre = rows.mean(axis=0, dtype=np.float64)
        self._rows = (rows - self._centre).astype(rows.dtype)
        self._lengths = _squares(self._rows)
        self.fit = self._fitted() if fit is None else fit
        self._curve, self._least = self.fit

    def _fitted(self) -> Fit:
        distances = self._distances(self._rows)
        least = max(LEAST * float(np.median(distances)), 1e-300)
        return Fit(curve(self.codes.hamming(self.codes), np.log(distances + least)), least)

    def __call__(self, rows: NDArray[Any], codes: Codes) -> Matrix:
        """(queries, bits + 1) the distance that each Hamming distance means, rising.

        codes: of the rows, by a coder of the epoch.
        """
        far = np.log(self._distances(rows - self._centre) + self._least)
        logs = tables(self._curve, codes.hamming(self.codes), far, codes.bits)
        found = np.maximum(np.exp(logs) - self._least, 0)
        return found + 1e-6 * (found[:, -1:] + self._least) * np.arange(
            codes.bits + 1
        )  # all differ

    def _distances(self, centred: NDArray[Any]) -> Matrix:
        """(queries, n) Euclidean distances, by one product in the precision of the sample."""
        with np.errstate(over="ignore", invalid="ignore"):
            products = centred.astype(self._rows.dtype) @ self._rows.T
        if not np.isfinite(products).all():
            products = double(centred) @ double(self._rows).T
        squares = _squares(centred)[:, None] + self._lengths - 2.0 * products
        return np.asarray(np.sqrt(np.maximum(squares, 0)))


def _squares(rows: NDArray[Any]) -> Matrix:
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def curve(near: NDArray[np.uint16], far: Matrix) -> Matrix:
    """(bits + 1,) the distance that each number of differing bits stands for, never falling.

    near, far: (n, n) Hamming and Euclidean distances of the same rows; bits: the largest seen.
    Isotonic regression by pooling neighbours that fall; linear where a number was not seen.
    """
    above = ~np.tri(len(near), dtype=np.bool_)
    pairs = near[above]
    counts, sums = np.bincount(pairs), np.bincount(pairs, far[above])
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
    """(queries, bits + 1) what each Hamming distance means for each query, never falling.

    base: a curve; near, far: (queries, n) distances of the queries to the rows of the sample.
    """
    steps = np.arange(bits + 1)
    base = np.interp(steps, np.arange(len(base)), base)
    shape = (len(near), len(steps))
    flat = (near + len(steps) * np.arange(len(near))[:, None]).ravel()
    counts = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)
    sums = np.bincount(flat, far.ravel(), shape[0] * shape[1]).reshape(shape)
    missed = smoothed(sums - counts * base) / (smoothed(counts) + PRIOR)
    nearest = near.min(axis=1).astype(np.intp)[:, None]
    below = steps < nearest  # nothing is known there: as at the nearest
    missed = np.where(below, np.take_along_axis(missed, nearest, axis=1), missed)
    return np.asarray(np.maximum.accumulate(base + missed, axis=1))


def smoothed(values: NDArray[Any]) -> Matrix:
    """(queries, bits + 1) sums over neighbouring numbers of bits, by a Gaussian weight each.

    The weights, a matrix of (bits + 1)^2, are a view of one row of them, copied a few columns at a
    time: at 4096 bits all of them would take 134 MB.
    """
    bits = values.shape[1] - 1
    apart = np.arange(-bits, bits + 1) / max(1.0, bits / REACH)
    weights = sliding_window_view(np.exp(-0.5 * apart**2), bits + 1)[::-1]
    starts = range(0, bits + 1, COLUMNS)
    return np.concatenate([values @ weights[:, i : i + COLUMNS] for i in starts], axis=1)
