"""Directions that the stream does not change."""

from typing import Any, Self

from streambits._arrays import Array, array_namespace, as_rows, double, nbytes, same
from streambits.errors import MergeError, RankError
from streambits.sketches.base import Contribution, Directions, Sketch, check_mergeable


class Fixed:
    """Directions that are set once; rows are counted and nothing else.

    Parameters
    ----------
    vectors : array of shape (width, k)
        The directions, one per column, strongest first.
    energies : array of shape (k,), optional
        In descending order; ones by default.
    mean : array of shape (width,), optional
        What a row is measured from; zeros by default.

    Notes
    -----
    There is no summary B of the rows, so there is nothing that a certificate could bound: it is 0
    and says only that the directions are exactly those that were set.

    Examples
    --------
    >>> import numpy as np
    >>> sketch = Fixed(np.eye(3)[:, :2])
    >>> sketch.update(np.ones((5, 3)))
    >>> sketch.seen, sketch.directions(1).vectors.ravel().tolist()
    (5, [1.0, 0.0, 0.0])
    """

    learns = False
    half_life: float | None = None

    def __init__(self, vectors: Array, energies: Array = None, mean: Array = None) -> None:
        self.vectors = double(as_rows(vectors, name="vectors"))
        xp = array_namespace(self.vectors)
        width, count = self.vectors.shape
        energies = xp.ones_like(self.vectors[0, :]) if energies is None else energies
        self.energies = _vector(energies, self.vectors, count, "energies")
        mean = xp.zeros_like(self.vectors[:, 0]) if mean is None else mean
        self.mean = _vector(mean, self.vectors, width, "mean")
        self.seen = 0

    @classmethod
    def of(cls, sketch: Sketch, count: int) -> Self:
        """Freeze the leading directions that a sketch has now."""
        return cls(*sketch.directions(count), mean=sketch.mean)

    @property
    def width(self) -> int:
        return int(self.vectors.shape[0])

    @property
    def capacity(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def weight(self) -> float:
        return float(self.seen)

    @property
    def certificate(self) -> float:
        return 0.0

    @property
    def nbytes(self) -> int:
        return nbytes(self.vectors, self.energies, self.mean)

    def fresh(self) -> Self:
        return type(self)(self.vectors, self.energies, self.mean)

    def copy(self) -> Self:
        return self.from_state(self.state())

    def prepare(self, rows: Array) -> Contribution:
        return Contribution(rows.shape[0], rows.shape[0], self.mean, None)

    def fade(self, rows: int) -> None:
        """Directions do not age."""

    def stand_for(self, seen: int, _weight: float) -> None:
        self.seen = seen

    def absorb(self, contribution: Contribution) -> None:
        self.seen += contribution.rows

    def update(self, rows: Array) -> None:
        self.absorb(self.prepare(rows))

    def merge(self, other: Self) -> None:
        check_mergeable(self, other, "width")
        if not same(self.vectors, other.vectors):
            raise MergeError("the fixed directions differ: build both shards with the same seed")
        self.seen += other.seen

    def captured(self, basis: Array) -> float:  # noqa: ARG002 - rows change nothing
        return 1.0

    def directions(self, count: int, *, extra: int = 0) -> Directions:
        available = self.vectors.shape[1]
        if count > available:
            raise RankError(f"there are {available} fixed directions, and {count} were asked for")
        count = min(count + extra, available)
        return Directions(self.vectors[:, :count], self.energies[:count])

    def directions_near(self, last: Array) -> Directions | None:  # noqa: ARG002 - none moves
        return None

    def state(self) -> dict[str, Any]:
        names = ("vectors", "energies", "mean", "seen")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        self = cls(state["vectors"], state["energies"], state["mean"])
        self.seen = state["seen"]
        return self


def _vector(values: Array, like: Array, length: int, name: str) -> Array:
    """Check one value per direction, or per column."""
    row = values[None, :] if hasattr(values, "shape") else [values]
    return as_rows(row, like=like, width=length, name=name)[0, :]
