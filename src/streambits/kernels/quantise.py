"""The nearest of 256 centres in every group of axes, for many rows.

Which centre is the nearest follows from products with all centres. They are computed in single
precision, and bounds of their rounding say which centres can be the nearest. Almost always that is
one; otherwise distances in double precision decide.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.kernels import compiled
from streambits.kernels.affinity import fma

CENTRES = 256
UNIT = 2.0**-24  # of rounding, in single precision
REACH = 1e9  # of scaled values: those further out are left to double precision
SINGLE = np.float32
BLOCK_ROWS = 64  # at a time: vectors are of rows, so that the best centres so far need no search
SMALL_BATCH_ROWS = 12  # rows up to which double precision is as fast
AT_ONCE = 8  # axes that one pass over the rows takes
TINY = 1e-37  # below this, single precision has fewer digits


class Codebooks(NamedTuple):
    """The centres of all groups.

    centres: (axes, 256), axis by axis, so that the loop over centres is one of vectors; starts:
    (groups + 1,), where the axes of each group begin; counts: (groups,) centres in use; scales:
    (groups,) powers of two; longest: (groups,) bounds of the scaled centres' lengths; narrow:
    (groups, 256, width) float32, scaled centres, zeros beyond the axes of a group; halves:
    (groups, 256) float32, minus half their squared lengths, minus infinity where none is in use.
    """

    centres: Any
    starts: Any
    counts: Any
    scales: Any
    longest: Any
    narrow: Any
    halves: Any


class Leaders(NamedTuple):
    """Of some rows: the largest scores, the next ones, and the centres of the largest.

    scores: (2, rows), those with the two centres at hand.
    """

    best: Any
    second: Any
    places: Any
    scores: Any


class WeightedValues(NamedTuple):
    """values: (n, axes) float64, the axes of a group together; weights: (n,)."""

    values: Any
    weights: Any


def codebooks(
    centres: NDArray[np.float64], starts: NDArray[np.int64], counts: NDArray[np.int64]
) -> Codebooks:
    """Centres with what `assign` wants to know of them."""
    groups, widest = len(counts), int(np.diff(starts).max(initial=1))
    scales, longest = np.ones(groups), np.zeros(groups)
    narrow = np.zeros((groups, CENTRES, -(-widest // AT_ONCE) * AT_ONCE), SINGLE)
    halves = np.full((groups, CENTRES), -np.inf, SINGLE)
    for group in range(groups):
        own = centres[starts[group] : starts[group + 1], : counts[group]]
        largest = np.abs(own).max(initial=0.0)
        if largest > 0:
            scales[group] = 2.0 ** -np.clip(np.frexp(largest)[1], -500, 500)
        scaled = own * scales[group]
        squares = np.square(scaled).sum(axis=0)
        longest[group] = np.sqrt(squares.max(initial=0.0))
        narrow[group, : counts[group], : len(own)] = scaled.T
        halves[group, : counts[group]] = -squares / 2
    return Codebooks(centres, starts, counts, scales, longest, narrow, halves)


@compiled
def assign(values: Any, books: Any, doubt: Any, codes: Any, doubtful: Any) -> None:
    """Write the number of the nearest centre of each group, the first of equal ones.

    values: (n, axes) float64, the axes of a group together; books: Codebooks; doubt: (n,) errors of
    squared distances; codes: (n, groups) uint8, written; doubtful: (n,) bool, set where another
    centre is as near as the error allows.
    """
    scaled, lengths = np.zeros((books.narrow.shape[2], BLOCK_ROWS), SINGLE), np.zeros(BLOCK_ROWS)
    tops, places = np.empty((2, BLOCK_ROWS), SINGLE), np.empty(BLOCK_ROWS, np.int32)
    leaders = Leaders(tops[0], tops[1], places, np.empty((2, BLOCK_ROWS), SINGLE))
    squares = np.empty(CENTRES)
    for start in range(0, len(values), BLOCK_ROWS):
        some = values[start : start + BLOCK_ROWS]
        for group in range(len(books.counts)):
            low, high = books.starts[group], books.starts[group + 1]
            own, count, scale = books.centres[low:high], books.counts[group], books.scales[group]
            if len(some) > SMALL_BATCH_ROWS:
                _scale(some[:, low:high], scale, scaled, lengths)
                _lead(scaled, high - low, books.narrow[group], books.halves[group], leaders)
            else:
                lengths[:] = np.inf
            for place in range(len(some)):
                row, length = start + place, lengths[place]
                error = _error(length, books.longest[group], high - low)
                apart = float(leaders.best[place]) - float(leaders.second[place])
                if length < REACH and apart > 2 * error + doubt[row] * scale * scale / 2:
                    codes[row, group] = leaders.places[place]
                    continue
                best, code, second = _decided(some[place, low:high], own, count, squares)
                codes[row, group] = code
                doubtful[row] |= second - best <= doubt[row]


@compiled
def _scale(values: Any, scale: float, scaled: Any, lengths: Any) -> None:
    """Write scaled values, axis by axis, zeros beyond the axes, and their absolute sums."""
    lengths[:] = 0.0
    scaled[values.shape[1] :] = SINGLE(0)
    for row in range(len(values)):
        for axis in range(values.shape[1]):
            value = values[row, axis] * scale
            lengths[row] += abs(value)
            scaled[axis, row] = SINGLE(value)


@compiled
def _lead(values: Any, axes: int, narrow: Any, halves: Any, leaders: Any) -> None:
    """Find the centres with the largest scores, values . centre - |centre|^2 / 2.

    Twice a score is |values|^2 less the squared distance.
    """
    best, second, places, scores = leaders
    best[:], second[:], places[:] = SINGLE(-np.inf), SINGLE(-np.inf), 0
    one, two = scores[0], scores[1]
    for centre in range(0, CENTRES, 2):
        ours, others = narrow[centre], narrow[centre + 1]
        half, next_half = halves[centre], halves[centre + 1]
        for row in range(BLOCK_ROWS):
            first, other = half, next_half
            for axis in range(AT_ONCE):  # a constant number, so that scores stay in registers
                first = fma(values[axis, row], ours[axis], first)
                other = fma(values[axis, row], others[axis], other)
            one[row], two[row] = first, other
        for start in range(AT_ONCE, axes, AT_ONCE):
            _add(values[start:], ours[start:], one)
            _add(values[start:], others[start:], two)
        for row in range(BLOCK_ROWS):
            first, other, top = one[row], two[row], best[row]
            high, low = (first, other) if first >= other else (other, first)
            place = np.int32(centre) if first >= other else np.int32(centre + 1)
            beaten = top if high > top else high
            beaten = beaten if beaten > low else low
            second[row] = beaten if beaten > second[row] else second[row]
            places[row] = place if high > top else places[row]
            best[row] = high if high > top else top


@compiled
def _add(values: Any, centre: Any, scores: Any) -> None:
    """Add products of more axes to the scores of rows."""
    for row in range(BLOCK_ROWS):
        score = scores[row]
        for axis in range(AT_ONCE):
            score = fma(values[axis, row], centre[axis], score)
        scores[row] = score


@compiled
def _error(length: float, longest: float, axes: int) -> float:
    """A bound of the error of scores of values, whose absolute sum is `length`.

    Half squares are rounded once, values and centres each once, and sums once for every axis; what
    is padded adds zeros, which rounds nothing.
    """
    rounded = (axes + 4) * UNIT * longest * (length + longest / 2)
    return rounded + (axes + 1) * TINY * (1 + length)


@compiled
def _decided(values: Any, centres: Any, count: int, squares: Any) -> tuple[float, int, float]:
    """The nearest centre in double precision: its square, its number and the next square.

    squares: (256,), overwritten.
    """
    squares[:] = 0.0
    for axis in range(len(values)):
        value, own = values[axis], centres[axis]
        for centre in range(CENTRES):
            step = value - own[centre]
            squares[centre] += step * step
    best, place, second = np.inf, 0, np.inf
    for centre in range(count):
        square = squares[centre]
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
