"""Coder: the frozen, shippable half of a learner."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    array_namespace,
    as_rows,
    beside,
    blocks,
    frozen,
    is_numpy_array,
    take,
    to_numpy,
)
from streambits._threads import cached, ordered_map
from streambits.features import Features
from streambits.model.codes import Codes
from streambits.model.projection import Projection

BLOCK = 2048  # rows encoded at a time
DEVICE_BLOCK = 65536  # the same for arrays that do not live on the host


class Coder:
    """code(x) = pack(sign(features(x) . matrix - thresholds)).

    A row has the same code alone and in any batch, with any number of threads, on the host and on
    a device: the few bits that lie within the rounding error are decided again in double
    precision, and those that are in doubt even there are decided with the row on its own.

    Costs n (d m + m bits) multiplications and n m exponentials; memory 2048 x m a thread.
    """

    def __init__(self, features: Features, projection: Projection, epoch: int = 0) -> None:
        self.features = features
        self.projection = projection
        self.epoch = epoch
        self._single, self._double = _unit(projection)

    @property
    def bits(self) -> int:
        return self.projection.bits

    @property
    def nbytes(self) -> int:
        projections = (self.projection, self._single, self._double)
        return self.features.nbytes + sum(projection.nbytes for projection in projections)

    def encode(self, rows: Array) -> Codes:
        """The codes of rows (n, d)."""
        packed = ordered_map(self.packed, self._blocks(rows))
        return Codes(frozen(np.concatenate(list(packed))), self.bits, self.epoch)

    def project(self, rows: Array) -> Array:
        """The real values (n, bits) whose signs are the bits, for asymmetric search."""
        blocks = list(ordered_map(self._values, self._blocks(rows)))
        return array_namespace(blocks[0]).concat(blocks, axis=0)

    def _blocks(self, rows: Array) -> list[Array]:
        rows = as_rows(rows, like=self.features.like, width=self.features.inputs)
        return blocks(rows, BLOCK if is_numpy_array(rows) else DEVICE_BLOCK)

    def _values(self, rows: Array) -> Array:
        return self.projection(self.features(rows))

    def packed(self, rows: Array, features: Array = None) -> NDArray[np.uint8]:
        """The codes (n, bytes) of one block of checked rows; features: theirs, where known."""
        return np.packbits(self._bits(rows, features), axis=1, bitorder="little")

    def _bits(self, rows: Array, features: Array = None) -> NDArray[np.bool_]:
        """Signs, with those within the rounding error decided again one level more exactly."""
        values, error = self._measured(rows, features)
        xp = array_namespace(values)
        bits: NDArray[np.bool_] = to_numpy(values > 0)
        unsure = np.flatnonzero(to_numpy(xp.min(xp.abs(values), axis=1) <= error))
        if len(unsure):
            doubtful = to_numpy(take(rows, unsure))
            bits = np.array(bits)  # the library may have handed out read-only memory
            judge = self if is_numpy_array(rows) else self._host
            bits[unsure] = judge._decided_again(doubtful)
        return bits

    def _measured(self, rows: Array, features: Array = None) -> tuple[Array, Array]:
        """Values along directions of length one, and (n,) bounds on their rounding errors.

        A sum of m rounded products errs by about sqrt(m) units of the length of its terms.
        """
        features = self.features(rows) if features is None else features
        xp = array_namespace(features)
        unit = self._single if features.dtype == xp.float32 else self._double
        rounding = float(xp.finfo(features.dtype).eps) / 2
        relative = self.features.noise(rows, features) + 2 * features.shape[1] ** 0.5 * rounding
        length = xp.sqrt(xp.vecdot(features, features))
        return unit(features), length * relative + 4 * rounding * unit.farthest

    def _decided_again(self, rows: Array) -> NDArray[np.bool_]:
        if rows.dtype == np.float32:
            return self._bits(rows.astype(np.float64))
        return np.concatenate([self._measured(row[None, :])[0] > 0 for row in rows])

    @cached
    def _host(self) -> "Coder":
        """The twin on the host, for a coder on a device."""
        return self.on(np.zeros(1))

    def on(self, like: Array) -> "Coder":
        """The same coder with its arrays in the library and on the device of `like`.

        It gives the same codes there, bit for bit.
        """
        projection = Projection(
            beside(self.projection.matrix, like), beside(self.projection.thresholds, like)
        )
        return Coder(self.features.on(like), projection, self.epoch)

    def state(self) -> dict[str, Any]:
        return {"features": self.features, "epoch": self.epoch} | self.projection.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(state["features"], Projection.from_state(state), state["epoch"])

    def __repr__(self) -> str:
        return f"Coder({self.bits} bits, epoch {self.epoch}, {self.features!r})"


def _unit(projection: Projection) -> tuple[Projection, Projection]:
    """The projection with columns of length one, which leaves the signs, in both precisions."""
    xp = array_namespace(projection.matrix)
    length = xp.sqrt(xp.sum(projection.matrix**2, axis=0))
    matrix, thresholds = projection.matrix / length, projection.thresholds / length
    single = Projection(xp.astype(matrix, xp.float32), xp.astype(thresholds, xp.float32))
    return single, Projection(matrix, thresholds)
