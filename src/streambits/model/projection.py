"""From the directions of a sketch to the real values whose signs are the bits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from streambits._arrays import Array, array_namespace, device, double, nbytes, to_device_of, zeros
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
    """An affine map from features to values whose signs are the bits: f . matrix - thresholds.

    Parameters
    ----------
    matrix : array of shape (width, bits)
    thresholds : array of shape (bits,)
    """

    matrix: Array
    thresholds: Array

    @property
    def bits(self) -> int:
        """Number of columns."""
        return int(self.matrix.shape[1])

    @cached
    def farthest(self) -> float:
        """The largest absolute value of the thresholds."""
        xp = array_namespace(self.thresholds)
        return float(xp.max(xp.abs(self.thresholds)))

    @cached
    def basis(self) -> Array:
        """Orthonormal columns (width, bits) that span those of the matrix."""
        return array_namespace(self.matrix).linalg.qr(self.matrix)[0]

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return nbytes(self.matrix, self.thresholds)

    def state(self) -> dict[str, Any]:
        """Return both arrays by name, for `from_state`."""
        return {"matrix": self.matrix, "thresholds": self.thresholds}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a projection from what `state` returned, in double precision."""
        return cls(double(state["matrix"]), double(state["thresholds"]))

    def __call__(self, features: Array) -> Array:
        """Map features (n, width) to values (n, bits), in the precision of the features."""
        xp = array_namespace(features)
        matrix = xp.astype(self.matrix, features.dtype, copy=False)
        return features @ matrix - xp.astype(self.thresholds, features.dtype, copy=False)


def orient(directions: Directions) -> Directions:
    """Flip every direction so that its largest entry is positive.

    The sign of an eigenvector is arbitrary and depends on the library. With this, the same rows
    give the same codes with any linear algebra, up to rounding.
    """
    xp = array_namespace(directions.vectors)
    up = xp.max(directions.vectors, axis=0) >= -xp.min(directions.vectors, axis=0)
    ones = xp.ones_like(directions.energies)
    return directions._replace(vectors=directions.vectors * xp.where(up, ones, -ones))


def whiten(directions: Directions, exponent: float) -> Array:
    """Divide direction i by s_i ** exponent, s_i the root of its energy.

    Parameters
    ----------
    directions : Directions
        Vectors (width, k) and energies (k,).
    exponent : float
        0 leaves the geometry of W^2 (the paper), 0.5 gives that of the kernel W itself, 1 gives
        every direction the same weight (docs/paper-notes.md, 4).

    Returns
    -------
    array of shape (width, k)
    """
    return directions.vectors / directions.energies ** (exponent / 2)


def hold(directions: Directions, last: Array) -> Directions:
    """Select as many directions as the last projection had, preferring its own.

    Directions of nearly equal energy trade places with every new row, and codes change for
    nothing. So those in the span of `last` count as if they had a tenth of the weakest kept energy
    more: a direction must be stronger by that much to replace one.

    Parameters
    ----------
    directions : Directions
        More of them than `bits`.
    last : array of shape (width, bits)
        The matrix of the last projection.

    Returns
    -------
    Directions
        `bits` of them, by falling energy.
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


class Fitted(NamedTuple):
    """A projection, orthonormal columns (width, bits) that span those of its matrix, and energies.

    These are the sketch's along the columns, a little too low where directions have moved.
    """

    projection: Projection
    basis: Array
    energies: Array

    def on(self, like: Array) -> "Fitted":
        """Return the same in the library and on the device of `like`; only energies stay."""
        matrix, thresholds, basis = (
            to_device_of(part, like)
            for part in (self.projection.matrix, self.projection.thresholds, self.basis)
        )
        return Fitted(Projection(matrix, thresholds), basis, self.energies)


Sample = Callable[[Array], Array]  # from a matrix (width, k) to the sample's values along it


def no_directions(features: Any) -> Fitted:
    """A projection to no values at all, for codes without sign bits."""
    nothing = zeros((features.width, 0), features.like)
    return Fitted(Projection(nothing, nothing[0, :]), nothing, nothing[0, :])


class Fitting(NamedTuple):
    """The fitting of a projection to a sketch.

    Parameters
    ----------
    bits, whitening, rotation, seed
        As for `Learner`.
    """

    bits: int
    whitening: float
    rotation: str
    seed: int

    def __call__(self, sketch: Sketch, sample: Sample, last: Projection | None) -> Fitted:
        """Fit a projection.

        Parameters
        ----------
        sketch : Sketch
        sample : callable
            From a matrix (width, k) to the values of the sample along its columns.
        last : Projection or None
            The projection to match, if there is one.

        Returns
        -------
        Fitted
        """
        directions = self._directions(sketch, last)
        whitened = whiten(directions, self.whitening)

        def values(matrix: Array) -> Array:
            return sample(matrix) - sketch.mean @ matrix

        if last is None:
            matrix = whitened @ self._turn(directions, whitened, values)
        else:
            matrix = whitened @ self._turn_back(directions, whitened, values, last)
        return Fitted(Projection(matrix, sketch.mean @ matrix), *directions)

    def _directions(self, sketch: Sketch, last: Projection | None) -> Directions:
        """The leading directions; later ones from the last, if these have not moved far."""
        if last is None:
            return orient(sketch.directions(self.bits))
        near = sketch.directions_near(last.matrix)
        if near is not None:
            return near
        directions = orient(sketch.directions(self.bits, extra=self.bits // 2))
        return hold(directions, to_device_of(last.matrix, directions.vectors))

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
        before = to_device_of(last.matrix, whitened)
        turn = procrustes(weights[:, None] * (directions.vectors.T @ before))
        return ease(values(whitened), turn) if self.rotation == "itq" else turn
