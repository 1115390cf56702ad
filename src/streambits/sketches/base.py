"""What every sketch promises, and the two small things that sketches share."""

from typing import Any, NamedTuple, Protocol, Self

from streambits._arrays import Array, array_namespace, double, zeros
from streambits.errors import MergeError, RankError
from streambits.projection import Directions


class Part(NamedTuple):
    """What a sketch takes from a block: the number of rows, their mean, and what lies around it."""

    rows: int
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
    def learns(self) -> bool:
        """Whether rows change its directions."""

    @property
    def seen(self) -> int:
        """Rows it has taken."""

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
    """The number of rows seen and, if `tracked`, their running mean."""

    def __init__(self, width: int, like: Array, *, tracked: bool) -> None:
        self.tracked = tracked
        self.seen = 0
        self.mean = zeros(width, like)

    def split(self, rows: Array, *, single: bool = False) -> Part:
        """The mean of rows where it is tracked, and the rows relative to it.

        single: in the precision of the rows; otherwise in double precision.
        """
        xp = array_namespace(rows)
        rows = rows if single else double(rows)
        if not self.tracked:
            return Part(rows.shape[0], self.mean, rows)
        mean = xp.sum(rows, axis=0, dtype=xp.float64) / rows.shape[0]
        return Part(rows.shape[0], mean, rows - xp.astype(mean, rows.dtype, copy=False))

    def absorb(self, count: int, mean: Array) -> Array:
        """Move to the common mean; gives the row (1, width) that makes the scatters add up.

        With n rows around a and c rows around b, the scatter around the common mean is the sum of
        both plus n c / (n + c) (a - b)(a - b)'. The step of incremental PCA.
        """
        before, self.seen = self.seen, self.seen + count
        if not (self.tracked and self.seen):
            return self.mean[None, :][:0, :]
        step = mean - self.mean
        self.mean = self.mean + step * (count / self.seen)
        if not (before and count):  # nothing to reconcile: no row, so that fresh() changes nothing
            return self.mean[None, :][:0, :]
        return step[None, :] * (before * count / self.seen) ** 0.5

    def copy(self) -> "Centre":
        return self.restored(self.seen, self.mean)

    def restored(self, seen: int, mean: Array) -> "Centre":
        """The same kind of centre at another place."""
        new = Centre(mean.shape[0], mean, tracked=self.tracked)
        new.seen, new.mean = seen, mean
        return new


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
            f"{rank}: ask for at most {rank} bits, learn more rows or pass more landmarks"
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
