"""Codes: packed bits with their length and epoch, and the bytes that refine them, if any."""

from collections.abc import Iterable, Iterator
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_count, frozen
from streambits.errors import EpochError, InputError

MOST_BITS = 4096
MOST_BYTES = 257  # of a refinement: 256, and one for the error that is left


class Codes:
    """n codes: `bits` sign bits each, as packed bytes, and perhaps a few bytes that refine them.

    Parameters
    ----------
    packed : array of shape (n, ceil(bits / 8)), uint8
        Truth values, also those in bytes, go to `Codes.from_bits`.
    bits : int
        Number of sign bits, 1 to 4096; 0 for codes that are a refinement and nothing else.
    epoch : int, default 0
        Codes compare only within one epoch.
    refinement : array of shape (n, r), uint8, optional
        What the sign bits left over, as the coder's quantiser has encoded it.

    Attributes
    ----------
    refine : int
        Bytes of refinement per code, 0 for plain codes.

    Raises
    ------
    InputError
        If the shape or the type does not fit, or bits past the last are set.

    Notes
    -----
    Bit j of a code is bit j % 8 (counted from the least significant) of byte j // 8; bits past
    the last are zero (numpy.packbits with bitorder="little"; FAISS and pgvector store bytes in the
    same order). Codes are frozen: the bytes cannot be written to. A writable array is copied.

    Examples
    --------
    >>> codes = Codes.from_bits([[True, False, True], [True, True, True]])
    >>> codes.packed.tolist(), codes.hamming(codes).tolist()
    ([[5], [7]], [[0, 1], [1, 0]])
    """

    __slots__ = ("bits", "epoch", "packed", "refinement")

    def __init__(
        self,
        packed: NDArray[np.uint8],
        bits: int,
        epoch: int = 0,
        refinement: NDArray[np.uint8] | None = None,
    ) -> None:
        self.bits = as_bits(bits, least=1 if refinement is None else 0)
        self.epoch = as_count(epoch, "epoch", least=0)
        self.packed = _checked(packed, self.bits)
        self.refinement = None if refinement is None else _refining(refinement, len(self.packed))

    @property
    def refine(self) -> int:
        """Bytes of refinement per code, 0 for plain codes."""
        return 0 if self.refinement is None else self.refinement.shape[1]

    @classmethod
    def from_words(
        cls,
        words: NDArray[np.uint64],
        bits: int,
        epoch: int = 0,
        refinement: NDArray[np.uint8] | None = None,
    ) -> "Codes":
        """Build codes from 64-bit words (n, ceil(bits / 64)), as `words` returns them."""
        packed = np.ascontiguousarray(words).view(np.uint8)[:, : -(-bits // 8)]
        return cls(frozen(packed.copy()), bits, epoch, refinement)

    @classmethod
    def from_bits(cls, bits: Any, epoch: int = 0) -> "Codes":
        """Pack an (n, bits) array of truth values, or of 0 and 1.

        Raises
        ------
        InputError
            If the array is not two-dimensional, or holds other values.
        """
        truth = np.asarray(bits)
        if truth.ndim != 2 or (truth.dtype != np.bool_ and not np.isin(truth, (0, 1)).all()):
            raise InputError(
                f"bits must be an (n, bits) array of truth values or of 0 and 1; "
                f"got shape {truth.shape} and type {truth.dtype}. Packed bytes go to Codes"
            )
        packed = np.packbits(truth.astype(np.bool_), axis=1, bitorder="little")
        return cls(frozen(packed), truth.shape[1], epoch)

    @classmethod
    def concat(cls, parts: Iterable["Codes"]) -> "Codes":
        """Join codes one after another.

        Raises
        ------
        InputError, EpochError
            If there are none, or they differ in length or epoch.
        """
        parts = list(parts)
        if not parts:
            raise InputError("there are no codes to put together: pass at least one")
        for part in parts[1:]:
            parts[0]._check_comparable(part)
            check_refine(part, parts[0].refine, "the codes before them")
        packed = np.concatenate([part.packed for part in parts])
        refinements = [part.refinement for part in parts if part.refinement is not None]
        refinement = frozen(np.concatenate(refinements)) if refinements else None
        return cls(frozen(packed), parts[0].bits, parts[0].epoch, refinement)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The bits, as `unpack` gives them, for NumPy."""
        if copy is False:
            raise ValueError("bits are packed, so an array of them is a copy")
        return self.unpack().astype(dtype or np.bool_, copy=False)

    def unpack(self) -> NDArray[np.bool_]:
        """Return the bits as truth values (n, bits)."""
        bits = np.unpackbits(self.packed, axis=1, count=self.bits, bitorder="little")
        return bits.view(np.bool_)

    def hamming(self, other: "Codes") -> NDArray[np.uint16]:
        """Count the differing bits of every pair of codes.

        Parameters
        ----------
        other : Codes
            m codes of the same length and epoch.

        Returns
        -------
        array of shape (n, m), uint16
            Memory: two bytes per pair.

        Raises
        ------
        InputError, EpochError
            If the codes differ in length or epoch.
        """
        self._check_comparable(other)
        distances = np.zeros((len(self), len(other)), np.uint16)
        for mine, theirs in zip(self.words().T, other.words().T, strict=True):
            distances += np.bitwise_count(mine[:, None] ^ theirs[None, :])
        return distances

    def words(self) -> NDArray[np.uint64]:
        """Return the codes as 64-bit words (n, ceil(bits / 64)), filled up with zeros."""
        if not self.bits:
            return np.empty((len(self), 0), np.uint64)
        missing = -self.packed.shape[1] % 8
        fill = np.zeros((len(self), missing), np.uint8)
        return np.concatenate([self.packed, fill], axis=1).view(np.uint64)

    def _check_comparable(self, other: "Codes") -> None:
        if self.bits != other.bits:
            raise InputError(f"codes of {self.bits} and of {other.bits} bits do not compare")
        if self.epoch != other.epoch:
            raise EpochError(
                f"codes of epochs {self.epoch} and {other.epoch} do not compare: "
                f"encode the rows again with one coder"
            )

    def __len__(self) -> int:
        return len(self.packed)

    @overload
    def __getitem__(self, which: int) -> "Codes": ...
    @overload
    def __getitem__(self, which: slice | NDArray[Any] | list[int]) -> "Codes": ...
    def __getitem__(self, which: Any) -> "Codes":
        """Select codes; a single number selects one code, still as Codes."""
        packed, more = frozen(np.atleast_2d(self.packed[which])), self.refinement
        more = None if more is None else frozen(np.atleast_2d(more[which]))
        return Codes(packed, self.bits, self.epoch, more)

    def __iter__(self) -> Iterator["Codes"]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Codes)
            and (self.bits, self.epoch, self.refine) == (other.bits, other.epoch, other.refine)
            and np.array_equal(self.packed, other.packed)
            and (
                self.refinement is None
                or other.refinement is None
                or np.array_equal(self.refinement, other.refinement)
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        more = f" + {self.refine} bytes" if self.refine else ""
        return f"Codes({len(self)} x {self.bits} bits{more}, epoch {self.epoch})"


def as_bits(value: object, *, least: int = 1) -> int:
    """Check a length of codes: a whole number from 1, or `least`, to 4096, or InputError."""
    return as_count(value, "bits", least=least, most=MOST_BITS)


def check_refine(codes: Codes, refine: int, holder: str) -> None:
    """Refuse codes with another number of refinement bytes than what they are put beside has.

    Parameters
    ----------
    codes : Codes
    refine : int
        Bytes of refinement that they must have.
    holder : str
        What has as many, for the message.
    """
    if codes.refine != refine:
        raise InputError(
            f"the codes have {codes.refine} bytes of refinement, and {holder} {refine}: do not mix "
            f"them; encode all rows with one coder"
        )


def _checked(packed: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    packed = np.asarray(packed)
    width = -(-bits // 8)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != width:
        raise InputError(
            f"packed codes of {bits} bits are an (n, {width}) array of uint8; got shape "
            f"{packed.shape} and type {packed.dtype}. Truth values go to Codes.from_bits"
        )
    spare = 8 * width - bits
    if spare and len(packed) and int(packed[:, -1].max()) >> (8 - spare):
        raise InputError(f"bits past the {bits}th are set: these bytes hold longer codes")
    if packed.flags.writeable:  # nobody else may write to it either
        packed = frozen(packed.copy())
    return packed


def _refining(refinement: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    array = np.asarray(refinement)
    fits = array.dtype == np.uint8 and array.ndim == 2 and len(array) == count
    if not (fits and 1 <= array.shape[1] <= MOST_BYTES):
        raise InputError(
            f"a refinement of {count} codes is a ({count}, r) array of uint8 with r from 1 to "
            f"{MOST_BYTES}; got shape {array.shape} and type {array.dtype}"
        )
    return frozen(array.copy()) if array.flags.writeable else array
