"""Signs of projected affinities by compiled code: the bits of a coder, in fewer passes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._threads import scratch
from streambits.features import Affinities, GaussianAffinity
from streambits.kernels import affinity as kernels
from streambits.model.projection import Projection

UNIT = 2.0**-24  # of rounding, in single precision
SMALL_BATCH_ROWS = 8  # rows up to which one compiled call is faster than BLAS


class Fused:
    """From rows on the host to packed signs.

    Parameters
    ----------
    features : GaussianAffinity
        On NumPy.
    projection : Projection
        With columns of length one, in double precision.
    reach : float
        An affinity; rows that have less to every landmark are left to others by `few`.
    """

    def __init__(self, features: GaussianAffinity, projection: Projection, reach: float) -> None:
        self._features = features
        flat, steep = features.error
        matrix, levels = projection.matrix, projection.thresholds
        self._signs = kernels.Signs(
            np.ascontiguousarray(matrix, np.float32),
            levels.astype(np.float32),
            np.array(matrix.T, order="C"),
            np.array(levels),
            flat,
            steep,
            2 * features.width**0.5 * UNIT,
            4 * UNIT * projection.farthest,
            reach,
        )
        self._bytes = -(-projection.bits // 8)

    @property
    def nbytes(self) -> int:
        """Bytes held beside the features."""
        return sum(array.nbytes for array in self._signs[:4])

    def measured(self, rows: NDArray[Any]) -> Affinities | None:
        """Affinities of a block of checked rows, or None: `GaussianAffinity.measured`."""
        return self._features.measured(rows)

    def packed(self, rows: NDArray[Any], found: Affinities) -> NDArray[np.uint8]:
        """Packed signs (n, bytes) of checked rows with these affinities."""
        signs = self._signs
        shape = (len(rows), len(signs.levels))
        values = np.matmul(found.features, signs.matrix, out=scratch("values", shape, np.float32))
        packed, errors = np.empty((len(rows), self._bytes), np.uint8), np.empty_like(found.squares)
        kernels.sign(kernels.Measured(values, found.squares, found.lengths), signs, packed, errors)
        unsure = np.flatnonzero(errors)
        if len(unsure):
            doubts = kernels.Doubts(rows[unsure], values[unsure], errors[unsure], packed[unsure])
            self._decide(doubts)
            packed[unsure] = doubts.packed
        return packed

    def _decide(self, doubts: kernels.Doubts) -> None:
        """Decide signs in doubt in double precision."""
        exact, rows = self._features.exact, doubts.rows
        assert exact is not None
        relative, squares = np.empty(rows.shape), np.empty(len(rows))
        kernels.relate(rows, exact, relative, squares)
        shape = (len(rows), len(exact.offsets))
        products = np.matmul(relative, exact.operand, out=scratch("exact", shape, np.float64))
        kernels.decide_among(doubts, products, squares, self._signs, exact)

    def few(self, rows: Any) -> NDArray[np.uint8] | None:
        """Packed signs of a few rows, not checked before; None where something is unusual."""
        marks = self._features.narrow
        if marks is None or type(rows) is not np.ndarray or rows.dtype != np.float32:
            return None
        if (
            rows.ndim != 2
            or not 0 < len(rows) <= SMALL_BATCH_ROWS
            or rows.shape[1] != len(marks.centre)
        ):
            return None
        packed = np.empty((len(rows), self._bytes), np.uint8)
        done = kernels.encode(_behaved(rows), marks, self._signs, self._features.exact, packed)
        return packed if done else None

    def decided(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """The signs (n, bits), each row by itself and in double precision."""
        bits = np.empty((len(rows), len(self._signs.levels)), np.bool_)
        kernels.decide(_behaved(rows), self._signs, self._features.exact, bits)
        return bits


def _behaved(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows in the one layout that kernels are compiled for."""
    return rows if rows.flags.carray else rows.copy()
