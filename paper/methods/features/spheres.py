"""Which of k balls a row lies in (spherical hashing)."""

from typing import Any, Self

import numpy as np

from paper.methods.features.affine import (
    AffineFeatures,
    AffineMap,
    CentredSample,
    Matrix,
    checked_vector,
    relative_noise,
    rounding_unit,
)
from streambits._arrays import (
    Array,
    array_namespace,
    as_count,
    as_rows,
    as_seed,
    double,
    squared_distances,
    to_device_of,
)
from streambits._threads import one_blas_thread

STEPS = 50  # of the balancing, at most: where it does not settle, pivots drift off for ever
CROWD = 5  # rows whose mean is a first pivot
EVEN, SPREAD = 0.10, 0.15  # of a quarter of the rows: the mean and the deviation to stop at


class Spheres(AffineFeatures):
    """x -> radius_j^2 - |x - pivot_j|^2: positive inside ball j.

    Parameters
    ----------
    pivots : array of shape (k, d)
        Middles of the balls, relative to the centre.
    radii : array of shape (k,)
        Their radii.
    centre : array of shape (d,), optional
        Subtracted from the rows, which are brought to its precision and library; zeros by default.

    Notes
    -----
    The squares are expanded, so n rows cost one product of n x d x k. A common offset of all rows
    costs no precision, since the centre is subtracted first.

    Examples
    --------
    >>> Spheres(np.array([[0.0, 0.0]]), np.array([1.0]))(np.array([[0.5, 0.0], [0.0, 2.0]]))
    array([[ 0.75], [-3. ]])
    """

    def __init__(self, pivots: Array, radii: Array, centre: Array = None) -> None:
        pivots = as_rows(pivots, name="pivots")
        xp = array_namespace(pivots)
        centre = xp.zeros_like(pivots[0, :]) if centre is None else centre
        self.pivots = double(pivots)
        self.radii = checked_vector(radii, pivots, pivots.shape[0], "radii")
        squares = self.radii**2 - xp.vecdot(self.pivots, self.pivots)
        self._affine = AffineMap(2 * self.pivots.T, squares, centre)

    @classmethod
    def balanced(cls, sample: Array, count: int, seed: int | np.random.Generator = 0) -> Self:
        """Fit balls that hold half of `sample` each, and a quarter in every two.

        Parameters
        ----------
        sample : array of shape (m, d)
            Rows like those to come.
        count : int
            Number of balls.
        seed : int or Generator, default 0
            Of the rows from which the pivots start.

        Notes
        -----
        Pivots that share too many rows push each other apart, those that share too few pull, until
        the shared rows are a quarter up to 10 % on average and 15 % in deviation; at most 50
        steps. A step costs m d k + m k^2.

        References
        ----------
        Heo, Lee, He, Chang & Yoon, "Spherical Hashing", CVPR 2012.
        """
        around, count = CentredSample.of(sample), as_count(count, "count")
        rng = np.random.default_rng(as_seed(seed))
        crowd = max(1, min(CROWD, len(around.rows) // 4))
        first = np.array([_mean_of_some(around.rows, crowd, rng) for _ in range(count)])
        with one_blas_thread():
            pivots = _spread_out(around.rows, first)
            radii = np.sqrt(np.median(_squares(around.rows, pivots), axis=0))
        centre = around.centre
        return cls(to_device_of(pivots + around.lag, centre), to_device_of(radii, centre), centre)

    @property
    def nbytes(self) -> int:
        held = (self.inputs + 1) * self.width * 8
        return self._affine.nbytes + held

    def __call__(self, rows: Array) -> Array:
        xp = array_namespace(rows)
        relative = self._affine.relative(rows)
        with np.errstate(over="ignore"):  # what overflows is done again
            squares = xp.vecdot(relative, relative)
        if rows.dtype == xp.float32 and not bool(xp.all(xp.isfinite(squares))):
            return self(double(rows))
        return self._affine(rows) - squares[:, None]

    def noise(self, rows: Array, features: Array) -> Array:
        """The error of the product, and that of the square, which is the same in every column."""
        xp = array_namespace(rows)
        product = self._affine.error(rows, xp.ones_like(self.radii))
        square = (
            (2 * self.inputs**0.5 + 4) * rounding_unit(rows) * double(self._affine.reach(rows)) ** 2
        )
        return relative_noise(product + square * self.width**0.5, features)

    def state(self) -> dict[str, Any]:
        return {"pivots": self.pivots, "radii": self.radii, "centre": self.centre}

    def __repr__(self) -> str:
        return f"Spheres({self.width} in {self.inputs} columns)"


def _mean_of_some(rows: Matrix, count: int, rng: np.random.Generator) -> Matrix:
    return np.asarray(rows[rng.choice(len(rows), count, replace=False)].mean(axis=0))


def _spread_out(rows: Matrix, pivots: Matrix) -> Matrix:
    """Move the pivots until every two balls share about a quarter of the rows."""
    quarter, count = len(rows) / 4, len(pivots)
    pairs = np.triu_indices(count, 1)
    for _ in range(STEPS if count > 1 else 0):
        squares = _squares(rows, pivots)
        inside = (squares <= np.median(squares, axis=0)).astype(np.float64)
        excess = (inside.T @ inside - quarter) / quarter
        if np.abs(excess[pairs]).mean() <= EVEN and excess[pairs].std() <= SPREAD:
            break
        np.fill_diagonal(excess, 0)
        forces = excess.sum(axis=1)[:, None] * pivots - excess @ pivots
        pivots = pivots + forces / (2 * count)
    return pivots


def _squares(rows: Matrix, pivots: Matrix) -> Matrix:
    return np.maximum(squared_distances(rows, pivots), 0)
