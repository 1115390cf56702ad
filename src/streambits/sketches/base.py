"""What every sketch promises, and what sketches around a running mean share."""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from streambits._arrays import Array, array_namespace, as_count, as_number, device, double, zeros
from streambits.errors import MergeError, RankError
from streambits.kernels.moments import centre

TINY = 1e-24  # of the largest entry
SMALLEST = 1e-300  # energy by which others are divided


class Directions(NamedTuple):
    """The leading directions of a sketch.

    Attributes
    ----------
    vectors : array of shape (width, k)
        Orthonormal columns, strongest first.
    energies : array of shape (k,)
        Mean squared length that a row has along each of them.
    """

    vectors: Array
    energies: Array


class Contribution(NamedTuple):
    """What a block of rows adds to a sketch.

    Attributes
    ----------
    rows : int
        Number of rows in the block.
    weight : float
        What they count for together; the last row counts 1.
    mean : array of shape (width,)
        Their weighted mean where the sketch tracks one.
    body : array or None
        The rows relative to that mean, or their scatter: what the kind of sketch adds up.
    """

    rows: int
    weight: float
    mean: Array
    body: Array


class Sketch(Protocol):
    """A small summary B of all feature rows A seen so far.

    Notes
    -----
    Memory is fixed at construction. Sketches are a monoid: `fresh()` is empty, `update` adds rows,
    `merge` adds another sketch. An update is `prepare`, which may run on any thread, followed by
    `absorb`, which takes the results in the order of the stream. A centred sketch summarises the
    rows minus their mean, a raw one the rows. `tests/conformance` tests all of it; a sketch that
    has an attribute `matrix` (B, or A'A itself in a `Gram`) is tested against A'A.
    """

    @property
    def width(self) -> int:
        """Number of columns of the rows."""

    @property
    def capacity(self) -> int:
        """Largest number of directions it can ever give."""

    @property
    def half_life(self) -> float | None:
        """Number of rows after which a row counts half; None if it counts 1 for ever."""

    @property
    def learns(self) -> bool:
        """Whether rows change its directions."""

    @property
    def seen(self) -> int:
        """Number of rows seen."""

    @property
    def weight(self) -> float:
        """What the rows count for together: their number, or less with a half-life."""

    @property
    def mean(self) -> Array:
        """Mean of the rows, of shape (width,), where it is tracked; zeros in a raw sketch."""

    @property
    def certificate(self) -> float:
        """Delta with 0 <= A'A - B'B <= Delta I; infinity where nothing is guaranteed."""

    @property
    def nbytes(self) -> int:
        """Bytes it holds, constant from construction."""

    def fresh(self) -> Self:
        """Return an empty sketch of the same settings."""

    def copy(self) -> Self:
        """Return an independent sketch of the same content."""

    def fade(self, rows: int) -> None:
        """Age by a number of rows: with a half-life, everything seen counts less."""

    def stand_for(self, seen: int, weight: float) -> None:
        """Rescale: this sketch was built from a sample and now represents `seen` rows."""

    def prepare(self, rows: Array) -> Contribution:
        """Do the heavy half of an update of rows (n, width); changes nothing."""

    def absorb(self, contribution: Contribution) -> None:
        """Do the other half of an update."""

    def update(self, rows: Array) -> None:
        """Add rows of shape (n, width)."""

    def merge(self, other: Self) -> None:
        """Add everything that another sketch has seen; a MergeError if the settings differ."""

    def captured(self, basis: Array) -> float:
        """Return the share of all energy in the span of orthonormal columns (width, k)."""

    def directions(self, count: int, *, extra: int = 0) -> Directions:
        """Return `count` leading directions, and up to `extra` more as far as there are.

        A RankError if the rows seen have fewer than `count` independent directions.
        """

    def directions_near(self, last: Array) -> Directions | None:
        """Return as many leading directions as `last` (width, k) has columns, found from these.

        None if that is no faster than `directions`, or if they have moved too far for it.
        """

    def state(self) -> dict[str, Any]:
        """Return what `from_state` needs: arrays and plain values."""

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the sketch that `state` came from."""


class RunningMean:
    """Number, weight and, if `tracked`, mean of the rows seen.

    Parameters
    ----------
    width : int
        Number of columns of the rows.
    like : array
        The mean is held in the library and on the device of this array.
    tracked : bool
        Whether the mean follows the rows; otherwise it stays zero.
    half_life : float, optional
        Number of rows after which a row counts half.
    """

    def __init__(
        self, width: int, like: Array, *, tracked: bool, half_life: float | None = None
    ) -> None:
        self.tracked = tracked
        self.half_life = half_life
        self.seen = 0
        self.weight = 0.0
        self.mean = zeros(width, like)

    def fading(self, rows: int) -> float:
        """Return what a row counts for when that many have followed it."""
        return 1.0 if self.half_life is None else 0.5 ** (rows / self.half_life)

    def split(
        self, rows: Array, *, single: bool = False, own: bool = False, part: int | None = None
    ) -> Contribution:
        """Split rows into their mean, where it is tracked, and the rows relative to it.

        Parameters
        ----------
        rows : array of shape (n, width)
            One block of the stream.
        single : bool, default False
            Work in the precision of the rows; otherwise in double precision.
        own : bool, default False
            Whether the rows are float32 of NumPy, in C order, and may be overwritten.
        part : int, optional
            Sum so many rows at a time in the precision of the rows, and these sums in double.

        Returns
        -------
        Contribution
            Its body holds the rows relative to the mean, weighted by age.
        """
        xp = array_namespace(rows)
        rows = rows if single else double(rows)
        count = rows.shape[0]
        weights, total = self._weights(rows), float(count)
        if own and single and self.tracked and weights is None:
            mean = np.empty(rows.shape[1])
            centre(rows, mean)
            return Contribution(count, total, mean, rows)
        if weights is not None:
            total = float(xp.sum(weights))
        mean = self.mean
        if self.tracked:
            summed = rows if weights is None else rows * xp.astype(weights, rows.dtype)[:, None]
            mean = _sum(summed, part) / total
            rows = rows - xp.astype(mean, rows.dtype, copy=False)
        if weights is not None:
            rows = rows * xp.astype(xp.sqrt(weights), rows.dtype)[:, None]
        return Contribution(count, total, mean, rows)

    def _weights(self, rows: Array) -> Array | None:
        """(n,) what each row counts for at the end of the block, or None for 1."""
        if self.half_life is None:
            return None
        xp = array_namespace(rows)
        ages = xp.arange(rows.shape[0] - 1, -1, -1, dtype=xp.float64, device=device(rows))
        return 0.5 ** (ages / self.half_life)

    def absorb(self, contribution: Contribution) -> Array:
        """Move to the common mean, as in incremental PCA.

        Parameters
        ----------
        contribution : Contribution
            Rows, weight and mean of a block, or of another sketch.

        Returns
        -------
        array of shape (0 or 1, width)
            The row that makes the scatters add up: with weight n around a and c around b, the
            scatter around the common mean is the sum of both plus n c / (n + c) (a - b)(a - b)'.
            There is none where one side is empty.
        """
        before, self.weight = self.weight, self.weight + contribution.weight
        self.seen += contribution.rows
        if not (self.tracked and self.weight > 0):
            return self.mean[None, :][:0, :]
        step = contribution.mean - self.mean
        self.mean = self.mean + step * (contribution.weight / self.weight)
        if not (before > 0 and contribution.weight > 0):
            return self.mean[None, :][:0, :]
        return step[None, :] * (before * contribution.weight / self.weight) ** 0.5

    def state(self) -> dict[str, Any]:
        names = ("tracked", "half_life", "seen", "weight", "mean")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "RunningMean":
        mean, half_life = state["mean"], state["half_life"]
        self = cls(mean.shape[0], mean, tracked=state["tracked"], half_life=half_life)
        self.seen, self.weight, self.mean = state["seen"], state["weight"], mean
        return self


def _sum(rows: Array, part: int | None) -> Array:
    """Sums (width,) of columns, in double precision but for the rows of a part."""
    xp, (count, width) = array_namespace(rows), rows.shape
    if part is None or count < part:
        return xp.sum(rows, axis=0, dtype=xp.float64)
    whole = count - count % part
    sums = xp.sum(xp.reshape(rows[:whole, :], (-1, part, width)), axis=1)
    return xp.sum(sums, axis=0, dtype=xp.float64) + _sum(rows[whole:, :], None)


class CentredSketch:
    """Base of sketches around a running mean; a subclass adds `_accumulate` and `_scale`.

    Parameters
    ----------
    width : int
        Number of columns of the rows.
    like : array
        The sketch is held in the library and on the device of this array.
    centred : bool
        Whether the rows are summarised relative to their mean.
    half_life : float, optional
        Number of rows after which a row counts half; at least 1.
    """

    learns = True

    def __init__(
        self, width: int, like: Array, *, centred: bool, half_life: float | None = None
    ) -> None:
        self.width = as_count(width, "width")
        self.centred = bool(centred)
        if half_life is not None:
            half_life = as_number(half_life, "half_life", least=1)
        self.half_life = half_life
        self._running = RunningMean(self.width, like, tracked=self.centred, half_life=half_life)

    @property
    def seen(self) -> int:
        return self._running.seen

    @property
    def weight(self) -> float:
        return self._running.weight

    @property
    def mean(self) -> Array:
        return self._running.mean

    def prepare(self, rows: Array) -> Contribution:
        return self._running.split(rows)

    def absorb(self, contribution: Contribution) -> None:
        self.fade(contribution.rows)
        self._combine(contribution)

    def update(self, rows: Array) -> None:
        self.absorb(self.prepare(rows))

    def fade(self, rows: int) -> None:
        factor = self._running.fading(rows)
        if factor != 1:
            self._running.weight *= factor
            self._scale(factor)

    def stand_for(self, seen: int, weight: float) -> None:
        if self.weight > 0:
            self._scale(weight / self.weight)
        self._running.seen, self._running.weight = seen, weight

    def copy(self) -> Self:
        return self.from_state(self.state())

    def directions_near(self, last: Array) -> Directions | None:  # noqa: ARG002 - of no use here
        return None

    def _combine(self, contribution: Contribution) -> None:
        """Add a contribution of the same age."""
        self._accumulate(contribution, self._running.absorb(contribution))

    def _accumulate(self, contribution: Contribution, correction: Array) -> None:
        """Add the body, and the rows (0 or 1, width) that correct the mean."""
        raise NotImplementedError

    def _scale(self, factor: float) -> None:
        """Multiply all squared lengths by a factor."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        raise NotImplementedError


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and vectors of a symmetric matrix, whatever its range.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric and finite.

    Returns
    -------
    eigenvalues : array of shape (n,)
        In ascending order.
    vectors : array of shape (n, n)
        One per column.

    Notes
    -----
    Where entries span hundreds of orders of magnitude, LAPACK's iteration may not converge;
    entries far below the rounding error of the largest then count as zero.
    """
    xp = array_namespace(matrix)
    try:
        energies, vectors = xp.linalg.eigh(matrix)
    except np.linalg.LinAlgError:
        far_below = xp.abs(matrix) < TINY * xp.max(xp.abs(matrix))
        energies, vectors = xp.linalg.eigh(xp.where(far_below, xp.zeros_like(matrix), matrix))
    return energies, vectors


def check_rank(energies: Array, count: int, tolerance: float) -> int:
    """Return the number of directions above rounding, of which at least `count` must exist.

    Parameters
    ----------
    energies : array of shape (k,)
        Of all directions that there may be.
    count : int
        Number of directions that are needed.
    tolerance : float
        Share of the largest energy below which there is nothing but rounding.

    Returns
    -------
    int
        Number of energies above the tolerance.

    Raises
    ------
    RankError
        If there are fewer than `count`.
    """
    xp = array_namespace(energies)
    strongest = float(xp.max(energies)) if energies.shape[0] else 0.0
    rank = (
        int(xp.sum(xp.astype(energies > tolerance * strongest, xp.int64))) if strongest > 0 else 0
    )
    if count > rank:
        raise RankError(
            f"{count} bits need {count} independent directions, and the rows seen so far have "
            f"{rank}: ask for at most {rank} bits, learn more rows or, if there are landmarks, "
            f"pass more"
        )
    return rank


def check_mergeable(left: object, right: object, *names: str) -> None:
    """Raise a MergeError if two objects differ in type or in one of the named attributes."""
    if type(left) is not type(right):
        kinds = f"{type(left).__name__} and {type(right).__name__}"
        raise MergeError(f"{kinds} do not merge: build both shards with the same settings")
    for name in names:
        mine, theirs = getattr(left, name), getattr(right, name)
        if mine != theirs:
            raise MergeError(
                f"{name} is {mine!r} here and {theirs!r} there: "
                f"build both shards with the same settings"
            )
