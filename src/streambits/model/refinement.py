"""Refinement: a few bytes for what sign bits leave over, so that codes decode to rows.

    decoded(x) = offset + what each half byte of the sign bits says + centres of the bytes of x

What four bits say together is a row of a table, fitted by least squares to rows and their own bits;
the bytes are the product code of what is left. An optional last byte bounds the error that remains.
Bits fitted one by one leave 1.04 to 2.2 times as much over.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_count, double
from streambits._threads import cached, one_blas_thread
from streambits.errors import InputError
from streambits.kernels.bits import add_halves
from streambits.kernels.decode import Decoder
from streambits.kernels.far import FAR, DecodedParts, FarBooks, decode_far, encode_far, subtract
from streambits.model.quantiser import ProductQuantiser, bits_by_variance

ROWS_PER_BYTE = 8  # rows of a sample that a byte needs at least
LINEAR, LEVELS = 224, 255  # radii in equal steps, and all; the byte 255 is no bound
SINGLE_RIDGE, PRODUCT_RIDGE = 10.0, 800.0  # ridge strength for bits, and for products of bits
BEYOND, GROWTH = 1.25, 1.2  # equal steps reach so far past the sample's errors, then they grow
FAR_BYTES, FARTHER = 4, 1.1  # bytes from which far rows have codes of their own, and how far
ONE_LENGTH = 0.01  # of their spread: by how much lengths of rows may differ to count as one
FAINT = 1e-3  # of the largest variance: what others are taken to have at least, beyond the sample
EPS = float(np.finfo(np.float64).eps)

Rows = NDArray[np.float64]
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
    bits : int
        Sign bits of a code.
    tables : array of shape (halves, 16, d)
        What the bits of each half byte of a code add to a decoded row, for all their values.
    offset : array of shape (d,)
    quantiser : ProductQuantiser
        Of the residuals, rows less what their bits say.
    radii : array of shape (255,) or (0,)
        Errors that the last byte of a refinement stands for, ascending; the byte 255 stands for any
        error. Empty where there is no such byte.
    far : Far, optional
        For rows whose residual is longer than any of the sample.
    length : float, default 0
        The length that all rows of the sample have, as embeddings do; 0 if theirs differ. Decoded
        rows are shorter: a search ranks them as if they had it.

    Notes
    -----
    Bits and centres say little of a row beyond the rows that they were fitted on, as a stream has
    them before a change is detected. Such a row is encoded by its leading principal components at a
    scale of its own, if that is nearer; the first byte, 255, says so, and its bits only find it.

    A row has the same bytes alone and in any batch, with any number of threads. Encoding costs
    (d + 256) a multiplications per row for the a axes of the quantiser, and d a more with a byte
    for the error.
    """

    bits: int
    tables: Rows
    offset: Rows
    quantiser: ProductQuantiser
    radii: Rows
    far: "Far | None" = None
    length: float = 0.0

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
        own = self.tables.nbytes + self.offset.nbytes + self.radii.nbytes
        return own + self.quantiser.nbytes + (self.far.axes.nbytes if self.far else 0)

    def encode(self, rows: NDArray[Any], packed: Bytes) -> Bytes:
        """The bytes (n, n_bytes) of one block of checked rows (n, d) with packed sign bits."""
        refinement, doubtful = self._encode(double(rows), packed)
        for place in np.flatnonzero(doubtful):
            one = slice(place, place + 1)
            refinement[one] = self._encode(double(rows[one]), packed[one])[0]
        return refinement

    def _encode(self, rows: Rows, packed: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
        """Bytes, and for which rows rounding may have decided one of them."""
        quantiser, residuals = self.quantiser, np.empty_like(rows)
        lengths = subtract(rows, self._origin, packed, self.tables, residuals)
        spread = lengths + 2 * self.reach
        codes, doubtful = quantiser.assign_values(residuals @ quantiser.axes, spread)
        if self.far is not None:
            self._replace_far(rows, residuals, lengths, codes)
        if not self.certified:
            return codes, doubtful
        errors = _lengths(rows - self.decode(packed, codes))
        noise = 64 * EPS * len(self.offset) ** 0.5 * (spread + _lengths(self._origin[None])[0])
        low, radius, high = (
            np.searchsorted(self.radii, errors + times * noise) for times in (-1, 1, 3)
        )
        return np.column_stack([codes, radius.astype(np.uint8)]), doubtful | (low != high)

    def _replace_far(self, rows: Rows, residuals: Rows, lengths: Rows, codes: Bytes) -> None:
        """Encode rows with long residuals by components, where that is nearer."""
        assert self.far is not None
        some = np.flatnonzero(lengths > self.far.limit)
        if len(some):
            replaced, axes = codes[some], np.ascontiguousarray(self.quantiser.axes)
            values = self.quantiser.values(replaced)
            told = DecodedParts(residuals[some], axes, values)
            encode_far(rows[some], told, self.far.books, replaced)
            codes[some] = replaced

    def decode(self, packed: Bytes, refinement: Bytes) -> Rows:
        """The rows (n, d) that packed sign bits and bytes (n, n_bytes) stand for."""
        codes = refinement[:, : self.quantiser.n_bytes]
        decoded = self._origin + _looked_up(packed, self.tables)
        decoded += self.quantiser.values(codes) @ self.quantiser.axes.T
        which = self.is_far(codes)
        if self.far is not None and which.any():
            decoded[which] = self.far.decode(codes[which])
        return decoded

    def is_far(self, refinement: Bytes) -> NDArray[np.bool_]:
        """Which codes (n,) are those of rows beyond the centres."""
        if self.far is None:
            return np.zeros(len(refinement), np.bool_)
        return np.asarray(refinement[:, 0] == FAR)

    def bounds(self, refinement: Bytes) -> Rows:
        """Bounds (n,) on the distance of each row from what it decodes to; maybe infinite."""
        if not self.certified:
            return np.full(len(refinement), np.inf)
        return np.append(self.radii, np.inf)[refinement[:, -1]]

    @cached
    def _origin(self) -> Rows:
        return self.offset + self.quantiser.mean

    @cached
    def reach(self) -> float:
        """More than the length of any row that bits alone stand for."""
        return float(_lengths(self.tables).max(axis=1).sum())

    @cached
    def coordinates(self) -> Coordinates:
        """The axes of the quantiser, and more where bits lead out of them.

        A search needs them first, where threads of BLAS would wait for each other on a busy
        machine: with one, they take the same time everywhere.
        """
        axes, parts = self.quantiser.axes, self.tables.reshape(-1, len(self.offset))
        if self.far is not None:
            parts = np.concatenate([parts, self.far.axes, self.far.centre[None] - self._origin])
        with one_blas_thread():
            outside = parts - (parts @ axes) @ axes.T
            outside -= (outside @ axes) @ axes.T
            _, sizes, right = np.linalg.svd(outside, full_matrices=False)
        scale = max(float(_lengths(parts).max(initial=0.0)), 1e-300)
        more = right[sizes > 1e-12 * scale].T
        return Coordinates(np.concatenate([axes, more], axis=1), self._origin)

    @cached
    def decoder(self) -> Decoder:
        """The same in tables for kernels: decoded rows in `coordinates`."""
        with one_blas_thread():
            along = np.ascontiguousarray(self.tables @ self.coordinates.basis)
        starts, centres = self.quantiser.starts, self.quantiser.centres
        parts = [centres[i:j].T.ravel() for i, j in pairwise(starts)]
        nothing = np.empty(0)
        far = FarBooks(nothing, nothing[:, None], nothing, nothing.astype(np.int64), 0.0)
        if self.far is not None:
            basis = self.coordinates.basis
            far = self.far.books._replace(
                centre=(self.far.centre - self._origin) @ basis,
                axes=np.ascontiguousarray(self.far.axes @ basis),
            )
        return Decoder(along, starts, np.concatenate([nothing, *parts]), far)

    def state(self) -> dict[str, Any]:
        """Return the contents by name, for `from_state` and files."""
        own = {name: getattr(self, name) for name in ("bits", "tables", "offset", "radii")}
        far = None if self.far is None else self.far._asdict()
        own |= {"length": self.length} if self.length else {}
        return own | {"quantiser": self.quantiser.state(), "far": far}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a refinement from what `state` returned.

        Raises
        ------
        ValueError
            If the arrays do not fit each other.
        """
        quantiser = ProductQuantiser.from_state(state["quantiser"])
        bits, tables, offset, radii = (state[n] for n in ("bits", "tables", "offset", "radii"))
        columns = (quantiser.inputs,)
        if tables.shape != (_halves(bits), 16, *columns) or offset.shape != columns:
            raise ValueError(f"tables {tables.shape} and offset {offset.shape} are not {columns}")
        if radii.shape not in ((0,), (LEVELS,)) or (np.diff(radii) < 0).any():
            raise ValueError(f"radii are not {LEVELS} rising numbers")
        far = None if state["far"] is None else Far(**state["far"])
        if far is not None:
            far.check(columns[0], quantiser.n_bytes)
        length = float(state.get("length", 0.0))
        if not 0 <= length < np.inf:
            raise ValueError(f"length is {length}")
        return cls(bits, tables, offset, quantiser, radii, far, length)

    @classmethod
    def fit(
        cls,
        rows: Rows,
        packed: Bytes,
        bits: int,
        n_bytes: int,
        *,
        certified: bool = False,
        seed: int = 0,
    ) -> Self:
        """Fit a refinement to a uniform sample of rows and their sign bits.

        Parameters
        ----------
        rows : array of shape (n, d)
        packed : array of shape (n, ceil(bits / 8)), uint8
            The sign bits of the rows.
        bits : int
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
            tables, offset = _fitted_tables(packed, bits, rows)
        residuals = rows - (offset + _looked_up(packed, tables))
        quantiser, far = ProductQuantiser.fit(residuals, n_bytes, seed=seed), None
        if n_bytes >= FAR_BYTES:
            quantiser, far = _without_last(quantiser, residuals), Far.fit(rows, residuals, n_bytes)
        plain = cls(bits, tables, offset, quantiser, np.empty(0), far, _one_length(rows))
        if not certified:
            return plain
        with one_blas_thread():
            errors = _lengths(rows - plain.decode(packed, plain.encode(rows, packed)))
        least = 1e-9 * float(_lengths(rows - rows.mean(axis=0)).max()) or 1e-300
        return replace(plain, radii=_radii(max(BEYOND * float(errors.max()), least)))


class Far(NamedTuple):
    """How rows are encoded that the centres do not reach.

    Attributes
    ----------
    centre : array of shape (d,)
        The mean of the sample.
    axes : array of shape (components, d)
        Its leading principal components.
    reach : array of shape (components,)
        How large each may be, as a multiple of the scale.
    widths : array of shape (components,), int64
        Bits of each, by reverse water-filling; together those of all bytes but two.
    unit : float
        The scale that the byte 128 stands for; others are powers of 2^(1/8) of it.
    limit : float
        The length of a residual from which a row is tried.
    """

    centre: Rows
    axes: Rows
    reach: Rows
    widths: NDArray[np.int64]
    unit: float
    limit: float

    @property
    def books(self) -> FarBooks:
        """The same for kernels."""
        return FarBooks(self.centre, self.axes, self.reach, self.widths, self.unit)

    def decode(self, codes: Bytes) -> Rows:
        """The rows (n, d) that such codes (n, bytes) stand for."""
        decoded = np.empty((len(codes), len(self.centre)))
        decode_far(codes, self.books, decoded)
        return decoded

    def check(self, columns: int, n_bytes: int) -> None:
        """Raise ValueError if the arrays do not fit rows and codes."""
        count, shapes = len(self.axes), [part.shape for part in self[:4]]
        if shapes != [(columns,), (count, columns), (count,), (count,)]:
            raise ValueError(f"far has arrays of {shapes}, and rows have {columns} columns")
        if (self.widths < 2).any() or self.widths.sum() > 8 * (n_bytes - 2):
            raise ValueError(f"far has components of {self.widths} bits in {n_bytes} bytes")
        if not ((self.reach > 0).all() and self.unit > 0 and self.limit >= 0):
            raise ValueError(f"far has unit {self.unit} and limit {self.limit}")

    @classmethod
    def fit(cls, rows: Rows, residuals: Rows, n_bytes: int) -> "Far":
        """Fit to a sample of rows, and to what codes leave over of them."""
        centre = rows.mean(axis=0)
        with one_blas_thread():
            variances, axes = np.linalg.eigh((rows - centre).T @ (rows - centre))
        spread = np.sqrt(np.maximum(variances[::-1] / max(float(variances[-1]), 1e-300), FAINT))
        widths = _whole(bits_by_variance(spread**2, 8.0 * (n_bytes - 2)), 8 * (n_bytes - 2))
        used = np.flatnonzero(widths >= 2)
        unit = float(_lengths(rows - centre).max()) or 1.0
        limit = FARTHER * float(_lengths(residuals).max())
        axes = np.ascontiguousarray(axes[:, ::-1].T[used])
        return cls(centre, axes, spread[used], widths[used], unit, limit)


def _whole(bits: Rows, total: int) -> NDArray[np.int64]:
    """Whole numbers near the bits that add up to at most `total`, none of them 1."""
    widths = np.floor(bits).astype(np.int64)
    for place in np.argsort(widths - bits, kind="stable")[: max(0, total - int(widths.sum()))]:
        widths[place] += bits[place] > 0
    widths[widths == 1] = 0
    widths[0] += min(total - int(widths.sum()), 8)
    return widths


def _without_last(quantiser: ProductQuantiser, rows: Rows) -> ProductQuantiser:
    """The quantiser with at most 255 centres in its first group: without the least used one."""
    if quantiser.counts[0] <= FAR:
        return quantiser
    used = np.bincount(quantiser.encode(rows)[:, 0], minlength=FAR + 1)
    centres, counts, end = quantiser.centres.copy(), quantiser.counts.copy(), quantiser.starts[1]
    centres[:end, used.argmin()] = centres[:end, FAR]
    centres[:end, FAR], counts[0] = 0.0, FAR
    return replace(quantiser, centres=centres, counts=counts)


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


def _one_length(rows: Rows) -> float:
    """The length of all rows but those of zeros, or 0 if it is not one."""
    lengths = _lengths(rows)
    lengths = lengths[lengths > 0]
    mean = float(lengths.mean()) if len(lengths) else 0.0
    spread = float(np.sqrt(np.square(_lengths(rows - rows.mean(axis=0))).mean()))
    return mean if (np.abs(lengths - mean) <= ONE_LENGTH * spread).all() else 0.0


def _lengths(rows: Rows) -> Rows:
    lengths: Rows = np.sqrt(np.vecdot(rows, rows))
    return lengths


def _halves(bits: int) -> int:
    """Half bytes of packed bits."""
    return 2 * -(-bits // 8)


def _looked_up(packed: Bytes, tables: Rows) -> Rows:
    """What the half bytes of codes (n, bytes) add up to, (n, columns)."""
    found = np.zeros((len(packed), tables.shape[2]))
    add_halves(packed, tables, found)
    return found


def _fitted_tables(packed: Bytes, bits: int, rows: Rows) -> tuple[Rows, Rows]:
    """Tables and an offset that come nearest to the rows, by least squares.

    What four bits say is a sum over their 15 products of one to four signs (Walsh functions). A
    ridge keeps what single bits say nearly as it is, and shrinks what they say together.
    """
    halves = _halves(bits)
    subsets = np.arange(1, 16)
    odd = np.bitwise_count(np.arange(16)[:, None] & subsets) % 2
    walsh = np.where((odd + np.bitwise_count(subsets)) % 2, -1.0, 1.0)  # (values, products)
    used = _used(bits, halves, subsets)
    told = np.stack([packed & 15, packed >> 4], axis=2).reshape(len(packed), halves)
    products = walsh[told].reshape(len(packed), 15 * halves)[:, used]
    single = np.tile(np.bitwise_count(subsets) == 1, halves)[used]
    mean, centre = products.mean(axis=0), rows.mean(axis=0)
    apart = products - mean
    gram = apart.T @ apart + np.diag(np.where(single, SINGLE_RIDGE, PRODUCT_RIDGE))
    found = np.linalg.solve(gram, apart.T @ (rows - centre))
    weights = np.zeros((15 * halves, rows.shape[1]))
    weights[used] = found
    tables = np.einsum("vp,hpd->hvd", walsh, weights.reshape(halves, 15, rows.shape[1]))
    return np.ascontiguousarray(tables), centre - mean @ found


def _used(bits: int, halves: int, subsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which products are of bits that codes have: (15 * halves,)."""
    there = [(1 << max(0, min(4, bits - 4 * half))) - 1 for half in range(halves)]
    inside: NDArray[np.bool_] = subsets & ~np.array(there, np.int64)[:, None] == 0
    return inside.ravel()


def _radii(top: float) -> Rows:
    steps = top * np.arange(1, LINEAR + 1) / LINEAR
    return np.concatenate([steps, top * GROWTH ** np.arange(1, LEVELS - LINEAR + 1)])
