"""Bets on the mean embedding of a stream: the loops of `streambits.epochs.embedding`.

Everything is added up in one order, measurement by measurement, so any split of a stream gives the
same bits.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled

LEAST = 1e-3  # standard deviation of scores, by which others are divided


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


@compiled
def bet_on_means(
    values: Any, start: int, means: Any, held: Any, line: Any, plan: Any, gains: Any
) -> None:
    """Write what measurements add to the evidence, and take them into account.

    values: (n, k, rows) embedded rows of n measurements, of which the first has the number `start`
    in its epoch; means: (3, k), the centre, recent rows relative to it, and this stretch so far;
    held: (k, reference), embedded rows; line: (k + 2,), direction, bound and bet; gains: (n,),
    written.
    """
    rows, scores = values.shape[2], np.empty(max(values.shape[2], held.shape[1]))
    for i in range(values.shape[0]):
        number = start + i
        gains[i] = 0.0
        if number < plan.burn_in:
            _refer(values[i], number, means, held, plan)
            continue
        if number % plan.stretch == 0 and number > plan.burn_in:
            _turn(means, held, line, plan, scores)
        if line[-1] > 0:
            _score(values[i], means[0], line, plan.clip, scores)
            for row in range(rows):
                gains[i] += math.log1p(line[-1] * (scores[row] - line[-2]))
        _add(values[i], 1 / (plan.stretch * rows), means[2])


@compiled
def _add(values: Any, weight: float, mean: Any) -> None:
    for j in range(values.shape[0]):
        total = 0.0
        for row in range(values.shape[1]):
            total += values[j, row]
        mean[j] += total * weight


@compiled
def _refer(values: Any, number: int, means: Any, held: Any, plan: Any) -> None:
    """Every other measurement belongs to the centre, and those between to the reference."""
    rows = values.shape[1]
    if number % 2 == 0:
        _add(values, 2 / (plan.burn_in * rows), means[0])
        return
    first = number // 2 * rows
    for j in range(values.shape[0]):
        for row in range(rows):
            held[j, first + row] = values[j, row]


@compiled
def _turn(means: Any, held: Any, line: Any, plan: Any, scores: Any) -> None:
    """Choose a direction by the rows so far, and a bound by the reference along it."""
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
    _score(held, means[0], line, plan.clip, scores)
    mean, spread = _moments(scores, held.shape[1])
    bound = mean + plan.tolerance * spread
    line[width] = bound
    line[width + 1] = plan.bet * min(1 / max(spread, LEAST), plan.clip / (plan.clip + bound))


@compiled
def _score(values: Any, centre: Any, line: Any, clip: float, scores: Any) -> None:
    """Write how far each row lies along the direction from the centre, at most `clip`."""
    rows = values.shape[1]
    scores[:rows] = 0.0
    for j in range(len(centre)):
        for row in range(rows):
            scores[row] += line[j] * (values[j, row] - centre[j])
    for row in range(rows):
        scores[row] = min(max(scores[row], -clip), clip)


@compiled
def _moments(scores: Any, count: int) -> Any:
    """Mean and standard deviation of the first scores."""
    total, squares = 0.0, 0.0
    for i in range(count):
        total += scores[i]
        squares += scores[i] * scores[i]
    mean = total / count
    return mean, math.sqrt(max(squares / count - mean * mean, 0.0))
