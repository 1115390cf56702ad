"""The exact sum of A'A: the sketch for few features."""

from typing import Any, Self

import numpy as np
import scipy.linalg

from streambits._arrays import (
    Array,
    array_namespace,
    as_choice,
    double,
    is_numpy_array,
    move,
    nbytes,
    to_device_of,
    to_numpy,
    zeros,
)
from streambits._device import is_cuda, products
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
PROBES = 8  # random directions beside those that subspace iteration starts from
NARROW = 4  # times as many columns as directions, below which an eigenproblem costs no more
STEPS = 3  # of it, at most
STEEP = 1e-8  # share of the largest energy below which rounding would leave no direction orthogonal
LITTLE, MUCH = 0.01, 0.125  # shares of the captured and of the missed energy that the last may gain
EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)
TF32 = 2.0**-9  # twice the unit of rounding of factors of 11 bits, of which a product has two
MOST, MOST_THERE = 1024, 4096  # columns up to which the test of precision pays, and on a device
PRECISIONS = ("double", "single", "tf32")
PART = 4096  # rows that are multiplied at a time on a device
WIDE = 400  # columns from which only what is above the diagonal is multiplied there


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
    precision : {"double", "single", "tf32"}, default "double"
        Of the products of float32 rows. "single": block by block, and blocks are summed in double:
        twice as fast, and the certificate is then a bound on the rounding. `single_suffices` says
        whether that does any harm. "tf32": on an NVIDIA GPU factors are rounded to 11 bits, which
        is several times as fast again, and the certificate grows by it; elsewhere as "single".
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
        precision: str = "double",
        like: Array = None,
    ) -> None:
        like = np.zeros(1) if like is None else like
        super().__init__(width, like, centred=centred, half_life=half_life)
        self.precision = as_choice(precision, "precision", PRECISIONS)
        self._rounding: Array = 0.0  # on a device a number there, which nobody waits for
        self._sum = zeros((self.width, self.width), like)

    @property
    def single(self) -> bool:
        """Whether products are in single precision, or less."""
        return self.precision != "double"

    @property
    def capacity(self) -> int:
        return self.width

    @property
    def certificate(self) -> float:
        return float(self._rounding)

    @property
    def nbytes(self) -> int:
        return nbytes(self._sum, self.mean)

    def fresh(self) -> Self:
        return type(self)(
            self.width,
            centred=self.centred,
            half_life=self.half_life,
            precision=self.precision,
            like=self._sum,
        )

    def prepare(self, rows: Array, *, overwrite: bool = False) -> Contribution:
        """Do the heavy half of an update; with `overwrite`, float32 rows of NumPy may change."""
        if not is_numpy_array(rows):
            return self._prepare_there(rows)
        own = self.single and isinstance(rows, np.ndarray) and rows.dtype == np.float32
        if own and not (overwrite and rows.flags.carray):
            held = scratch("centred", rows.shape, np.float32)
            held[:] = rows
            rows = held
        found = self._running.split(rows, single=self.single, own=own)
        return found._replace(body=found.body.T @ found.body)

    def _prepare_there(self, rows: Array) -> Contribution:
        """On a device: products of parts, above the diagonal, summed in double precision."""
        xp, (count, width) = array_namespace(rows), rows.shape
        single = self.single and rows.dtype == xp.float32
        found = self._running.split(rows, single=single, part=PART)
        whole, scatter = count - count % PART, zeros((width, width), rows)
        parts = [xp.reshape(found.body[:whole, :], (-1, PART, width)), found.body[None, whole:, :]]
        step = width if width < WIDE else max(256, -(-width // 512) * 128)
        for part in (part for part in parts if part.shape[0] * part.shape[1]):
            for low in range(0, width, step):
                high = min(low + step, width)
                with products(rows, self.precision):
                    product = xp.matrix_transpose(part[:, :, low:high]) @ part[:, :, low:]
                scatter[low:high, low:] += xp.sum(product, axis=0, dtype=xp.float64)
        if step < width:
            scatter = xp.triu(scatter) + xp.triu(scatter, k=1).T
        if single and self.centred:
            off = found.mean - double(xp.astype(found.mean, rows.dtype))
            scatter = scatter - found.weight * off[:, None] * off[None, :]
        return found._replace(body=scatter)

    def _accumulate(self, contribution: Contribution, correction: Array) -> None:
        body = contribution.body
        if isinstance(body, np.ndarray) and body.dtype == np.float32:
            step = correction[0] if len(correction) else np.zeros(self.width)
            trace: Array = add_scatter(self._sum, body, step)
        else:
            trace = _trace(body)
            self._sum += double(body)
            if correction.shape[0]:
                self._sum += correction.T @ correction
        if self.single:
            self._rounding = self._rounding + self._rounding_of(contribution, trace)

    def _rounding_of(self, contribution: Contribution, trace: Array) -> Array:
        """What rounding does to the sum: on a device a number there, which nobody waits for.

        A sum of n products errs by about sqrt(n) units of its length, and rounded factors by one.
        """
        if not is_numpy_array(contribution.body):
            unit = TF32 if self.precision == "tf32" and is_cuda(contribution.body) else 0.0
            return (min(contribution.rows, PART) ** 0.5 * EPS32 + unit) * trace
        mean = contribution.mean  # which was rounded before it was subtracted
        shift = contribution.weight * (EPS32 / 2) ** 2 * float(mean @ mean)
        return contribution.rows**0.5 * EPS32 * float(trace) + shift

    def _scale(self, factor: float) -> None:
        self._sum *= factor
        self._rounding *= factor

    def merge(self, other: Self) -> None:
        """Add the sums: exact, as if all rows had come to one sketch."""
        check_mergeable(self, other, "width", "centred", "half_life", "precision")
        rounding = self._rounding + other._rounding
        self._combine(Contribution(other.seen, other.weight, other.mean, other._sum))
        self._rounding = rounding

    @property
    def matrix(self) -> Array:
        """A'A of all rows seen, of shape (width, width)."""
        return array_namespace(self._sum).asarray(self._sum, copy=True)

    def captured(self, basis: Array, energies: Array = None) -> float:
        """The share of all energy in the span of orthonormal columns (width, k).

        Where they are its own directions, their energies save a product of width x width x k.
        """
        if energies is None or self._aim is not self._sum:
            xp = array_namespace(basis)
            along = float(xp.sum(basis * (self._sum @ basis)))
        else:
            along = self.weight * float(array_namespace(energies).sum(energies))
        return along / max(float(_trace(self._sum)), SMALLEST)

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
            found = _near(self._aim, to_device_of(last, self._sum))
        except (np.linalg.LinAlgError, RuntimeError):  # NumPy's and torch's, where rows lack rank
            return None
        if found is None or not float(found[0][-1]) > STEEP * float(found[0][0]):
            return None
        return Directions(found[1], found[0] / self.weight)

    def state(self) -> dict[str, Any]:
        return {
            "centre": self._running.state(),
            "precision": self.precision,
            "rounding": self.certificate,
            "sum": array_namespace(self._sum).asarray(self._sum, copy=True),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        running = RunningMean.from_state(state["centre"])
        self = cls(
            running.mean.shape[0],
            centred=running.tracked,
            half_life=running.half_life,
            precision=state["precision"],
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
        more than 1024 columns, on a device 4096.
    """
    xp = array_namespace(rows)
    most = MOST if is_numpy_array(rows) else MOST_THERE
    if rows.dtype != xp.float32 or not count <= rows.shape[1] <= most:
        return False
    gram = Gram(rows.shape[1], like=rows)
    gram.update(rows)
    matrix = gram.matrix
    return _count_above(matrix, SINGLE * float(_trace(matrix))) >= count


def _count_above(matrix: Array, bound: float) -> int:
    """How many eigenvalues of a symmetric matrix exceed a bound.

    On NumPy by Sylvester's law of inertia: as many as a factorisation L D L' of matrix - bound I
    has positive ones in D, whose blocks of two have one each. A third of the time of eigenvalues.
    """
    if not is_numpy_array(matrix):
        values = array_namespace(matrix).linalg.eigvalsh(matrix)
        return int((to_numpy(values) > bound).sum())
    shifted = np.array(matrix, order="F")
    np.fill_diagonal(shifted, np.diagonal(shifted) - bound)
    factors, pivots, _ = scipy.linalg.lapack.dsytrf(shifted, lower=1, overwrite_a=1)
    alone = pivots > 0  # or negative, twice for each block of two
    return int((~alone).sum() // 2 + (np.diagonal(factors)[alone] > 0).sum())


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
    total, captured = float(_trace(matrix)), None
    for _ in range(STEPS):
        image = matrix @ trial
        inside = trial.T @ image
        if captured is None:
            captured = float(_trace(xp.linalg.solve(start.T @ start, inside[:count, :count])))
        half = xp.linalg.inv(xp.linalg.cholesky(inside)) @ image.T  # S is about half'half,
        inner = half @ half.T  # and the first rows are those of the first directions alone
        most = float(xp.sum(xp.linalg.eigvalsh(inner)[-count:]))
        allowed = min(LITTLE * most, MUCH * (total - captured))
        if most - captured <= max(allowed, width * EPS * total):
            energies, turn = (
                xp.flip(part, axis=-1) for part in xp.linalg.eigh(inner[:count, :count])
            )
            return energies, half[:count, :].T @ (turn / xp.sqrt(energies))
        trial, captured = half.T, float(_trace(inner[:count, :count]))
    return None


def _trace(matrix: Array) -> Array:
    """Of no dimension: on a device nobody waits for it."""
    xp = array_namespace(matrix)
    return xp.sum(xp.linalg.diagonal(matrix))
