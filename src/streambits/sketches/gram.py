"""The exact sum of A'A: the sketch for few features."""

from typing import Any, Self

import numpy as np
import scipy.linalg

from streambits._arrays import (
    Array,
    array_namespace,
    double,
    is_numpy_array,
    nbytes,
    zeros,
)
from streambits.sketches.base import Centre, Centred, Directions, Part, check_mergeable, check_rank

SINGLE = 1e-5  # share of all energy above which a direction is safe in single precision
EPS32 = float(np.finfo(np.float32).eps)
MOST = 1024  # columns up to which looking pays


class Gram(Centred):
    """A'A itself, summed in double precision: exact, certificate 0.

    Memory width^2; a row costs width^2 / 2 multiplications. Cheaper than Frequent Directions
    while the features are few (`sketches.auto`).

    width: columns of the rows; centred: sum around the mean; half_life: rows after which a row
    counts half (None: never).
    single: multiply float32 rows in single precision, block by block, and sum the blocks in
    double: twice as fast, and the certificate is then a bound on the rounding
    (`single_suffices` tells whether that does any harm).
    """

    def __init__(
        self,
        width: int,
        *,
        centred: bool = True,
        half_life: float | None = None,
        single: bool = False,
        like: Array = None,
    ) -> None:
        like = np.zeros(1) if like is None else like
        super().__init__(width, like, centred=centred, half_life=half_life)
        self.single = bool(single)
        self._rounding = 0.0
        self._sum = zeros((self.width, self.width), like)

    @property
    def capacity(self) -> int:
        return self.width

    @property
    def certificate(self) -> float:
        return self._rounding

    @property
    def nbytes(self) -> int:
        return nbytes(self._sum, self.mean)

    def fresh(self) -> Self:
        return type(self)(
            self.width,
            centred=self.centred,
            half_life=self.half_life,
            single=self.single,
            like=self._sum,
        )

    def copy(self) -> Self:
        return self.from_state(self.state())

    def prepare(self, rows: Array) -> Part:
        part = self._centre.split(rows, single=self.single)
        scatter = double(part.body.T @ part.body)
        if self.single and self.centred:  # the mean was rounded before it was subtracted
            off = part.mean - double(array_namespace(rows).astype(part.mean, rows.dtype))
            scatter -= part.weight * off[:, None] * off[None, :]
        return part._replace(body=scatter)

    def _take(self, part: Part, shift: Array) -> None:
        self._sum += part.body
        if shift.shape[0]:
            self._sum += shift.T @ shift
        if self.single:  # a sum of n products errs by about sqrt(n) units of its length
            self._rounding += part.rows**0.5 * EPS32 * _trace(part.body)

    def _scale(self, factor: float) -> None:
        self._sum *= factor
        self._rounding *= factor

    def merge(self, other: Self) -> None:
        check_mergeable(self, other, "width", "centred", "half_life", "single")
        rounding = self._rounding + other._rounding
        self._add(Part(other.seen, other.weight, other.mean, other._sum))
        self._rounding = rounding

    @property
    def matrix(self) -> Array:
        """(width, width): A'A of all rows seen."""
        return array_namespace(self._sum).asarray(self._sum, copy=True)

    def directions(self, count: int, *, extra: int = 0) -> Directions:
        energies, vectors = _leading(self._sum, min(count + extra, self.width))
        tolerance = self.width * float(np.finfo(np.float64).eps)
        rank = check_rank(energies, count, tolerance)
        return Directions(vectors[:, :rank], energies[:rank] / self.weight)

    def state(self) -> dict[str, Any]:
        return {
            "centre": self._centre.state(),
            "single": self.single,
            "rounding": self._rounding,
            "sum": array_namespace(self._sum).asarray(self._sum, copy=True),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        centre = Centre.from_state(state["centre"])
        self = cls(
            centre.mean.shape[0],
            centred=centre.tracked,
            half_life=centre.half_life,
            single=state["single"],
            like=state["sum"],
        )
        self._centre, self._sum, self._rounding = centre, state["sum"], state["rounding"]
        return self


def single_suffices(rows: Array, count: int) -> bool:
    """Whether products in single precision leave the leading directions of such rows intact.

    rows: (n, width) feature rows. True if the energy of direction `count` is at least 1e-5 of the
    total: rounding in single precision moves energies by about 1e-8 of it.
    """
    xp = array_namespace(rows)
    if rows.dtype != xp.float32 or not count <= rows.shape[1] <= MOST:
        return False
    gram = Gram(rows.shape[1], like=rows)
    gram.update(rows)
    energies, _ = _leading(gram.matrix, count)
    return float(energies[-1]) > SINGLE * _trace(gram.matrix)


def _leading(matrix: Array, count: int) -> tuple[Array, Array]:
    """The largest eigenvalues and their vectors, largest first."""
    xp = array_namespace(matrix)
    if is_numpy_array(matrix):  # only the leading ones: half the time of all
        size = matrix.shape[0]
        energies, vectors = scipy.linalg.eigh(matrix, subset_by_index=[size - count, size - 1])
    else:
        energies, vectors = xp.linalg.eigh(matrix)
    return xp.flip(energies, axis=0)[:count], xp.flip(vectors, axis=1)[:, :count]


def _trace(matrix: Array) -> float:
    xp = array_namespace(matrix)
    return float(xp.sum(xp.linalg.diagonal(matrix)))
