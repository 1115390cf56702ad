"""The nearest of 256 centres in every group of axes, for many rows."""

from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled

CENTRES = 256


class Codebooks(NamedTuple):
    """The centres of all groups.

    centres: (axes, 256), axis by axis, so that the loop over centres is one of vectors;
    starts: (groups + 1,), where the axes of each group begin; counts: (groups,) centres in use.
    """

    centres: Any
    starts: Any
    counts: Any


@compiled
def assign(values: Any, books: Any, doubt: Any, codes: Any, doubtful: Any) -> None:
    """Write the number of the nearest centre of each group, the first of equal ones.

    values: (n, axes) float64, the axes of a group together; books: Codebooks; doubt: (n,) errors of
    squared distances; codes: (n, groups) uint8, written; doubtful: (n,) bool, set where another
    centre is as near as the error allows.
    """
    centres, starts, counts = books.centres, books.starts, books.counts
    squares = np.empty(CENTRES)
    for row in range(values.shape[0]):
        for group in range(len(counts)):
            squares[:] = 0.0
            for axis in range(starts[group], starts[group + 1]):
                value, own = values[row, axis], centres[axis]
                for centre in range(CENTRES):
                    step = value - own[centre]
                    squares[centre] += step * step
            best, place, second = np.inf, 0, np.inf
            for centre in range(counts[group]):
                square = squares[centre]
                if square < best:
                    best, second, place = square, best, centre
                elif square < second:
                    second = square
            codes[row, group] = place
            if second - best <= doubt[row]:
                doubtful[row] = True
