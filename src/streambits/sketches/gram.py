"""The exact sum of A'A: the sketch for few features."""

from typing import Any, Self

import numpy as np
import scipy.linalg

from streambits._arrays import (
    Array,
    array_namespace,
    beside,
    double,
    is_numpy_array,
    move,
    nbytes,
    zeros,
)
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
PROBES = 8  # random directions beside those that subspace iteration starts from
NARROW = 4  # times as many columns as directions, below which an eigenproblem costs no more
STEPS = 3  # of it, at most
STEEP = 1e-8  # share of the largest energy below which rounding would leave no direction orthogonal
LITTLE, MUCH = 0.01, 0.125  # shares of the captured and of the missed energy that the last may gain
EPS = float(np.finfo(np.float64).eps)
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

    def prepare(self, rows: Array) -> Contribution:
        found = self._running.split(rows, single=self.single)
        scatter = double(found.body.T @ found.body)
        if self.single and self.centred:  # the mean was rounded before it was subtracted
            off = found.mean - double(array_namespace(rows).astype(found.mean, rows.dtype))
            scatter -= found.weight * off[:, None] * off[None, :]
        return found._replace(body=scatter)

    def _accumulate(self, contribution: Contribution, correction: Array) -> None:
        self._sum += contribution.body
        if correction.shape[0]:
            self._sum += correction.T @ correction
        if self.single:  # a sum of n products errs by about sqrt(n) units of its length
            self._rounding += contribution.rows**0.5 * EPS32 * _trace(contribution.body)

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

    @property
    def _aim(self) -> Array:
        """The matrix whose leading directions are sought."""
        return self._sum

    def directions(self, count: int, *, extra: int = 0) -> Directions:
        energies, vectors = _leading(self._aim, min(count + extra, self.width))
        rank = check_rank(energies, count, self.width * EPS)
        return Directions(vectors[:, :rank], energies[:rank] / self.weight)

    def directions_near(self, last: Array) -> Directions | None:
        """The leading directions, by subspace iteration from the last ones.

        Parameters
        ----------
        last : array of shape (width, k)
            Independent columns, usually the last projection.

        Returns
        -------
        Directions or None
            k of them. None where an eigenproblem is the way to find them: if width < 4 k, where it
            costs no more, or if the last of three steps still gains more than an eighth of the
            energy that was missed or a hundredth of that captured: they are far from `last` then.

        Notes
        -----
        A step is a product of width x width x k. Of directions of nearly equal energy, it leaves
        those that were there: codes change less than by an eigenproblem. Eight random directions
        take the same steps, so that a strong one orthogonal to all the last ones is noticed.
        """
        if self.width < NARROW * last.shape[1]:
            return None
        try:
            found = _near(self._aim, beside(last, self._sum))
        except (np.linalg.LinAlgError, RuntimeError):  # NumPy's and torch's, where rows lack rank
            return None
        if found is None or not float(found[0][-1]) > STEEP * float(found[0][0]):
            return None
        return Directions(found[1], found[0] / self.weight)

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


def _near(matrix: Array, start: Array) -> tuple[Array, Array] | None:
    """Leading eigenvalues and vectors of a matrix S, by subspace iteration, or None.

    In the span of S V, S is taken for its Nystroem approximation S V (V'S V)^-1 V'S: orthonormal
    vectors and their energies, a little too low for the weakest, without another product.
    """
    xp = array_namespace(matrix)
    width, count = start.shape
    probes = np.random.default_rng(0).standard_normal((width, min(PROBES, width - count)))
    trial = xp.concat([start, move(probes, matrix)], axis=1)
    total, captured = _trace(matrix), None
    for _ in range(STEPS):
        image = matrix @ trial
        inside = trial.T @ image
        if captured is None:
            captured = _trace(xp.linalg.solve(start.T @ start, inside[:count, :count]))
        half = xp.linalg.solve(xp.linalg.cholesky(inside), image.T)  # S is about half'half,
        inner = half @ half.T  # and the first rows are those of the first directions alone
        most = float(xp.sum(xp.linalg.eigvalsh(inner)[-count:]))
        allowed = min(LITTLE * most, MUCH * (total - captured))
        if most - captured <= max(allowed, width * EPS * total):
            energies, turn = (
                xp.flip(part, axis=-1) for part in xp.linalg.eigh(inner[:count, :count])
            )
            return energies, half[:count, :].T @ (turn / xp.sqrt(energies))
        trial, captured = half.T, _trace(inner[:count, :count])
    return None


def _trace(matrix: Array) -> float:
    xp = array_namespace(matrix)
    return float(xp.sum(xp.linalg.diagonal(matrix)))
