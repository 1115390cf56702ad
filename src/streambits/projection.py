"""From the directions of a sketch to the real values whose signs are the bits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from streambits._arrays import Array, array_namespace, device, double, nbytes

HOLD = 0.1  # how much stronger a new direction must be to replace an old one


class Directions(NamedTuple):
    """The leading directions of a sketch.

    vectors: (width, k), orthonormal columns, strongest first. energies: (k,), the mean squared
    length that a row has along each.
    """

    vectors: Array
    energies: Array


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

    @property
    def farthest(self) -> float:
        """The largest threshold in size."""
        return float(self._once("_farthest", lambda xp: xp.max(xp.abs(self.thresholds))))

    @property
    def basis(self) -> Array:
        """(width, bits) orthonormal columns that span the matrix's."""
        return self._once("_basis", lambda xp: xp.linalg.qr(self.matrix)[0])

    def _once(self, name: str, compute: Callable[[Any], Any]) -> Any:
        """Computed on first use. `cached_property` has a lock that does not survive a fork."""
        if name not in self.__dict__:
            self.__dict__[name] = compute(array_namespace(self.matrix))
        return self.__dict__[name]

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
    direction the same weight (PAPER-NOTES 4).
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
