"""Fitting: from what a sketch knows to the projection of a coder."""

from collections.abc import Callable
from typing import NamedTuple

from streambits._arrays import Array, array_namespace, beside, device
from streambits.projection import Directions, Projection, hold, orient, whiten
from streambits.rotations import ease, itq, procrustes, random_rotation, uniform_diagonal
from streambits.sketches import Sketch

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
            return itq(values(whitened), self.seed)
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
