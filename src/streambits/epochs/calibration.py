"""Calibration: which Euclidean distance a Hamming distance stands for.

Two steps. A curve for the epoch: the mean distance of rows of its sample whose codes differ in h
bits, made to rise with h. Then for each query what the curve misses, smoothed over h: a query that
lies outside the epoch's rows has small Hamming distances to some of them, because a coder cannot
tell far rows apart, and its true distances to the sample say so. (One curve for all queries makes
sorted streams worse than plain Hamming distances.)

Both on the logarithms of distances, so that a few rows far from all others, whose codes are often
equal, do not decide what is near: with plain means four epochs of DSADS keep 0.87 of the recall of
one, with logarithms 0.96.

Real-valued distances have a scale in the same way. They are cut into equal shares of the largest
that a query can have, all its bits differing, and these take the place of numbers of bits.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from streambits._arrays import double
from streambits.model.codes import Codes

Matrix = NDArray[np.float64]
PRIOR = 0.5  # rows without a miss that the smoothing adds
DISTANCE_FLOOR = 0.01  # share of the median distance that is added to all, for logarithms
REACH = 32  # the smoothing reaches bits / 32 bits to either side
SHARES = 512  # into which real-valued distances are cut
COLUMNS = 256  # of the smoothing's weights that are in memory at a time


class Fit(NamedTuple):
    """What a calibration has learned from its sample.

    Attributes
    ----------
    curve : ndarray of shape (bits + 1,)
        Logarithm of the distance that each number of differing bits stands for.
    least : float
        Distance that is added to all before the logarithm.
    """

    curve: Matrix
    least: float


class Calibration:
    """A scale from Hamming to Euclidean distances for each query, from a sample of an epoch.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        A sample of the epoch's rows, at least 2.
    codes : Codes
        Their codes.
    fit : Fit, optional
        That of the same sample, if there is one already: to make it takes n^2 (d + bits)
        operations.
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
        least = max(DISTANCE_FLOOR * float(np.median(distances)), 1e-300)
        return Fit(distance_curve(self.codes.hamming(self.codes), np.log(distances + least)), least)

    def __call__(self, rows: NDArray[Any], codes: Codes) -> Matrix:
        """The Euclidean distance that each Hamming distance stands for.

        Parameters
        ----------
        rows : ndarray of shape (q, d)
            Queries.
        codes : Codes
            Their codes, by a coder of the epoch.

        Returns
        -------
        ndarray of shape (q, bits + 1)
            Strictly rising along each row.
        """
        return self.scale(rows, codes.hamming(self.codes), self._curve, codes.bits)

    def scale(self, rows: NDArray[Any], near: NDArray[Any], curve: Matrix, steps: int) -> Matrix:
        """The Euclidean distance that each of `steps` + 1 numbers stands for.

        Parameters
        ----------
        rows : ndarray of shape (q, d)
            Queries.
        near : ndarray of shape (q, n)
            Their distances from the codes of the sample, as whole numbers up to `steps`.
        curve : ndarray of shape (at most steps + 1,)
            Logarithm of the distance that each number stands for in the epoch.
        steps : int

        Returns
        -------
        ndarray of shape (q, steps + 1)
            Strictly rising along each row.
        """
        far = np.log(self._distances(rows - self._centre) + self._least)
        logs = query_scales(curve, near, far, steps)
        found = np.maximum(np.exp(logs) - self._least, 0)
        rise = 1e-6 * (found[:, -1:] + self._least)  # so that no two are equal
        return found + rise * np.arange(steps + 1)

    def curve(self, near: NDArray[Any]) -> Matrix:
        """The curve of other distances (n, n) of the sample, which are whole numbers."""
        return distance_curve(near, np.log(self._distances(self._rows) + self._least))

    def _distances(self, centred: NDArray[Any]) -> Matrix:
        """(queries, n) Euclidean distances, by one product in the precision of the sample."""
        with np.errstate(over="ignore", invalid="ignore"):
            products = centred.astype(self._rows.dtype) @ self._rows.T
        if not np.isfinite(products).all():
            products = double(centred) @ double(self._rows).T
        squares = _squares(centred)[:, None] + self._lengths - 2.0 * products
        return np.asarray(np.sqrt(np.maximum(squares, 0)))


class RealCalibration:
    """The same for queries that keep their real values.

    Parameters
    ----------
    sample : Calibration
    values : ndarray of shape (n, bits)
        What the epoch's coder projects the rows of the sample to.
    """

    def __init__(self, sample: Calibration, values: NDArray[Any]) -> None:
        self._sample = sample
        self._curve = sample.curve(shares(values, sample.codes))

    def __call__(self, rows: NDArray[Any], values: NDArray[Any]) -> Matrix:
        """The Euclidean distance that each share of the largest distance stands for.

        Parameters
        ----------
        rows : ndarray of shape (q, d)
            Queries.
        values : ndarray of shape (q, bits)
            What a coder of the epoch projects them to.

        Returns
        -------
        ndarray of shape (q, 513)
            Strictly rising along each row: for 0, 1/512, ... 1 of the sum of absolute values.
        """
        near = shares(values, self._sample.codes)
        return self._sample.scale(rows, near, self._curve, SHARES)


def shares(values: NDArray[Any], codes: Codes) -> NDArray[np.uint16]:
    """Real-valued distances from codes, in 512ths of the largest that each query can have.

    Parameters
    ----------
    values : ndarray of shape (q, bits)
        Queries: a bit that differs costs the size of its value.
    codes : Codes
        n of them.

    Returns
    -------
    ndarray of shape (q, n), uint16
    """
    signs = np.where(codes.unpack(), np.float32(1), np.float32(-1))
    sizes = np.abs(double(values)).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        relative = np.nan_to_num(double(values) / sizes)  # a query of zeros is near to all
    near = (1 - relative.astype(np.float32) @ signs.T) / 2
    return np.asarray(np.rint(SHARES * np.clip(near, 0, 1)), np.uint16)


def _squares(rows: NDArray[Any]) -> Matrix:
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def distance_curve(near: NDArray[np.uint16], far: Matrix) -> Matrix:
    """The distance that each number of differing bits stands for, by isotonic regression.

    Parameters
    ----------
    near, far : ndarray of shape (n, n)
        Hamming and Euclidean distances of the same rows.

    Returns
    -------
    ndarray of shape (bits + 1,)
        Never falling; `bits` is the largest Hamming distance. Linear between numbers of bits that
        occur.
    """
    # 240 modules, which `import streambits` does without
    from scipy.optimize import isotonic_regression  # noqa: PLC0415

    above = ~np.tri(len(near), dtype=np.bool_)
    pairs = near[above]
    counts, sums = np.bincount(pairs), np.bincount(pairs, far[above])
    seen = np.flatnonzero(counts)
    fitted = isotonic_regression(sums[seen] / counts[seen], weights=counts[seen]).x
    return np.interp(np.arange(len(counts)), seen, fitted)


def query_scales(base: Matrix, near: NDArray[np.uint16], far: Matrix, bits: int) -> Matrix:
    """What each Hamming distance stands for, for each query.

    Parameters
    ----------
    base : ndarray of shape (at most bits + 1,)
        The curve of the epoch.
    near, far : ndarray of shape (q, n)
        Hamming and Euclidean distances of the queries to the rows of the sample.
    bits : int
        Length of the codes.

    Returns
    -------
    ndarray of shape (q, bits + 1)
        Never falling along a row.
    """
    steps = np.arange(bits + 1)
    base = np.interp(steps, np.arange(len(base)), base)
    shape = (len(near), len(steps))
    flat = (near + len(steps) * np.arange(len(near))[:, None]).ravel()
    counts = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)
    sums = np.bincount(flat, far.ravel(), shape[0] * shape[1]).reshape(shape)
    missed = smoothed(sums - counts * base) / (smoothed(counts) + PRIOR)
    nearest = near.min(axis=1).astype(np.intp)[:, None]
    below = steps < nearest  # there are no rows there: as at the nearest
    missed = np.where(below, np.take_along_axis(missed, nearest, axis=1), missed)
    return np.asarray(np.maximum.accumulate(base + missed, axis=1))


def smoothed(values: NDArray[Any]) -> Matrix:
    """Sums over neighbouring numbers of bits with Gaussian weights.

    Parameters
    ----------
    values : ndarray of shape (q, bits + 1)
        One value per query and number of bits.

    Returns
    -------
    ndarray of shape (q, bits + 1)
        The sums; the weights reach about bits / 32 to either side.

    Notes
    -----
    The weights, a matrix of (bits + 1)^2, are a view of one row of them, copied a few columns at a
    time: at 4096 bits all of them would take 134 MB.
    """
    bits = values.shape[1] - 1
    apart = np.arange(-bits, bits + 1) / max(1.0, bits / REACH)
    weights = sliding_window_view(np.exp(-0.5 * apart**2), bits + 1)[::-1]
    starts = range(0, bits + 1, COLUMNS)
    return np.concatenate([values @ weights[:, i : i + COLUMNS] for i in starts], axis=1)
