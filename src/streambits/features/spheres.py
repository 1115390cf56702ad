"""Which of k balls a row lies in (spherical hashing)."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, array_namespace, as_count, as_rows, as_seed, beside, double
from streambits._threads import one_blas_thread
from streambits.features.forms import Forms, OnForms, relative_noise, unit, vector
from streambits.features.principal import centred

STEPS = 50  # of the balancing, at most: where it does not settle, pivots drift off for ever
CROWD = 5  # rows whose mean is a first pivot
EVEN, SPREAD = 0.10, 0.15  # of a quarter of the rows: the mean and the deviation to stop at


class Spheres(OnForms):
    """x -> radius_j^2 - |x - pivot_j|^2: positive inside ball j.

    The squares are expanded, so n rows cost one product of n x d x k. A common offset of all rows
    costs no precision, since the centre is subtracted first.

    pivots: (k, d), relative to the centre; radii: (k,); centre: (d,), zeros by default, whose
    precision and library rows are brought to.

    >>> Spheres(np.array([[0.0, 0.0]]), np.array([1.0]))(np.array([[0.5, 0.0], [0.0, 2.0]]))
    array([[ 0.75], [-3. ]])
    """

    def __init__(self, pivots: Array, radii: Array, centre: Array = None) -> None:
        pivots = as_rows(pivots, name="pivots")
        xp = array_namespace(pivots)
        centre = xp.zeros_like(pivots[0, :]) if centre is None else centre
        self.pivots = double(pivots)
        self.radii = vector(radii, pivots, pivots.shape[0], "radii")
        squares = self.radii**2 - xp.vecdot(self.pivots, self.pivots)
        self._forms = Forms(2 * self.pivots.T, squares, centre)

    @classmethod
    def balanced(cls, sample: Array, count: int, seed: int | np.random.Generator = 0) -> Self:
        """Balls that hold half of `sample` each, and a quarter in every two (Heo et al. 2012).

        Pivots that share too many rows push each other apart, those that share too few pull, until
        the shared rows are a quarter up to 10 % on average and 15 % in deviation; at most 50
        steps. Costs m d k + m k^2 a step.
        """
        centred_sample, count = centred(sample), as_count(count, "count")
        rng = np.random.default_rng(as_seed(seed))
        crowd = max(1, min(CROWD, len(centred_sample.rows) // 4))
        first = np.array([_mean_of_some(centred_sample.rows, crowd, rng) for _ in range(count)])
        with one_blas_thread():
            pivots = _spread_out(centred_sample.rows, first)
            radii = np.sqrt(np.median(_squares(centred_sample.rows, pivots), axis=0))
        centre = centred_sample.centre
        return cls(beside(pivots + centred_sample.lag, centre), beside(radii, centre), centre)

    @property
    def nbytes(self) -> int:
        held = (self.inputs + 1) * self.width * 8
        return self._forms.nbytes + held

    def __call__(self, rows: Array) -> Array:
        xp = array_namespace(rows)
        relative = self._forms.relative(rows)
        with np.errstate(over="ignore"):  # what overflows is done again
            squares = xp.vecdot(relative, relative)
        if rows.dtype == xp.float32 and not bool(xp.all(xp.isfinite(squares))):
            return self(double(rows))
        return self._forms(rows) - squares[:, None]

    def noise(self, rows: Array, features: Array) -> Array:
        """The error of the product, and that of the square, which is the same in every column."""
        xp = array_namespace(rows)
        product = self._forms.error(rows, xp.ones_like(self.radii))
        square = (2 * self.inputs**0.5 + 4) * unit(rows) * double(self._forms.reach(rows)) ** 2
        return relative_noise(product + square * self.width**0.5, features)

    def on(self, like: Array) -> Self:
        return self.from_state({name: beside(part, like) for name, part in self.state().items()})

    def state(self) -> dict[str, Any]:
        return {"pivots": self.pivots, "radii": self.radii, "centre": self.centre}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)

    def __repr__(self) -> str:
        return f"Spheres({self.width} in {self.inputs} columns)"


Matrix = NDArray[np.float64]


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
    squares = np.vecdot(rows, rows)[:, None] + np.vecdot(pivots, pivots) - 2 * rows @ pivots.T
    return np.asarray(np.maximum(squares, 0))
