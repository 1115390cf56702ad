"""The bits themselves: how many change, how evenly they split the rows, how much they repeat."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.model.codes import Codes

BLOCK = 2**16  # rows at a time; sums of that many ones are exact in single precision


def bits_changed(before: Codes, after: Codes) -> float:
    """The share of bits that differ between two encodings of the same rows.

    Parameters
    ----------
    before, after : Codes
        Codes of the same rows and of the same length.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> bits_changed(Codes.from_bits([[0, 0, 1, 1]]), Codes.from_bits([[0, 1, 1, 1]]))
    0.25
    """
    changed = np.bitwise_count(before.packed ^ after.packed).sum(dtype=np.int64)
    return float(changed / (len(before) * before.bits))


def bit_balance(codes: Codes) -> NDArray[np.float64]:
    """The share of codes that have each bit set.

    Parameters
    ----------
    codes : Codes
        At least one.

    Returns
    -------
    ndarray of shape (bits,)
        One half carries most information, 0 and 1 none.
    """
    return np.diagonal(_together(codes)) / len(codes)


def bit_correlation(codes: Codes) -> NDArray[np.float64]:
    """Correlation of each two bits over the codes.

    Parameters
    ----------
    codes : Codes
        At least one.

    Returns
    -------
    ndarray of shape (bits, bits)
        NaN in the row and the column of a bit that is the same in all codes.

    Examples
    --------
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

    Attributes
    ----------
    imbalance : float
        Mean of |2 share - 1| over bits; NaN if there are none.
    constant : int
        Number of bits that are the same in all codes.
    correlation, most : float
        Mean and largest |correlation| over pairs of bits that are not constant; NaN if there is
        not a pair.
    """

    imbalance: float
    constant: int
    correlation: float
    most: float


def bit_use(codes: Codes) -> BitUse:
    """Balance and correlation of the bits of codes, in four numbers."""
    ones = bit_balance(codes)
    pairs = np.abs(bit_correlation(codes)[np.triu_indices(codes.bits, 1)])
    pairs = pairs[~np.isnan(pairs)]
    return BitUse(
        float(np.abs(2 * ones - 1).mean()) if codes.bits else np.nan,
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
