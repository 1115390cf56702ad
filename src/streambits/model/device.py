"""Encoding on a device: rows stay there, and what leaves it are codes.

The values behind the bits are computed in the precision of the rows, with bounds on their rounding
errors. Rows with a bit within its bound, about one in fifty, are computed again in double
precision, still there; what is in doubt even then, or too far for the codebook of a refinement, is
left to the coder's twin on the host. So the codes are the host's, bit for bit.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    array_namespace,
    blocks,
    device,
    double,
    take,
    to_device_of,
    to_numpy,
)
from streambits._device import copied, doubles_are_fast, products
from streambits.features import GaussianAffinity
from streambits.model.refinement import Refinement

if TYPE_CHECKING:
    from streambits.model.coder import Coder

BLOCK_BYTES = 1 << 30  # of the features of a block, in double precision
MAX_BLOCK_ROWS, MIN_BLOCK_ROWS = 262144, 8192  # rows of a block
DOUBT_SHARE, DOUBT_ROWS = 0.05, 4096  # share of so many rows in doubt that makes all double
EPS = float(np.finfo(np.float64).eps)

Bytes = NDArray[np.uint8]


class DeviceEncoder:
    """A coder's way of encoding rows that are on a device.

    Parameters
    ----------
    coder : Coder
        Its arrays are on the device.
    host : Coder
        The same coder on the host.

    Notes
    -----
    The more columns, features and bits, the more rows are in doubt in single precision. Where they
    are many, and the device is as fast in double precision, all are computed in that.
    """

    def __init__(self, coder: "Coder", host: "Coder") -> None:
        self._coder, self._host = coder, host
        like = coder.features.like
        xp = array_namespace(like)
        powers = xp.asarray([1 << bit for bit in range(8)], dtype=xp.uint8, device=device(like))
        self._powers = powers
        self._fast, self._double = doubles_are_fast(like), False
        self._refinement: _Refiner | None = None
        if coder.refinement is not None:
            self._refinement = _Refiner(coder.refinement, like)

    def __call__(self, rows: Array, features: Array = None) -> Bytes:
        """Encode checked rows (n, d), whose features (n, width) may be known.

        Returns
        -------
        ndarray of shape (n, ceil(bits / 8) + refine), uint8
            As `Coder.encoded` gives them.
        """
        wide = self._double if features is None else False
        found, unsure = self._encode(rows, features, wide=wide)
        self._double |= (
            self._fast and len(unsure) > DOUBT_SHARE * len(found) and len(found) > DOUBT_ROWS
        )
        if len(unsure) and not wide and rows.dtype != array_namespace(rows).float64:
            found[unsure], still = self._encode(take(rows, unsure), wide=True)
            unsure = unsure[still]
        if len(unsure):
            found[unsure] = self._host.encoded(to_numpy(take(rows, unsure)))
        return found

    def _encode(
        self, rows: Array, features: Array = None, *, wide: bool
    ) -> tuple[Bytes, NDArray[np.intp]]:
        """Codes, and which rows are to be decided again; in double precision if `wide`."""
        count, start = int(rows.shape[0]), 0
        found = np.empty((count, -(-self._coder.bits // 8) + self._coder.refine), np.uint8)
        size = BLOCK_BYTES // (8 * max(self._coder.features.width, 1))
        size = max(MIN_BLOCK_ROWS, min(MAX_BLOCK_ROWS, size))
        parts = blocks(rows, size) if features is None else [rows]

        def work() -> Any:
            for part in parts:
                yield from self._block(double(part) if wide else part, features)

        arrived, unsure = copied(work(), to_numpy), [np.empty(0, np.intp)]
        for part in parts:  # what the host does here, it does while the device works
            end = start + int(part.shape[0])
            found[start:end] = next(arrived)
            unsure.append(start + np.flatnonzero(next(arrived)))
            start = end
        return found, np.concatenate(unsure)

    def _block(self, rows: Array, features: Array) -> tuple[Array, Array]:
        xp = array_namespace(rows)
        again = xp.zeros(rows.shape[0], dtype=xp.bool, device=device(rows))
        codes = xp.astype(again[:, None][:, :0], xp.uint8)
        if self._coder.bits:
            with products(rows):
                values, error = self._measured(rows, features)
            again = ~(xp.min(xp.abs(values), axis=1) > error)  # also where they are not numbers
            codes = self._packed(values > 0)
        if self._refinement is not None:
            more, host = self._refinement(double(rows), codes)
            codes = xp.concat([codes, more], axis=1)
            again = again | host
        return codes, again

    def _measured(self, rows: Array, features: Array) -> tuple[Array, Array]:
        """As `Coder.measured`; affinities and their noise have most of their work in common."""
        coder, noise = self._coder, None
        if features is None and isinstance(coder.features, GaussianAffinity):
            features, noise = coder.features.with_noise(rows)
        return coder.measured(rows, features, noise)

    def _packed(self, bits: Array) -> Array:
        """Bits (n, bits) as bytes, the first bit the lowest."""
        xp = array_namespace(bits)
        count, lacking = int(bits.shape[0]), -int(bits.shape[1]) % 8
        if lacking:
            none = xp.zeros((count, lacking), dtype=xp.bool, device=device(bits))
            bits = xp.concat([bits, none], axis=1)
        bytes_ = xp.reshape(xp.astype(bits, xp.uint8), (count, -1, 8)) * self._powers
        return xp.sum(bytes_, axis=2, dtype=xp.uint8)


class _Refiner:
    """`Refinement.encode` on a device, in double precision."""

    def __init__(self, refinement: Refinement, like: Array) -> None:
        quantiser = refinement.quantiser
        squares = np.square(quantiser.centres)
        self._tables = to_device_of(refinement.tables, like)
        self._origin = to_device_of(refinement.offset + quantiser.mean, like)
        self._axes = to_device_of(quantiser.axes, like)
        self._centres = to_device_of(quantiser.centres, like)
        self._squares = to_device_of(squares, like)
        self._radii = to_device_of(refinement.radii, like) if refinement.certified else None
        self._groups = list(zip(pairwise(quantiser.starts.tolist()), quantiser.counts.tolist()))
        self._limit = np.inf if refinement.far is None else refinement.far.limit
        self._reach = refinement.reach
        self._longest = float(np.sqrt(squares.max(axis=1, initial=0.0).sum()))
        self._from_zero = float(np.sqrt(np.square(refinement.offset + quantiser.mean).sum()))

    def __call__(self, rows: Array, packed: Array) -> tuple[Array, Array]:
        """The bytes of rows (n, d) with packed bits, and which rows are left to the host."""
        xp = array_namespace(rows)
        residuals, index = rows - self._origin, xp.astype(packed, xp.int64)
        for half in range(self._tables.shape[0]):
            value = index[:, half // 2]
            value = value // 16 if half % 2 else value % 16
            residuals = residuals - xp.take(self._tables[half, :, :], value, axis=0)
        lengths = xp.linalg.vector_norm(residuals, axis=1)
        spread = lengths + 2 * self._reach
        doubt = 16 * rows.shape[1] ** 0.5 * EPS * (spread + self._longest) ** 2
        values, host = residuals @ self._axes, lengths > self._limit
        codes = []
        for (low, high), count in self._groups:
            own = self._centres[low:high, :count]
            apart = xp.sum(self._squares[low:high, :count], axis=0) - 2 * (
                values[:, low:high] @ own
            )
            near = apart <= (xp.min(apart, axis=1) + doubt)[:, None]
            host = host | (xp.sum(near, axis=1, dtype=xp.int64) > 1)
            code = xp.argmin(apart, axis=1)
            codes.append(xp.astype(code, xp.uint8)[:, None])
            if self._radii is not None:
                told = xp.take(own.T, code, axis=0)
                residuals = residuals - told @ self._axes[:, low:high].T
        if self._radii is not None:
            errors = xp.linalg.vector_norm(residuals, axis=1)
            noise = 64 * EPS * rows.shape[1] ** 0.5 * (spread + self._from_zero)
            low, radius, high = (
                xp.searchsorted(self._radii, errors + times * noise) for times in (-2, 1, 4)
            )
            host = host | (low != high)
            codes.append(xp.astype(radius, xp.uint8)[:, None])
        return xp.concat(codes, axis=1), host
