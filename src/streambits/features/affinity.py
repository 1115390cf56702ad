"""Gaussian affinity to a few landmarks (Algorithm 2 of the paper)."""

import json
import math
from copy import copy
from dataclasses import asdict
from typing import Any, NamedTuple, Self

import numpy as np

from streambits._arrays import (
    LARGEST,
    Array,
    array_namespace,
    as_number,
    as_rows,
    double,
    is_numpy_array,
    nbytes,
    take,
    to_device_of,
)
from streambits._threads import scratch
from streambits.errors import InputError
from streambits.features.bandwidth import Bandwidth, denominator, nearest
from streambits.features.base import Features
from streambits.kernels.affinity import Landmarks, closest, exponentials, relate

USUAL = 20  # binary orders of magnitude around 1 in which rows are taken as they are
FARTHEST = 1e17  # on a device: from here on affinities are 0, and squares do not overflow
TOLERANCE = 1e-3  # relative error of an affinity above which single precision is given up


class Affinities(NamedTuple):
    """Affinities of a block of rows, with what bounds their rounding.

    Attributes
    ----------
    features : array of shape (n, m), float32
    squares, lengths : arrays of shape (n,), float32
        Squared lengths of the rows relative to the landmarks' mean, and of the features.
    """

    features: Array
    squares: Array
    lengths: Array


class GaussianAffinity:
    """w(q)_i = exp(-||q - landmark_i||^2 / bandwidth).

    Parameters
    ----------
    landmarks : array of shape (m, d)
        At least 2, not all equal. Rows are brought to their library, device and precision.
    bandwidth : Bandwidth or float, optional
        The denominator, as a number or by a rule: `nearest(30)` (the default), `all_pairs()` or
        any factor of them.

    Raises
    ------
    InputError
        If there are fewer than 2 distinct landmarks, or the bandwidth is not positive.

    Notes
    -----
    The squares are expanded, so a block of rows costs one matrix product of n x d x m and one
    exponential per pair. Rows are first taken relative to the landmarks' mean, so a common offset,
    however large, costs no precision; landmarks too far apart for single precision switch the
    product to double. Tiny and huge units are removed by a power of two, which rounds nothing.

    Examples
    --------
    >>> GaussianAffinity([[0.0, 0.0], [1.0, 0.0]], bandwidth=1.0)(np.array([[0.0, 0.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    def __init__(self, landmarks: Array, bandwidth: Bandwidth | float | None = None) -> None:
        self.landmarks = as_rows(landmarks, name="landmarks")
        if self.landmarks.shape[0] < 2:
            raise InputError("there is 1 landmark; affinities need at least 2: pass more rows")
        if bool(array_namespace(self.landmarks).all(self.landmarks == self.landmarks[:1, :])):
            raise InputError("all landmarks are equal: pass distinct rows")
        self.bandwidth = denominator(bandwidth, self.landmarks)
        self._rule = nearest(30) if bandwidth is None else bandwidth
        self._prepare()

    def _prepare(self) -> None:
        """[x, |x|^2, 1] @ operand = -|x - landmark|^2 / bandwidth, x relative to the centre.

        x, the centre and the bandwidth are in units of `1 / self._scale`.
        """
        xp = array_namespace(self.landmarks)
        self._scale = _scale(self.bandwidth)
        self._denominator = self.bandwidth * self._scale * self._scale  # the square may overflow
        self._centre = _single(xp.mean(double(self.landmarks), axis=0)) * self._scale
        landmarks = double(self.landmarks) * self._scale - self._centre
        squares = xp.vecdot(landmarks, landmarks)
        ones = xp.ones_like(squares)
        columns = (2 * landmarks.T, -ones[None, :], -squares[None, :])
        self._operand = xp.concat(columns, axis=0) / self._denominator
        if isinstance(self._operand, np.ndarray):
            self._operand = np.ascontiguousarray(self._operand)
        self._farthest = float(xp.max(squares))
        coarse = xp.astype(self._operand, self.landmarks.dtype, copy=False)
        self._operands = {coarse.dtype: coarse, self._operand.dtype: self._operand}
        self._double = self._relative_error(coarse.dtype, self._farthest) > TOLERANCE
        self.narrow = self.exact = None  # for kernels, in single and in double precision
        if isinstance(self.landmarks, np.ndarray):
            single = coarse.dtype == np.float32 and not self._double
            self.narrow = self._compiled(np.float32) if single else None
            self.exact = self._compiled(np.float64)

    @property
    def inputs(self) -> int:
        return int(self.landmarks.shape[1])

    @property
    def width(self) -> int:
        return int(self.landmarks.shape[0])

    @property
    def nbytes(self) -> int:
        return nbytes(self.landmarks, self._centre, *self._operands.values())

    @property
    def like(self) -> Array:
        return self.landmarks

    def _compiled(self, kind: type[np.floating[Any]]) -> Landmarks:
        """The landmarks for kernels, without a copy."""
        operand, scale = self._operands[np.dtype(kind)], kind(self._scale)
        rate = kind(-1 / self._denominator)
        return Landmarks(self._centre.astype(kind), scale, operand[:-2], operand[-1], rate)

    def __call__(self, rows: Array) -> Array:
        if not is_numpy_array(rows):
            return self.with_noise(rows)[0]
        found = self.measured(rows, fresh=True)
        if found is not None:
            return found.features
        exponents = self._exponents(rows)
        if exponents.max() > 0:  # by rounding, where a row is a landmark
            np.minimum(exponents, 0, out=exponents)
        return np.exp(exponents, out=exponents)  # in place: half the memory traffic

    def measured(
        self, rows: Array, *, fresh: bool = False, each: int | None = None
    ) -> Affinities | None:
        """Affinities of checked rows, with what bounds their rounding, by compiled code.

        None where that cannot be: other libraries, double precision, rows too long to be squared.
        Unless they are to be `fresh`, the thread's next call overwrites them. With `each`, they are
        the same bits as those of so many rows at a time.
        """
        found = self._products(rows, fresh=fresh, each=each)
        if found is not None:
            exponentials(found.features, found.squares, self.narrow, found.lengths)
        return found

    def _products(
        self, rows: Array, *, fresh: bool = False, each: int | None = None
    ) -> Affinities | None:
        """Products of rows and landmarks in the place of features."""
        marks = self.narrow
        if marks is None or rows.dtype != np.float32:
            return None
        count, shape = rows.shape[0], (rows.shape[0], self.width)
        rows = rows if rows.flags.carray else rows.copy()  # compiled once, for one layout
        relative = scratch("relative", rows.shape, np.float32)
        squares, lengths = np.empty((2, count), np.float32)
        relate(rows, marks, relative, squares)
        if not squares.max() < np.inf:
            return None
        out = np.empty(shape, np.float32) if fresh else scratch("features", shape, np.float32)
        parts = (-1, each or count)
        np.matmul(
            relative.reshape(*parts, self.inputs),
            marks.operand,
            out=out.reshape(*parts, self.width),
        )
        return Affinities(out, squares, lengths)

    def closest(self, rows: Array) -> Array:
        """Affinities (n,) of checked rows to their nearest landmarks, by one exponential each."""
        found = self._products(rows)
        if found is not None:
            closest(found.features, found.squares, self.narrow, found.lengths)
            return found.lengths
        exponents = self._exponents(rows)
        xp = array_namespace(exponents)
        nearest = xp.max(exponents, axis=1)
        return xp.exp(xp.minimum(nearest, xp.zeros_like(nearest)))

    def _exponents(self, rows: Array) -> Array:
        """(n, m) minus the squared distances over the bandwidth."""
        xp = array_namespace(rows)
        relative = self._relative(rows)
        squares = _squares(relative)
        if not bool(xp.all(xp.isfinite(squares))):
            return self._of_huge(rows, relative.dtype)
        return self._extended(relative, squares)

    def _extended(self, relative: Array, squares: Array) -> Array:
        xp = array_namespace(relative)
        ones = xp.ones_like(squares)[:, None]
        extended = xp.concat([relative, squares[:, None], ones], axis=1)
        return extended @ self._operands[relative.dtype]

    def with_noise(self, rows: Array) -> tuple[Array, Array]:
        """Features (n, m) and noise (n,) of rows on a device, without waiting for it."""
        xp = array_namespace(rows)
        relative = self._relative(rows)
        far = FARTHEST if relative.dtype == xp.float32 else LARGEST
        relative = xp.clip(relative, -far, far)
        squares = xp.sum(relative * relative, axis=1)
        noise = self._relative_error(relative.dtype, squares + self._farthest)
        features = xp.exp(self._extended(relative, squares))  # at most 1, but for rounding
        return features, xp.minimum(noise, xp.ones_like(noise))

    def _relative(self, rows: Array) -> Array:
        rows = double(rows) if self._double else rows
        centre = array_namespace(rows).astype(self._centre, rows.dtype, copy=False)
        if self._scale == 1:
            return rows - centre
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is done again
            return rows * self._scale - centre

    def _of_huge(self, rows: Array, dtype: object) -> Array:
        """Rows whose squared length overflows: once more in double precision."""
        xp = array_namespace(rows)
        if dtype == xp.float64:
            raise InputError(
                f"rows reach {float(xp.max(xp.abs(rows))):.3g}, and their squared distances from "
                f"the landmarks overflow: scale the data"
            )
        least = float(xp.finfo(dtype).min)
        return xp.astype(xp.clip(self._exponents(double(rows)), least, 0.0), dtype)

    def noise(self, rows: Array, _features: Array) -> Array:
        """The rounding of the exponents, which is the relative error of an exponential."""
        xp = array_namespace(rows)
        rows = self._relative(rows)
        noise = self._relative_error(rows.dtype, _squares(rows) + self._farthest)
        if isinstance(noise, np.ndarray):  # an infinite one would hide in 0 * inf
            return np.minimum(noise, 1, out=noise)
        return xp.minimum(noise, xp.ones_like(noise))

    def _relative_error(self, dtype: object, squares: Any) -> Any:
        """A sum of K rounded products errs by about sqrt(K) units of its absolute sum."""
        unit = float(array_namespace(self.landmarks).finfo(dtype).eps) / 2
        return unit * (4 + 2 * (self.inputs + 2) ** 0.5 / self._denominator * squares)

    @property
    def error(self) -> tuple[float, float]:
        """The relative error in single precision, as `flat + steep |x|^2`, x as in `squares`."""
        flat, nought = (self._relative_error(np.float32, far) for far in (self._farthest, 0.0))
        return flat, self._relative_error(np.float32, 1.0) - nought

    def renewed(self, landmarks: Array, *, wider: float = 1.0) -> Self:
        """Affinity to other landmarks (m, d), with a bandwidth by the same rule, times `wider`."""
        renewed = type(self)(landmarks, wider * self._rule)
        renewed._rule = self._rule
        return renewed

    def among(self, places: Any) -> Self:
        """Affinity to the landmarks at these places, with the same bandwidth."""
        some = copy(self)
        some.landmarks = take(self.landmarks, places)
        some._prepare()
        return some

    def on(self, like: Array) -> Self:
        return self.from_state({**self.state(), "landmarks": to_device_of(self.landmarks, like)})

    def state(self) -> dict[str, Any]:
        rule = json.dumps(asdict(self._rule)) if isinstance(self._rule, Bandwidth) else ""
        return {"landmarks": self.landmarks, "bandwidth": self.bandwidth, "rule": rule}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        self = cls(state["landmarks"], as_number(state["bandwidth"], "bandwidth", above=0))
        if state.get("rule"):
            self._rule = Bandwidth(**json.loads(state["rule"]))
        return self

    def __repr__(self) -> str:
        shape = f"{self.width} landmarks of {self.inputs} columns"
        return f"GaussianAffinity({shape}, bandwidth={self.bandwidth:.6g})"


def measured(features: Features, rows: Array) -> tuple[Array, Any]:
    """The features of a block of checked rows, and what `Coder.encoded` makes codes of.

    Where these are `Affinities`, the thread's next call overwrites them.
    """
    if type(features) is GaussianAffinity:  # a subclass may compute something else
        found = features.measured(rows)
        if found is not None:
            return found.features, found
    plain = features(rows)
    return plain, plain


def _scale(bandwidth: float) -> float:
    """A power of two that brings the root of a bandwidth far from 1 close to it."""
    exponent = round(math.log2(bandwidth) / 2)
    return 1.0 if abs(exponent) < USUAL else math.ldexp(1.0, -exponent)


def _squares(rows: Array) -> Array:
    with np.errstate(over="ignore"):  # what overflows is done again
        return array_namespace(rows).vecdot(rows, rows)


def _single(centre: Array) -> Array:
    """Round to single precision, where it fits: then float32 rows are shifted without error."""
    xp = array_namespace(centre)
    with np.errstate(over="ignore"):
        rounded = double(xp.astype(centre, xp.float32))
    return xp.where(xp.isfinite(rounded), rounded, centre)
