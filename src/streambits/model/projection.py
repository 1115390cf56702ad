"""From the directions of a sketch to the real values whose signs are the bits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from streambits._arrays import Array, array_namespace, beside, device, double, nbytes
from streambits._threads import cached
from streambits.model.rotations import (
    ease,
    itq_rotation,
    procrustes,
    random_rotation,
    uniform_diagonal,
)
from streambits.sketches import Directions, Sketch

HOLD = 0.1  # how much stronger a new direction must be to replace an old one


@dataclass(frozen=True)
class Projection:
    """features -> features . matrix - thresholds; the bits are the signs.

    matrix: (width, bits); thresholds: (bits,).
    """

    matrix: Array
    thresholds: Array

    @property
    def bits(self) -> int:
        return int(self.matrix.shape[1])

    @cached
    def farthest(self) -> float:
        """The largest threshold."""
        xp = array_namespace(self.thresholds)
        return float(xp.max(xp.abs(self.thresholds)))

    @cached
    def basis(self) -> Array:
        """(width, bits) orthonormal columns that span the matrix's."""
        return array_namespace(self.matrix).linalg.qr(self.matrix)[0]

    @property
    def nbytes(self) -> int:
        return nbytes(self.matrix, self.thresholds)

    def state(self) -> dict[str, Any]:
        return {"matrix": self.matrix, "thresholds": self.thresholds}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(double(state["matrix"]), double(state["thresholds"]))

    def __call__(self, features: Array) -> Array:
        """(n, width) to (n, bits), in the precision of the features."""
        xp = array_namespace(features)
        matrix = xp.astype(self.matrix, features.dtype, copy=False)
        return features @ matrix - xp.astype(self.thresholds, features.dtype, copy=False)


def orient(directions: Directions) -> Directions:
    """Turn every direction so that its largest entry is positive.

    The sign of an eigenvector is any library's whim; without it, the same rows give the same codes
    with any linear algebra, up to rounding.
    """
    xp = array_namespace(directions.vectors)
    up = xp.max(directions.vectors, axis=0) >= -xp.min(directions.vectors, axis=0)
    ones = xp.ones_like(directions.energies)
    return directions._replace(vectors=directions.vectors * xp.where(up, ones, -ones))


def whiten(directions: Directions, exponent: float) -> Array:
    """Divide direction i by s_i ** exponent, s_i the root of its energy.

    0 leaves the geometry of W^2 (the paper), 0.5 gives that of the kernel W itself, 1 gives every
    direction the same weight (paper-notes 4).
    """
    return directions.vectors / directions.energies ** (exponent / 2)


def hold(directions: Directions, last: Array) -> Directions:
    """Of more directions than the last projection had, as many as it had, preferring its own.

    Directions of nearly equal energy trade places with every new row, and codes change for
    nothing. So those in the span of `last` (width, bits) count as if they had a tenth of the
    weakest kept energy more: a direction must be stronger by that much to replace one.
    """
    xp = array_namespace(last)
    bits, energies = last.shape[1], directions.energies
    inside = directions.vectors.T @ xp.linalg.qr(last)[0]
    favoured = _diagonal(energies) + HOLD * energies[bits - 1] * (inside @ inside.T)
    chosen = xp.flip(xp.linalg.eigh(favoured)[1], axis=1)[:, :bits]
    energies, turn = xp.linalg.eigh(chosen.T @ (energies[:, None] * chosen))
    vectors = directions.vectors @ (chosen @ xp.flip(turn, axis=1))
    return Directions(vectors, xp.flip(energies, axis=0))


def _diagonal(values: Array) -> Array:
    xp = array_namespace(values)
    return xp.eye(values.shape[0], dtype=values.dtype, device=device(values)) * values


Sample = Callable[[Array], Array]  # from a matrix (width, k) to the sample's values along it


class Fitting(NamedTuple):
    """How a projection is fitted; the fields are `Learner`'s."""

    bits: int
    whitening: float
    rotation: str
    seed: int

    def __call__(self, sketch: Sketch, sample: Sample, last: Projection | None) -> Projection:
        """The projection of a sketch; turned to match the last one, if there is one."""
        extra = 0 if last is None else self.bits // 2
        directions = orient(sketch.directions(self.bits, extra=extra))
        if last is not None:
            directions = hold(directions, beside(last.matrix, directions.vectors))
        whitened = whiten(directions, self.whitening)

        def values(matrix: Array) -> Array:
            return sample(matrix) - sketch.mean @ matrix

        if last is None:
            matrix = whitened @ self._turn(directions, whitened, values)
        else:
            matrix = whitened @ self._turn_back(directions, whitened, values, last)
        return Projection(matrix, sketch.mean @ matrix)

    def _turn(self, directions: Directions, whitened: Array, values: Sample) -> Array:
        """A new rotation (bits, bits)."""
        xp = array_namespace(whitened)
        if self.rotation == "random":
            return random_rotation(self.bits, whitened, self.seed)
        if self.rotation == "itq":
            return itq_rotation(values(whitened), self.seed)
        if self.rotation == "uniform":
            return uniform_diagonal(directions.energies ** (1 - self.whitening))
        return xp.eye(self.bits, dtype=whitened.dtype, device=device(whitened))

    def _turn_back(
        self, directions: Directions, whitened: Array, values: Sample, last: Projection
    ) -> Array:
        """The rotation that comes closest to the last projection."""
        weights = directions.energies ** (1 - self.whitening / 2)
        before = beside(last.matrix, whitened)
        turn = procrustes(weights[:, None] * (directions.vectors.T @ before))
        return ease(values(whitened), turn) if self.rotation == "itq" else turn
