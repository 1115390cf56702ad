"""What every sketch promises, and the two small things that sketches share."""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from streambits._arrays import Array, array_namespace, as_count, as_number, device, double, zeros
from streambits.errors import MergeError, RankError

TINY = 1e-24  # of the largest entry


class Directions(NamedTuple):
    """The leading directions of a sketch.

    vectors: (width, k), orthonormal columns, strongest first. energies: (k,), the mean squared
    length that a row has along each.
    """

    vectors: Array
    energies: Array


class Part(NamedTuple):
    """What a sketch takes from a block of rows.

    rows: how many; weight: what they count for together, the last one 1; mean: theirs;
    body: what lies around it.
    """

    rows: int
    weight: float
    mean: Array
    body: Array


class Sketch(Protocol):
    """A small summary B of all feature rows A seen so far; memory is fixed at construction.

    A monoid: `fresh()` is empty, `update` adds rows, `merge` adds another sketch. `prepare` may run
    on any thread, `absorb` takes its results in the order of the stream; `update` is one after the
    other. A centred sketch summarises the rows minus their mean, a raw one the rows.
    """

    @property
    def width(self) -> int:
        """Columns of the rows it takes."""

    @property
    def capacity(self) -> int:
        """The most directions it can ever give."""

    @property
    def half_life(self) -> float | None:
        """Rows after which a row counts half; None: it counts 1 for ever."""

    @property
    def learns(self) -> bool:
        """Whether rows change its directions."""

    @property
    def seen(self) -> int:
        """Rows it has taken."""

    @property
    def weight(self) -> float:
        """What they count for together: as many, or fewer with a half-life."""

    @property
    def mean(self) -> Array:
        """(width,) mean of the rows, where it is tracked; zeros in a raw sketch."""

    @property
    def certificate(self) -> float:
        """Delta with ||A'A - B'B|| <= Delta; Frequent Directions never overstate: A'A >= B'B."""

    @property
    def nbytes(self) -> int:
        """Bytes it holds, constant from construction."""

    def fresh(self) -> Self:
        """An empty sketch of the same settings."""

    def copy(self) -> Self:
        """A sketch that goes its own way from here."""

    def fade(self, rows: int) -> None:
        """Age by that many rows: what was seen counts less, if there is a half-life."""

    def stand_for(self, seen: int, weight: float) -> None:
        """Count from now on for that many rows of that weight: what was taken is a sample."""

    def prepare(self, rows: Array) -> Part:
        """The heavy half of an update; changes nothing."""

    def absorb(self, part: Part) -> None:
        """The other half."""

    def update(self, rows: Array) -> None:
        """Take rows (n, width)."""

    def merge(self, other: Self) -> None:
        """Take all that another sketch has seen."""

    def directions(self, count: int, *, extra: int = 0) -> Directions:
        """The leading directions, or a RankError if there are not as many.

        extra: that many more, as far as there are.
        """

    def state(self) -> dict[str, Any]:
        """What `from_state` needs to go on from here."""

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The sketch that `state` came from."""


class Centre:
    """The rows seen, what they count for and, if `tracked`, their running mean.

    half_life: rows after which a row counts half; None: it counts 1 for ever.
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
        """What a row counts for when that many have followed it."""
        return 1.0 if self.half_life is None else 0.5 ** (rows / self.half_life)

    def split(self, rows: Array, *, single: bool = False) -> Part:
        """The mean of rows where it is tracked, and the rows relative to it, weighted by age.

        single: in the precision of the rows; otherwise in double precision.
        """
        xp = array_namespace(rows)
        rows = rows if single else double(rows)
        count = rows.shape[0]
        weights, total = self._weights(rows), float(count)
        if weights is not None:
            total = float(xp.sum(weights))
        mean = self.mean
        if self.tracked:
            summed = rows if weights is None else rows * xp.astype(weights, rows.dtype)[:, None]
            mean = xp.sum(summed, axis=0, dtype=xp.float64) / total
            rows = rows - xp.astype(mean, rows.dtype, copy=False)
        if weights is not None:
            rows = rows * xp.astype(xp.sqrt(weights), rows.dtype)[:, None]
        return Part(count, total, mean, rows)

    def _weights(self, rows: Array) -> Array | None:
        """(n,) what each row counts for at the end of the block, or None for 1."""
        if self.half_life is None:
            return None
        xp = array_namespace(rows)
        ages = xp.arange(rows.shape[0] - 1, -1, -1, dtype=xp.float64, device=device(rows))
        return 0.5 ** (ages / self.half_life)

    def absorb(self, part: Part) -> Array:
        """Move to the common mean; gives the row (1, width) that makes the scatters add up.

        With weight n around a and c around b, the scatter around the common mean is the sum of
        both plus n c / (n + c) (a - b)(a - b)'. The step of incremental PCA; no row where one side
        is empty.
        """
        before, self.weight = self.weight, self.weight + part.weight
        self.seen += part.rows
        if not (self.tracked and self.weight > 0):
            return self.mean[None, :][:0, :]
        step = part.mean - self.mean
        self.mean = self.mean + step * (part.weight / self.weight)
        if not (before > 0 and part.weight > 0):
            return self.mean[None, :][:0, :]
        return step[None, :] * (before * part.weight / self.weight) ** 0.5

    def state(self) -> dict[str, Any]:
        names = ("tracked", "half_life", "seen", "weight", "mean")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Centre":
        mean, half_life = state["mean"], state["half_life"]
        self = cls(mean.shape[0], mean, tracked=state["tracked"], half_life=half_life)
        self.seen, self.weight, self.mean = state["seen"], state["weight"], mean
        return self


class Centred:
    """What sketches around a running mean share; a sketch adds `_take` and `_scale`."""

    learns = True

    def __init__(
        self, width: int, like: Array, *, centred: bool, half_life: float | None = None
    ) -> None:
        self.width = as_count(width, "width")
        self.centred = bool(centred)
        if half_life is not None:
            half_life = as_number(half_life, "half_life", least=1)
        self.half_life = half_life
        self._centre = Centre(self.width, like, tracked=self.centred, half_life=half_life)

    @property
    def seen(self) -> int:
        return self._centre.seen

    @property
    def weight(self) -> float:
        return self._centre.weight

    @property
    def mean(self) -> Array:
        return self._centre.mean

    def prepare(self, rows: Array) -> Part:
        return self._centre.split(rows)

    def absorb(self, part: Part) -> None:
        self.fade(part.rows)
        self._add(part)

    def update(self, rows: Array) -> None:
        self.absorb(self.prepare(rows))

    def fade(self, rows: int) -> None:
        factor = self._centre.fading(rows)
        if factor != 1:
            self._centre.weight *= factor
            self._scale(factor)

    def stand_for(self, seen: int, weight: float) -> None:
        if self.weight > 0:
            self._scale(weight / self.weight)
        self._centre.seen, self._centre.weight = seen, weight

    def _add(self, part: Part) -> None:
        """Take a part at the same age."""
        self._take(part, self._centre.absorb(part))

    def _take(self, part: Part, shift: Array) -> None:
        raise NotImplementedError

    def _scale(self, factor: float) -> None:
        raise NotImplementedError


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and vectors of a symmetric matrix, whatever its range.

    Where entries span hundreds of orders of magnitude, LAPACK's iteration may not converge; those
    far below the rounding error of the largest are then taken for zero.
    """
    xp = array_namespace(matrix)
    try:
        energies, vectors = xp.linalg.eigh(matrix)
    except np.linalg.LinAlgError:
        far_below = xp.abs(matrix) < TINY * xp.max(xp.abs(matrix))
        energies, vectors = xp.linalg.eigh(xp.where(far_below, xp.zeros_like(matrix), matrix))
    return energies, vectors


def check_rank(energies: Array, count: int, tolerance: float) -> int:
    """The number of directions above rounding; fewer than `count` is an error."""
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
    """Refuse to merge what did not start from the same settings."""
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
