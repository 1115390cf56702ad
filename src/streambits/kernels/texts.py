"""Texts of different lengths that lie one behind the other, as bytes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits.kernels import compiled

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


@compiled
def copy_pieces(content: Bytes, starts: Places, lengths: Places, found: Bytes) -> Any:
    """Put pieces of the content one behind the other into `found`, which has room for them."""
    at = 0
    for i in range(len(starts)):
        for j in range(starts[i], starts[i] + lengths[i]):
            found[at] = content[j]
            at += 1


@compiled
def compare_pieces(
    content: Bytes, starts: Places, lengths: Places, other: Bytes, others: Places
) -> Any:
    """Which pieces are those of as many bytes that begin at `others` in another content."""
    same = np.empty(len(starts), np.bool_)
    for i in range(len(starts)):
        same[i] = True
        for j in range(lengths[i]):
            if content[starts[i] + j] != other[others[i] + j]:
                same[i] = False
                break
    return same
