"""Affine maps of rows with bounds on their rounding, and principal components of a sample.

Shared by the features that begin with a matrix product: cosines, eigenfunctions, spheres.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    array_namespace,
    as_rows,
    double,
    nbytes,
    to_device_of,
    to_numpy,
    zeros,
)
from streambits._threads import one_blas_thread
from streambits.errors import InputError

LARGEST_NOISE = 1e9
TOLERANCE = 1e-12  # of the largest variance; below it there is rounding and nothing else
LEAST = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)  # below, digits are lost

Matrix = NDArray[np.float64]


class AffineMap:
    """x -> (x - centre) . vectors + shifts, for rows (n, d) to values (n, k).

    Parameters
    ----------
    vectors : array of shape (d, k)
        One vector per value.
    shifts : array of shape (k,)
        What is added to each value.
    centre : array of shape (d,)
        Its library, device and precision are those of the rows.

    Notes
    -----
    The centre is subtracted first, so a common offset of all rows, however large, costs no
    precision. Rows too large for single precision give values in double.
    """

    def __init__(self, vectors: Array, shifts: Array, centre: Array) -> None:
        self.centre = as_rows(centre[None, :], name="centre", width=vectors.shape[0])[0, :]
        self.vectors = double(as_rows(vectors, like=zeros(1, self.centre), name="vectors"))
        self.shifts = checked_vector(shifts, self.centre, self.count, "shifts")
        self._held: dict[Any, tuple[Array, ...]] = {}
        xp, pair = array_namespace(self.vectors), (self.vectors, self.shifts)
        for dtype in (self.centre.dtype, self.vectors.dtype):
            self._held[dtype] = tuple(xp.astype(array, dtype, copy=False) for array in pair)

    @property
    def inputs(self) -> int:
        """Number of columns of the rows."""
        return int(self.vectors.shape[0])

    @property
    def count(self) -> int:
        """Number of values per row."""
        return int(self.vectors.shape[1])

    @property
    def nbytes(self) -> int:
        return nbytes(self.centre, *(array for pair in self._held.values() for array in pair))

    def __call__(self, rows: Array) -> Array:
        xp = array_namespace(rows)
        vectors, shifts = self._held[rows.dtype]
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is done again
            values = self.relative(rows) @ vectors + shifts
        if rows.dtype == xp.float32 and not bool(xp.all(xp.isfinite(values))):
            return self(double(rows))
        return values

    def relative(self, rows: Array) -> Array:
        """Rows minus the centre."""
        return rows - array_namespace(rows).astype(self.centre, rows.dtype, copy=False)

    def reach(self, rows: Array) -> Array:
        """Distances from the centre, (n,), at most sqrt(d) times too large: never infinite."""
        xp = array_namespace(rows)
        with np.errstate(over="ignore"):
            return xp.max(xp.abs(self.relative(rows)), axis=1) * self.inputs**0.5

    def error(self, rows: Array, scale: Array) -> Array:
        """Bounds on the length of the rounding errors of the values, each times its scale.

        Parameters
        ----------
        rows : array of shape (n, d)
            Checked rows.
        scale : array of shape (k,)
            What the error of each value is multiplied by.

        Returns
        -------
        array of shape (n,)
            A sum of d rounded products errs by about sqrt(d) units of the length of its terms.
        """
        xp = array_namespace(rows)
        lengths = xp.sqrt(xp.sum(self.vectors**2, axis=0))
        sums = 2 * (self.inputs + 2) ** 0.5 * float(xp.sqrt(xp.sum((lengths * scale) ** 2)))
        shifts = 3 * float(xp.sqrt(xp.sum((self.shifts * scale) ** 2)))
        with np.errstate(over="ignore"):
            return rounding_unit(rows) * (sums * self.reach(rows) + shifts)


class AffineFeatures:
    """Base of features whose first step is an affine map of the rows, `_affine`.

    The arguments of a subclass are its state; those that `_on_host` names stay NumPy arrays.
    """

    _affine: AffineMap
    _on_host: tuple[str, ...] = ()

    @property
    def centre(self) -> Array:
        """The point that rows are taken relative to, of shape (inputs,)."""
        return self._affine.centre

    @property
    def inputs(self) -> int:
        return self._affine.inputs

    @property
    def width(self) -> int:
        return self._affine.count

    @property
    def like(self) -> Array:
        return self._affine.centre

    def on(self, like: Array) -> Self:
        state = self.state()
        moved = {
            name: to_device_of(state[name], like) for name in state if name not in self._on_host
        }
        return self.from_state(state | moved)

    def state(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)


def rounding_unit(rows: Array) -> float:
    """The unit of rounding of these rows: half the distance from 1 to the next number."""
    return float(array_namespace(rows).finfo(rows.dtype).eps) / 2


def relative_noise(error: Array, features: Array) -> Array:
    """An error of features relative to their length, as `Features.noise` has it.

    Parameters
    ----------
    error : array of shape (n,)
        Bound on the length of each row's error.
    features : array of shape (n, k)
        The features.

    Returns
    -------
    array of shape (n,)
        Above 1 where the features are smaller than their error: nothing is known of them.
    """
    xp = array_namespace(features)
    error = xp.clip(double(error), 1e-300, 1e300)
    with np.errstate(over="ignore"):
        length = xp.sqrt(xp.vecdot(double(features), double(features)))
    most = xp.full_like(length, LARGEST_NOISE)  # an infinite one would hide in 0 * inf
    noise = error / xp.maximum(length - error, error / LARGEST_NOISE)
    return xp.where(xp.isfinite(length), noise, most)


def checked_vector(values: Array, like: Array, length: int, name: str) -> Array:
    """Check one finite value per column; in double precision, beside `like`."""
    return as_rows(values[None, :], like=zeros(1, like), width=length, name=name)[0, :]


class CentredSample(NamedTuple):
    """A sample relative to its mean.

    Attributes
    ----------
    rows : ndarray of shape (m, d)
        The sample minus its mean, in double precision on the host.
    centre : array of shape (d,)
        The mean, in the library and precision of the sample.
    lag : ndarray of shape (d,)
        The true mean minus that rounded centre.
    """

    rows: Matrix
    centre: Array
    lag: Matrix

    @classmethod
    def of(cls, sample: Array) -> Self:
        """Centre a sample (m, d); the mean is taken in double precision."""
        sample = as_rows(sample, name="sample")
        xp = array_namespace(sample)
        mean = xp.mean(double(sample), axis=0)
        centre = xp.astype(mean, sample.dtype)
        lag = to_numpy(mean - double(centre))
        return cls(to_numpy(double(sample) - mean), centre, lag)

    def shift(self, vectors: Matrix) -> Matrix:
        """What (x - centre) . vectors has too much, compared with (x - mean) . vectors."""
        return -(self.lag @ vectors)


class PrincipalComponents(NamedTuple):
    """Principal components of a sample.

    Attributes
    ----------
    vectors : ndarray of shape (d, p)
        Orthonormal columns, largest variance first.
    values : ndarray of shape (m, p)
        The rows along them.
    """

    vectors: Matrix
    values: Matrix


def principal_components(rows: Matrix, most: int | None = None) -> PrincipalComponents:
    """The principal components of centred rows, none of them without variance.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        Rows minus their mean.
    most : int, optional
        Number of components at most.

    Returns
    -------
    PrincipalComponents
        The largest entry of each vector is positive.

    Raises
    ------
    InputError
        If the rows do not vary.

    Notes
    -----
    Costs m d^2 + d^3.
    """
    with one_blas_thread():
        variances, vectors = np.linalg.eigh(rows.T @ rows)
        variances, vectors = variances[::-1], vectors[:, ::-1]
        count = int(np.sum(variances > TOLERANCE * variances[0]))
        # equal rows may differ from their mean by its rounding; small squares have few digits
        if count == 0 or variances[0] < LEAST or not np.ptp(rows, axis=0).any():
            raise InputError(
                "all rows of sample are equal, or nearly 0: pass distinct rows, or scale them"
            )
        vectors = vectors[:, : count if most is None else min(most, count)]
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
        vectors = vectors * np.sign(largest)
        return PrincipalComponents(vectors, rows @ vectors)
