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
    to_numpy,
    zeros,
)
from streambits._threads import scratch
from streambits.kernels.moments import add_scatter
from streambits.sketches.base import (
    SMALLEST,
    CentredSketch,
    Contribution,
    Directions,
    RunningMean,
    check_mergeable,
    check_rank,
)

SINGLE = 1e-5  # share of all energy above which a direction is safe in single precision
EPS32 = float(np.finfo(np.float32).eps)
MOST = 1024  # columns up to which the test of precision pays


class Gram(CentredSketch):
    """A'A itself, summed in double precision: exact, certificate 0.

    Parameters
    ----------
    width : int
        Number of columns of the rows.
    centred : bool, default True
        Sum around the mean.
    half_life : float, optional
        Number of rows after which a row counts half.
    single : bool, default False
        Multiply float32 rows in single precision, block by block, and sum the blocks in double:
        twice as fast, and the certificate is then a bound on the rounding. `single_suffices` says
        whether that does any harm.
    like : array, optional
        The sketch is held in the library and on the device of this array; NumPy by default.

    Notes
    -----
    Memory is width^2; a row costs width^2 / 2 multiplications. Cheaper than Frequent Directions
    while the features are few (`sketches.auto`).

    Examples
    --------
    >>> sketch = Gram(2)
    >>> sketch.update(np.array([[0.0, 1.0], [4.0, 1.0]]))
    >>> sketch.matrix.tolist(), sketch.mean.tolist(), sketch.directions(1).energies.tolist()
    ([[8.0, 0.0], [0.0, 0.0]], [2.0, 1.0], [4.0])
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

    def prepare(self, rows: Array, *, overwrite: bool = False) -> Contribution:
        """Do the heavy half of an update; with `overwrite`, float32 rows of NumPy may change."""
        own = self.single and isinstance(rows, np.ndarray) and rows.dtype == np.float32
        if own and not (overwrite and rows.flags.carray):
            held = scratch("centred", rows.shape, np.float32)
            held[:] = rows
            rows = held
        found = self._running.split(rows, single=self.single, own=own)
        return found._replace(body=found.body.T @ found.body)

    def _accumulate(self, contribution: Contribution, correction: Array) -> None:
        body = contribution.body
        if isinstance(body, np.ndarray) and body.dtype == np.float32:
            step = correction[0] if len(correction) else np.zeros(self.width)
            trace = add_scatter(self._sum, body, step)
        else:
            trace = _trace(body)
            self._sum += double(body)
            if correction.shape[0]:
                self._sum += correction.T @ correction
        if self.single:  # a sum of n products errs by about sqrt(n) units of its length
            mean = contribution.mean  # which was rounded before it was subtracted
            length = float(array_namespace(mean).vecdot(mean, mean))
            self._rounding += contribution.rows**0.5 * EPS32 * trace
            self._rounding += contribution.weight * (EPS32 / 2) ** 2 * length

    def _scale(self, factor: float) -> None:
        self._sum *= factor
        self._rounding *= factor

    def merge(self, other: Self) -> None:
        """Add the sums: exact, as if all rows had come to one sketch."""
        check_mergeable(self, other, "width", "centred", "half_life", "single")
        rounding = self._rounding + other._rounding
        self._combine(Contribution(other.seen, other.weight, other.mean, other._sum))
        self._rounding = rounding

    @property
    def matrix(self) -> Array:
        """A'A of all rows seen, of shape (width, width)."""
        return array_namespace(self._sum).asarray(self._sum, copy=True)

    def captured(self, basis: Array) -> float:
        """The share of all energy in the span of orthonormal columns (width, k)."""
        xp = array_namespace(basis)
        return float(xp.sum(basis * (self._sum @ basis))) / max(_trace(self._sum), SMALLEST)

    def directions(self, count: int, *, extra: int = 0) -> Directions:
        return self._directions_of(self._sum, count, extra)

    def _directions_of(self, matrix: Array, count: int, extra: int) -> Directions:
        energies, vectors = _leading(matrix, min(count + extra, self.width))
        tolerance = self.width * float(np.finfo(np.float64).eps)
        rank = check_rank(energies, count, tolerance)
        return Directions(vectors[:, :rank], energies[:rank] / self.weight)

    def state(self) -> dict[str, Any]:
        return {
            "centre": self._running.state(),
            "single": self.single,
            "rounding": self._rounding,
            "sum": array_namespace(self._sum).asarray(self._sum, copy=True),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        running = RunningMean.from_state(state["centre"])
        self = cls(
            running.mean.shape[0],
            centred=running.tracked,
            half_life=running.half_life,
            single=state["single"],
            like=state["sum"],
        )
        self._restore(state, running)
        return self

    def _restore(self, state: dict[str, Any], running: RunningMean) -> None:
        self._running, self._sum, self._rounding = running, state["sum"], state["rounding"]


def single_suffices(rows: Array, count: int) -> bool:
    """Whether products in single precision leave the leading directions of such rows intact.

    Parameters
    ----------
    rows : array of shape (n, width)
        Feature rows like those to come.
    count : int
        Number of directions that will be read.

    Returns
    -------
    bool
        True if the energy of direction `count` is at least 1e-5 of the total: rounding in single
        precision moves energies by about 1e-8 of it. False for rows in double precision and for
        more than 1024 columns.
    """
    xp = array_namespace(rows)
    if rows.dtype != xp.float32 or not count <= rows.shape[1] <= MOST:
        return False
    gram = Gram(rows.shape[1], like=rows)
    gram.update(rows)
    matrix = gram.matrix
    return _count_above(matrix, SINGLE * _trace(matrix)) >= count


def _count_above(matrix: Array, bound: float) -> int:
    """How many eigenvalues of a symmetric matrix exceed a bound.

    On NumPy by Sylvester's law of inertia: as many as a factorisation L D L' of matrix - bound I
    has positive ones in D, whose blocks of two have one each. A third of the time of eigenvalues.
    """
    if not is_numpy_array(matrix):
        values = array_namespace(matrix).linalg.eigvalsh(matrix)
        return int((to_numpy(values) > bound).sum())
    _, blocks, _ = scipy.linalg.ldl(matrix - bound * np.eye(len(matrix)))
    pairs = np.diagonal(blocks, 1) != 0
    alone = ~(np.append(pairs, False) | np.append(False, pairs))
    return int(pairs.sum() + (np.diagonal(blocks)[alone] > 0).sum())


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
