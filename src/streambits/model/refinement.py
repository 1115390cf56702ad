"""Refinement: a few bytes for what sign bits leave over, so that codes decode to rows.

    decoded(x) = offset + (+-1 bits of x) . signs + centres of the refinement bytes of x

`signs` and `offset` are the least-squares fit of rows to their own bits; the bytes are the product
code of what is left. An optional last byte bounds the error that remains.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_count, double
from streambits._threads import cached, one_blas_thread
from streambits.errors import InputError
from streambits.kernels.decode import Decoder
from streambits.model.quantiser import ProductQuantiser

ROWS_PER_BYTE = 8  # rows of a sample that a byte needs at least
LINEAR, LEVELS = 224, 255  # radii in equal steps, and all; the byte 255 is no bound
BEYOND, GROWTH = 1.25, 1.2  # equal steps reach so far past the sample's errors, then they grow
EPS = float(np.finfo(np.float64).eps)

Rows = NDArray[np.float64]
Bits = NDArray[np.bool_]
Bytes = NDArray[np.uint8]


class Coordinates(NamedTuple):
    """An orthonormal basis that holds all decoded rows, around an origin.

    Attributes
    ----------
    basis : array of shape (d, columns)
    origin : array of shape (d,)
    """

    basis: Rows
    origin: Rows


@dataclass(frozen=True)
class Refinement:
    """Rows and their sign bits to bytes, and both back to rows.

    Attributes
    ----------
    signs : array of shape (bits, d)
        What each bit adds to a decoded row, or takes away where it is not set.
    offset : array of shape (d,)
    quantiser : ProductQuantiser
        Of the residuals, rows less what their bits say.
    radii : array of shape (255,) or (0,)
        Errors that the last byte of a refinement stands for, ascending; the byte 255 stands for any
        error. Empty where there is no such byte.

    Notes
    -----
    A row has the same bytes alone and in any batch, with any number of threads. Encoding costs
    (d + bits) a + 256 a multiplications per row for the a axes of the quantiser, and
    (d + a) bits more with a byte for the error.
    """

    signs: Rows
    offset: Rows
    quantiser: ProductQuantiser
    radii: Rows

    @property
    def bits(self) -> int:
        """Sign bits of a code."""
        return len(self.signs)

    @property
    def certified(self) -> bool:
        """Whether the last byte bounds the error of a decoded row."""
        return len(self.radii) > 0

    @property
    def n_bytes(self) -> int:
        """Bytes per row, that of the error included."""
        return self.quantiser.n_bytes + self.certified

    @property
    def nbytes(self) -> int:
        """Bytes that the refinement itself holds."""
        own = self.signs.nbytes + self.offset.nbytes + self.radii.nbytes
        return own + self.quantiser.nbytes

    def encode(self, rows: NDArray[Any], bits: Bits) -> Bytes:
        """The bytes (n, n_bytes) of one block of checked rows (n, d) with sign bits (n, bits)."""
        refinement, doubtful = self._encode(double(rows), bits)
        for place in np.flatnonzero(doubtful):
            one = slice(place, place + 1)
            refinement[one] = self._encode(double(rows[one]), bits[one])[0]
        return refinement

    def _encode(self, rows: Rows, bits: Bits) -> tuple[Bytes, Bits]:
        """Bytes, and for which rows rounding may have decided one of them."""
        relative, told = rows - self._origin, _plus_minus(bits)
        values = relative @ self.quantiser.axes - told @ self._turned
        lengths = _lengths(relative) + self._reach
        codes, doubtful = self.quantiser.assign_values(values, lengths)
        if not self.certified:
            return codes, doubtful
        left = relative - told @ self.signs
        left -= self.quantiser.values(codes) @ self.quantiser.axes.T
        errors, noise = _lengths(left), 16 * EPS * len(self.offset) ** 0.5 * lengths
        low, radius, high = (
            np.searchsorted(self.radii, errors + times * noise) for times in (-1, 1, 3)
        )
        return np.column_stack([codes, radius.astype(np.uint8)]), doubtful | (low != high)

    def decode(self, bits: Bits, refinement: Bytes) -> Rows:
        """The rows (n, d) that sign bits (n, bits) and bytes (n, n_bytes) stand for."""
        centres = self.quantiser.values(refinement[:, : self.quantiser.n_bytes])
        decoded: Rows = self._origin + _plus_minus(bits) @ self.signs
        decoded += centres @ self.quantiser.axes.T
        return decoded

    def bounds(self, refinement: Bytes) -> Rows:
        """Bounds (n,) on the distance of each row from what it decodes to; maybe infinite."""
        if not self.certified:
            return np.full(len(refinement), np.inf)
        return np.append(self.radii, np.inf)[refinement[:, -1]]

    @cached
    def _origin(self) -> Rows:
        return self.offset + self.quantiser.mean

    @cached
    def _turned(self) -> Rows:
        """The signs along the axes of the quantiser."""
        return self.signs @ self.quantiser.axes

    @cached
    def _reach(self) -> float:
        """More than the length of any row that bits alone stand for."""
        return float(_lengths(self.signs).sum())

    @cached
    def coordinates(self) -> Coordinates:
        """The axes of the quantiser, and more where bits lead out of them."""
        axes = self.quantiser.axes
        outside = self.signs - (self.signs @ axes) @ axes.T
        outside -= (outside @ axes) @ axes.T
        left, sizes, right = np.linalg.svd(outside, full_matrices=False)
        del left
        scale = max(float(_lengths(self.signs).max(initial=0.0)), 1e-300)
        more = right[sizes > 1e-12 * scale].T
        return Coordinates(np.concatenate([axes, more], axis=1), self._origin)

    @cached
    def decoder(self) -> Decoder:
        """The same in tables for kernels: decoded rows in `coordinates`."""
        along = self.signs @ self.coordinates.basis
        halves = -(-self.bits // 8) * 2
        padded = np.zeros((4 * halves, along.shape[1]))
        padded[: self.bits] = along
        told = _plus_minus((np.arange(16)[:, None] >> np.arange(4) & 1).astype(np.bool_))
        signs = np.einsum("vb,hbc->hvc", told, padded.reshape(halves, 4, -1))
        starts, centres = self.quantiser.starts, self.quantiser.centres
        parts = [centres[i:j].T.ravel() for i, j in pairwise(starts)]
        return Decoder(np.ascontiguousarray(signs), starts, np.concatenate([np.empty(0), *parts]))

    def state(self) -> dict[str, Any]:
        """Return the contents by name, for `from_state` and files."""
        own = {"signs": self.signs, "offset": self.offset, "radii": self.radii}
        return own | {"quantiser": self.quantiser.state()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a refinement from what `state` returned.

        Raises
        ------
        ValueError
            If the arrays do not fit each other.
        """
        quantiser = ProductQuantiser.from_state(state["quantiser"])
        signs, offset, radii = (state[name] for name in ("signs", "offset", "radii"))
        columns = (quantiser.inputs,)
        if signs.ndim != 2 or signs.shape[1:] != columns or offset.shape != columns:
            raise ValueError(f"signs {signs.shape} and offset {offset.shape} are not {columns}")
        if radii.shape not in ((0,), (LEVELS,)) or (np.diff(radii) < 0).any():
            raise ValueError(f"radii are not {LEVELS} rising numbers")
        return cls(signs, offset, quantiser, radii)

    @classmethod
    def fit(
        cls, rows: Rows, bits: Bits, n_bytes: int, *, certified: bool = False, seed: int = 0
    ) -> Self:
        """Fit a refinement to a uniform sample of rows and their sign bits.

        Parameters
        ----------
        rows : array of shape (n, d)
        bits : array of shape (n, bits), bool
        n_bytes : int
            Bytes of the product code, 1 to 256.
        certified : bool, default False
            Whether one byte more bounds the error.
        seed : int, default 0
            Of k-means.

        Raises
        ------
        InputError
            If the sample has fewer than 8 rows for each byte.
        """
        check_supported(n_bytes, len(rows))
        with one_blas_thread():
            signs, offset = _least_squares(_plus_minus(bits), rows)
            residuals = rows - (offset + _plus_minus(bits) @ signs)
        quantiser = ProductQuantiser.fit(residuals, n_bytes, seed=seed)
        plain = cls(signs, offset, quantiser, np.empty(0))
        if not certified:
            return plain
        with one_blas_thread():
            errors = _lengths(rows - plain.decode(bits, plain.encode(rows, bits)))
        least = 1e-9 * float(_lengths(rows - rows.mean(axis=0)).max()) or 1e-300
        return cls(signs, offset, quantiser, _radii(max(BEYOND * float(errors.max()), least)))


def check_supported(n_bytes: int, rows: int) -> None:
    """Refuse a refinement that is longer than a sample of so many rows supports."""
    most = rows // ROWS_PER_BYTE
    if as_count(n_bytes, "refine") > most:
        raise InputError(
            f"refine is {n_bytes}, and a sample of {rows} rows supports at most {most} bytes: "
            f"learn more rows before the first coder, or ask for fewer bytes"
        )


def restored(state: dict[str, Any] | None, bits: int, inputs: int) -> Refinement | None:
    """The refinement that a state describes, of codes with so many bits and rows of `inputs`."""
    if state is None:
        return None
    found = Refinement.from_state(state)
    if (found.bits, found.quantiser.inputs) != (bits, inputs):
        raise ValueError(f"the refinement is one of {found.bits} bits, and not of {bits}")
    return found


def _plus_minus(bits: Bits) -> Rows:
    return np.where(bits, 1.0, -1.0)


def _lengths(rows: Rows) -> Rows:
    lengths: Rows = np.sqrt(np.vecdot(rows, rows))
    return lengths


def _least_squares(told: Rows, rows: Rows) -> tuple[Rows, Rows]:
    """W and c such that told . W + c is nearest to the rows; a bit that never changes adds nothing.

    As if a row without signs had been seen once (ridge), so that equal bits share what they say.
    """
    mean, centre = told.mean(axis=0), rows.mean(axis=0)
    apart = told - mean
    gram = apart.T @ apart + np.eye(told.shape[1])
    signs = np.linalg.solve(gram, apart.T @ (rows - centre))
    return signs, centre - mean @ signs


def _radii(top: float) -> Rows:
    steps = top * np.arange(1, LINEAR + 1) / LINEAR
    return np.concatenate([steps, top * GROWTH ** np.arange(1, LEVELS - LINEAR + 1)])
