"""Bets on the mean embedding of a stream: the loops of `streambits.epochs.embedding`.

Everything is added up in one order, measurement by measurement, so any split of a stream gives the
same bits.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled

MIN_DEVIATION = 1e-3  # standard deviation of scores, by which others are divided


class Plan(NamedTuple):
    """How `bet_on_means` bets.

    burn_in, stretch: measurements of the reference, and between two choices of a direction; clip:
    largest score; tolerance: standard deviations by which the mean score may differ; bet: the share
    of the stake, over `clip`, that a row can win or lose.
    """

    burn_in: int
    stretch: int
    clip: float
    tolerance: float
    bet: float


class DetectorState(NamedTuple):
    """What `bet_on_means` keeps, and changes.

    means: (3, k), the centre, recent rows relative to it, and this stretch so far; reference:
    (k, rows), embedded rows; line: (k + 2,), direction, bound and bet.
    """

    means: Any
    reference: Any
    line: Any


@compiled
def bet_on_means(values: Any, start: int, held: Any, plan: Any) -> Any:
    """What measurements add to the evidence, (n,); they are taken into account.

    values: (n, k, rows) embedded rows of n measurements, of which the first has the number `start`
    in its epoch.
    """
    count, _, rows = values.shape
    gains = np.zeros(count)
    scores = np.empty(max(rows, held.reference.shape[1]), np.float32)
    for i in range(count):
        number = start + i
        if number < plan.burn_in:
            _refer(values[i], number, held, plan)
            continue
        if number % plan.stretch == 0 and number > plan.burn_in:
            _turn(held, plan, scores)
        bound, bet = held.line[-2], held.line[-1]
        if bet > 0:
            _score(values[i], held, plan.clip, scores)
            stake = 1.0  # factors are between 1/2 and 3/2, so a measurement's stay far from 0
            for row in range(rows):
                stake *= 1 + bet * (scores[row] - bound)
            gains[i] = math.log(stake)
        _add(values[i], 1 / (plan.stretch * rows), held.means[2])
    return gains


@compiled
def _add(values: Any, weight: float, mean: Any) -> None:
    rows = values.shape[1]
    whole = rows - rows % 4
    for j in range(values.shape[0]):
        a = b = c = d = 0.0  # four sums, which do not wait for each other
        for row in range(0, whole, 4):
            a += values[j, row]
            b += values[j, row + 1]
            c += values[j, row + 2]
            d += values[j, row + 3]
        for row in range(whole, rows):
            a += values[j, row]
        mean[j] += (a + b + c + d) * weight


@compiled
def _refer(values: Any, number: int, held: Any, plan: Any) -> None:
    """Every other measurement belongs to the centre, and those between to the reference."""
    rows = values.shape[1]
    if number % 2 == 0:
        _add(values, 2 / (plan.burn_in * rows), held.means[0])
        return
    first = number // 2 * rows
    for j in range(values.shape[0]):
        for row in range(rows):
            held.reference[j, first + row] = values[j, row]


@compiled
def _turn(held: Any, plan: Any, scores: Any) -> None:
    """Choose a direction by the rows so far, and a bound by the reference along it."""
    means, line = held.means, held.line
    width, length = means.shape[1], 0.0
    for j in range(width):
        means[1, j] = (means[1, j] + means[2, j] - means[0, j]) / 2
        means[2, j] = 0.0
        length += means[1, j] * means[1, j]
    line[:] = 0.0
    if not length > 0:
        return
    for j in range(width):
        line[j] = means[1, j] / math.sqrt(length)
    _score(held.reference, held, plan.clip, scores)
    mean, spread = _moments(scores, held.reference.shape[1])
    bound = mean + plan.tolerance * spread
    line[width] = bound
    line[width + 1] = plan.bet * min(
        1 / max(spread, MIN_DEVIATION), plan.clip / (plan.clip + bound)
    )


@compiled
def _score(values: Any, held: Any, clip: float, scores: Any) -> None:
    """Write how far each row lies along the direction from the centre, at most `clip`."""
    width, rows = values.shape
    scores[:rows] = 0.0
    for j in range(width):
        part, centre = np.float32(held.line[j]), np.float32(held.means[0, j])
        for row in range(rows):
            scores[row] += part * (values[j, row] - centre)
    most = np.float32(clip)
    for row in range(rows):
        scores[row] = min(max(scores[row], -most), most)


@compiled
def _moments(scores: Any, count: int) -> Any:
    """Mean and standard deviation of the first scores."""
    total, squares = 0.0, 0.0
    for i in range(count):
        total += scores[i]
        squares += scores[i] * scores[i]
    mean = total / count
    return mean, math.sqrt(max(squares / count - mean * mean, 0.0))
