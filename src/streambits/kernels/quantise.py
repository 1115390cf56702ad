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


class Group(NamedTuple):
    """The axes [low, high) of a group, its number of centres, and the scale of its centres."""

    low: int
    high: int
    centres: int
    scale: float


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


class WeightedValues(NamedTuple):
    """values: (n, axes) float64, the axes of a group together; weights: (n,)."""

    values: Any
    weights: Any


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
            own = Group(low, high, books.counts[group], scale)
            length = books.longest[group]
            for axis in range(low, high):
                length += abs(values[row, axis]) * scale
            if length < REACH:
                _measure(values[row], books.narrow, own, squares)
                place = _smallest(bits) & INDEX
                limit = _limit(squares[place], length, high - low, doubt[row] * scale * scale)
                if _within(squares, limit) == 1:
                    codes[row, group] = place
                    continue
            else:
                squares[:], limit = SINGLE(0), SINGLE(0)
            best, place, second = _decided(values[row], books.centres, own, squares, limit)
            codes[row, group] = place
            doubtful[row] |= second - best <= doubt[row]


@compiled
def _measure(values: Any, narrow: Any, group: Any, squares: Any) -> None:
    """Squared distances in single precision, two axes at a time."""
    low, high, scale = group.low, group.high, group.scale
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
    values: Any, centres: Any, group: Any, squares: Any, limit: Any
) -> tuple[float, int, float]:
    """The nearest of the centres within the limit: its square, its number and the next square."""
    best, place, second = np.inf, 0, np.inf
    for centre in range(group.centres):
        if squares[centre] > limit:
            continue
        square = 0.0
        for axis in range(group.low, group.high):
            square += (values[axis] - centres[axis, centre]) ** 2
        if square < best:
            best, second, place = square, best, centre
        elif square < second:
            second = square
    return best, place, second


@compiled
def spread(values: Any, weights: Any, draws: Any, chosen: Any) -> None:
    """Choose places far apart, each drawn by its weighted squared distance from those before.

    values: (width, n), axis by axis; weights: (n,); draws: in [0, 1), one per place; chosen: as
    many int64, written. Arthur & Vassilvitskii, "k-means++", SODA 2007.
    """
    count = len(weights)
    near, far = np.full(count, np.inf), np.empty(count)
    sums = np.cumsum(weights)
    for number, draw in enumerate(draws):
        place = min(np.searchsorted(sums, draw * sums[-1]), count - 1)
        chosen[number] = place
        far[:] = 0.0
        for own in values:
            for other in range(count):
                step = own[other] - own[place]
                far[other] += step * step
        total = 0.0
        for other in range(count):
            near[other] = min(near[other], far[other])
            total += weights[other] * near[other]
            sums[other] = total


@compiled
def gather(rows: Any, codes: Any, starts: Any, totals: Any, sums: Any) -> None:
    """Add up what is assigned to each centre.

    rows: WeightedValues; codes: (n, groups); totals: (groups, 256) of weights and sums:
    (axes, 256) of weighted values, added to.
    """
    values, weights = rows.values, rows.weights
    for row in range(len(codes)):
        for group in range(codes.shape[1]):
            code = codes[row, group]
            totals[group, code] += weights[row]
            for axis in range(starts[group], starts[group + 1]):
                sums[axis, code] += weights[row] * values[row, axis]
