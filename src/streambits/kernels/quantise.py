"""The nearest of 256 centres in every group of axes, for many rows.

Which centre is the nearest follows from products with all centres. They are computed in single
precision, and bounds of their rounding say which centres can be the nearest. Almost always that is
one; otherwise distances in double precision decide.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.kernels import compiled
from streambits.kernels.affinity import fma, maximum

CENTRES = 256
UNIT = 2.0**-24  # of rounding, in single precision
REACH = 1e9  # times the longest centre: values further out are left to double precision
SINGLE = np.float32
AT_ONCE = 8  # axes that one pass over the centres takes
TINY = 1e-37  # below this, single precision has fewer digits


class Codebooks(NamedTuple):
    """The centres of all groups.

    centres: (axes, 256), axis by axis, so that the loop over centres is one of vectors; starts:
    (groups + 1,), where the axes of each group begin; counts: (groups,) centres in use; scales:
    (groups,) powers of two; longest: (groups,) bounds of the scaled centres' lengths; narrow:
    (groups, width, 256) float32, scaled centres, zeros beyond the axes of a group; halves:
    (groups, 256) float32, minus half their squared lengths, minus infinity where none is in use.
    """

    centres: Any
    starts: Any
    counts: Any
    scales: Any
    longest: Any
    narrow: Any
    halves: Any


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
    narrow = np.zeros((groups, -(-widest // AT_ONCE) * AT_ONCE, CENTRES), SINGLE)
    halves = np.full((groups, CENTRES), -np.inf, SINGLE)
    for group in range(groups):
        own = centres[starts[group] : starts[group + 1], : counts[group]]
        largest = np.abs(own).max(initial=0.0)
        if largest > 0:
            scales[group] = 2.0 ** -np.clip(np.frexp(largest)[1], -500, 500)
        scaled = own * scales[group]
        squares = np.square(scaled).sum(axis=0)
        longest[group] = np.sqrt(squares.max(initial=0.0))
        narrow[group, : len(own), : counts[group]] = scaled
        halves[group, : counts[group]] = -squares / 2
    return Codebooks(centres, starts, counts, scales, longest, narrow, halves)


@compiled
def assign(values: Any, books: Any, doubt: Any, codes: Any, doubtful: Any) -> None:
    """Write the number of the nearest centre of each group, the first of equal ones.

    values: (n, axes) float64, the axes of a group together; books: Codebooks; doubt: (n,) errors of
    squared distances; codes: (n, groups) uint8, written; doubtful: (n,) bool, set where another
    centre is as near as the error allows.
    """
    scores, scaled = np.empty(CENTRES, SINGLE), np.empty(books.narrow.shape[1], SINGLE)
    for row in range(values.shape[0]):
        for group in range(len(books.counts)):
            low, high = books.starts[group], books.starts[group + 1]
            scale, longest, length = books.scales[group], books.longest[group], 0.0
            scaled[:] = SINGLE(0)
            for axis in range(low, high):
                value = values[row, axis] * scale
                scaled[axis - low] = SINGLE(value)
                length += abs(value)
            limit = SINGLE(-np.inf)
            if length + longest < REACH:
                best = _score(scaled, high - low, books.narrow[group], books.halves[group], scores)
                error = _error(length, longest, high - low) + doubt[row] * scale * scale / 4
                limit = SINGLE(best - 2 * error - UNIT * abs(best))
                found = _within(scores, limit)
                if found < 2 * CENTRES:  # of one centre only
                    codes[row, group] = found - CENTRES
                    continue
            else:
                scores[:] = SINGLE(0)
            own = books.centres[low:high, : books.counts[group]]
            best, place, second = _decided(values[row, low:high], own, scores, limit)
            codes[row, group] = place
            doubtful[row] |= second - best <= doubt[row]


@compiled
def _score(values: Any, axes: int, narrow: Any, halves: Any, scores: Any) -> Any:
    """Write values . centre - |centre|^2 / 2, larger where a centre is nearer; gives the largest.

    Twice that is |values|^2 less the squared distance.
    """
    for centre in range(CENTRES):
        score = halves[centre]
        for axis in range(AT_ONCE):  # a constant number, so that scores stay in registers
            score = fma(values[axis], narrow[axis, centre], score)
        scores[centre] = score
    for start in range(AT_ONCE, axes, AT_ONCE):
        others, own = values[start : start + AT_ONCE], narrow[start : start + AT_ONCE]
        for centre in range(CENTRES):
            score = scores[centre]
            for axis in range(AT_ONCE):
                score = fma(others[axis], own[axis, centre], score)
            scores[centre] = score
    largest = SINGLE(-np.inf)
    for centre in range(CENTRES):
        largest = maximum(largest, scores[centre])
    return largest


@compiled
def _error(length: float, longest: float, axes: int) -> float:
    """A bound of the error of scores of values, whose absolute sum is `length`.

    Values, centres and halves are rounded, and each of their products and sums once more, with one
    product for every axis and fewer than `AT_ONCE` zeros.
    """
    rounded = (axes + AT_ONCE + 4) * UNIT * longest * (length + longest)
    return rounded + (axes + 1) * TINY * (1 + length)


@compiled
def _within(scores: Any, limit: Any) -> Any:
    """The sum of 256 and the place of each score that is at least the limit."""
    found = np.int32(0)
    for centre in range(CENTRES):
        found += np.int32(CENTRES + centre) if scores[centre] >= limit else np.int32(0)
    return found


@compiled
def _decided(values: Any, centres: Any, scores: Any, limit: Any) -> tuple[float, int, float]:
    """The nearest of the centres with scores within the limit: its square, number and the next."""
    best, place, second = np.inf, 0, np.inf
    for centre in range(centres.shape[1]):
        if scores[centre] < limit:
            continue
        square = 0.0
        for axis in range(len(values)):
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
