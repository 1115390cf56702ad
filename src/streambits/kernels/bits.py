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
    for row in range(len(packed)):
        for half in range(len(tables)):
            value = packed[row, half // 2] >> np.uint8(4 * (half % 2)) & np.uint8(15)
            table = tables[half, value]
            for column in range(len(table)):
                out[row, column] += table[column]
