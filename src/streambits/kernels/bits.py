"""Bits counted, and what they say looked up."""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from streambits.kernels import compiled


@intrinsic  # type: ignore[untyped-decorator]
def popcount(_: Any, _word: Any) -> Any:
    """The number of bits set, by the instruction of the processor."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@compiled
def add_halves(packed: Any, tables: Any, out: Any) -> None:
    """Add to each row of `out` what the half bytes of its code say, the low half of a byte first.

    packed: (n, bytes) uint8; tables: (2 * bytes, 16, columns); out: (n, columns).
    """
    whole = len(tables) - len(tables) % 4
    for row in range(len(packed)):
        code, added = packed[row], out[row]
        for half in range(0, whole, 4):  # four at a time, added up in the same order
            one, two = tables[half, _low(code, half)], tables[half + 1, _high(code, half)]
            three, four = (
                tables[half + 2, _low(code, half + 2)],
                tables[half + 3, _high(code, half + 2)],
            )
            for column in range(len(added)):
                more = added[column] + one[column] + two[column]
                added[column] = more + three[column] + four[column]
        for half in range(whole, len(tables), 2):
            one, two = tables[half, _low(code, half)], tables[half + 1, _high(code, half)]
            for column in range(len(added)):
                added[column] = added[column] + one[column] + two[column]


@compiled
def _low(code: Any, half: int) -> Any:
    return code[half // 2] & np.uint8(15)


@compiled
def _high(code: Any, half: int) -> Any:
    return code[half // 2] >> np.uint8(4)
