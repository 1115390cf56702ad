"""The bits themselves: how many change, how evenly they split the rows, how much they repeat."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.model.codes import Codes

BLOCK = 2**16  # rows at a time; sums of that many ones are exact in single precision


def bits_changed(before: Codes, after: Codes) -> float:
    """The share of bits that differ between two encodings of the same rows."""
    changed = np.bitwise_count(before.packed ^ after.packed).sum(dtype=np.int64)
    return float(changed / (len(before) * before.bits))


def bit_balance(codes: Codes) -> NDArray[np.float64]:
    """(bits,) the share of codes that have each bit set; one half carries most information."""
    return np.diagonal(_together(codes)) / len(codes)


def bit_correlation(codes: Codes) -> NDArray[np.float64]:
    """(bits, bits) correlation of each two bits over the codes.

    A bit that is the same in all codes has none: its row and column are NaN.

    >>> bit_correlation(Codes.from_bits([[0, 0, 1], [1, 0, 0]])).tolist()
    [[1.0, nan, -1.0], [nan, nan, nan], [-1.0, nan, 1.0]]
    """
    share = _together(codes) / len(codes)
    ones = np.diagonal(share)
    spread = np.sqrt(ones * (1 - ones))
    scale = np.outer(spread, spread)
    return np.where(
        scale > 0, (share - np.outer(ones, ones)) / np.where(scale > 0, scale, 1), np.nan
    )


class BitUse(NamedTuple):
    """How well the bits are used; all zero is best.

    imbalance: mean of |2 share - 1| over bits; constant: how many bits say nothing;
    correlation, most: mean and largest |correlation| over pairs of bits that are not constant,
    NaN if there is no pair.
    """

    imbalance: float
    constant: int
    correlation: float
    most: float


def bit_use(codes: Codes) -> BitUse:
    """Balance and correlation in four numbers."""
    ones = bit_balance(codes)
    pairs = np.abs(bit_correlation(codes)[np.triu_indices(codes.bits, 1)])
    pairs = pairs[~np.isnan(pairs)]
    return BitUse(
        float(np.abs(2 * ones - 1).mean()),
        int(((ones == 0) | (ones == 1)).sum()),
        float(pairs.mean()) if len(pairs) else np.nan,
        float(pairs.max()) if len(pairs) else np.nan,
    )


def _together(codes: Codes) -> NDArray[np.float64]:
    """(bits, bits): how many codes have both bits set."""
    total = np.zeros((codes.bits, codes.bits))
    for start in range(0, len(codes), BLOCK):
        bits = codes[start : start + BLOCK].unpack().astype(np.float32)
        total += bits.T @ bits
    return total
