"""The nearest of 256 centres in every group of axes, for many rows.

Squared distances to all centres are computed in single precision, and bounds of their rounding say
which centres can be the nearest. Almost always that is one; otherwise double precision decides.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.kernels import compiled

CENTRES = 256
UNIT = 2.0**-24  # of rounding, in single precision
REACH = 1e9  # times the longest centre: values further out are left to double precision
SINGLE = np.float32
INDEX = np.int32(CENTRES - 1)  # bits of a key that hold the number of a centre
TINY = 1e-37  # below this, single precision has fewer digits


class Codebooks(NamedTuple):
    """The centres of all groups.

    centres: (axes, 256), axis by axis, so that the loop over centres is one of vectors; starts:
    (groups + 1,), where the axes of each group begin; counts: (groups,) centres in use; narrow:
    (axes, 256) float32, centres times the scales of their groups, infinite where none is in use;
    scales: (groups,) powers of two; longest: (groups,) bounds of the scaled centres' lengths.
    """

    centres: Any
    starts: Any
    counts: Any
    narrow: Any
    scales: Any
    longest: Any


def codebooks(
    centres: NDArray[np.float64], starts: NDArray[np.int64], counts: NDArray[np.int64]
) -> Codebooks:
    """Centres with what `assign` wants to know of them."""
    groups = len(counts)
    narrow = np.empty(centres.shape, SINGLE)
    scales, longest = np.ones(groups), np.zeros(groups)
    for group in range(groups):
        own = slice(starts[group], starts[group + 1])
        largest = np.abs(centres[own]).max(initial=0.0)
        if largest > 0:
            scales[group] = 2.0 ** -np.clip(np.frexp(largest)[1], -500, 500)
        scaled = centres[own] * scales[group]
        longest[group] = np.sqrt(np.square(scaled).sum(axis=0).max(initial=0.0))
        narrow[own] = scaled
        narrow[own, counts[group] :] = np.inf
    return Codebooks(centres, starts, counts, narrow, scales, longest)


@compiled
def assign(values: Any, books: Any, doubt: Any, codes: Any, doubtful: Any) -> None:
    """Write the number of the nearest centre of each group, the first of equal ones.

    values: (n, axes) float64, the axes of a group together; books: Codebooks; doubt: (n,) errors of
    squared distances; codes: (n, groups) uint8, written; doubtful: (n,) bool, set where another
    centre is as near as the error allows.
    """
    squares = np.empty(CENTRES, SINGLE)
    bits = squares.view(np.int32)  # numbers that are not negative are ordered as their bits
    for row in range(values.shape[0]):
        for group in range(len(books.counts)):
            low, high, scale = books.starts[group], books.starts[group + 1], books.scales[group]
            length = books.longest[group]
            for axis in range(low, high):
                length += abs(values[row, axis]) * scale
            limit = np.inf
            if length < REACH:
                _measure(values[row], books.narrow, low, high, scale, squares)
                place = _smallest(bits) & INDEX
                limit = _limit(squares[place], length, high - low, doubt[row] * scale * scale)
                if _within(squares, limit) == 1:
                    codes[row, group] = place
                    continue
            place, sure = _decided(values[row], books, group, squares, limit, doubt[row])
            codes[row, group] = place
            doubtful[row] |= not sure


@compiled
def _measure(values: Any, narrow: Any, low: int, high: int, scale: float, squares: Any) -> None:
    """Squared distances in single precision, two axes at a time."""
    squares[:] = SINGLE(0)
    for axis in range(low, high - 1, 2):
        first, ours = SINGLE(values[axis] * scale), narrow[axis]
        second, others = SINGLE(values[axis + 1] * scale), narrow[axis + 1]
        for centre in range(CENTRES):
            step, other = first - ours[centre], second - others[centre]
            squares[centre] += step * step + other * other
    if (high - low) % 2:
        first, ours = SINGLE(values[high - 1] * scale), narrow[high - 1]
        for centre in range(CENTRES):
            step = first - ours[centre]
            squares[centre] += step * step


@compiled
def _smallest(bits: Any) -> Any:
    """The smallest key: the upper bits of a square, the number of its centre in the lower ones."""
    smallest = np.int32(2**31 - 1)
    for centre in range(CENTRES):
        smallest = min(smallest, (bits[centre] & ~INDEX) | np.int32(centre))
    return smallest


@compiled
def _limit(square: float, length: float, axes: int, doubt: float) -> Any:
    """The largest square, as computed, of a centre that can be the nearest, or as near as doubted.

    square: of any centre, as computed. Both ends of a step are rounded, which moves distances by
    at most `short`; steps, squares and sums are rounded again, each by a unit.
    """
    short, wide = UNIT * length, 1 + (axes + 8) * UNIT
    reach = np.sqrt((np.sqrt(square) * wide + short) ** 2 + doubt) + short
    return SINGLE((reach * wide) ** 2 + axes * TINY)


@compiled
def _within(squares: Any, limit: Any) -> Any:
    """How many squares are at most the limit."""
    count = np.int32(0)
    for centre in range(CENTRES):
        count += np.int32(squares[centre] <= limit)
    return count


@compiled
def _decided(
    values: Any, books: Any, group: int, squares: Any, limit: float, doubt: float
) -> tuple[int, bool]:
    """The nearest of the centres within the limit, and whether no other is as near as doubted."""
    best, place, second = np.inf, 0, np.inf
    for centre in range(books.counts[group]):
        if limit < np.inf and squares[centre] > limit:
            continue
        square = 0.0
        for axis in range(books.starts[group], books.starts[group + 1]):
            square += (values[axis] - books.centres[axis, centre]) ** 2
        if square < best:
            best, second, place = square, best, centre
        elif square < second:
            second = square
    return place, second - best > doubt
