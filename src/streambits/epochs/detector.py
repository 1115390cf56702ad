"""Drift: whether the rows that come are still like those the landmarks were drawn from.

What is tested is how close a row comes to its nearest landmark, an affinity between 0 and 1. Where
the stream moves, new rows fall between or beyond the landmarks and it drops; on a stream that
stays, it does not, however long. The test is an e-detector (Shin, Ramdas & Rinaldo 2023): a
cumulative sum of evidence that bets against "the mean affinity is no lower than it was among the
landmarks, but for a tolerance". As long as that is true, false alarms are at least `APART` rows
apart on average, whatever the distribution of the affinities: no model, no tables, ten lines. What
it was among the landmarks is an estimate: where they are fewer than 200, the tolerance is wider,
and a small change is seen later or not at all.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

CHUNK = 512  # rows between two measurements
SAMPLED = 64  # rows of a chunk that are measured
TOLERANCE = 0.25  # standard deviations of an affinity that the mean may drop without notice
ERRORS = 2.5  # standard errors, at least, that the tolerance spans: the mean is an estimate too
APART = 1e6  # rows between false alarms, at least, on average
RECENT = 4  # times the landmarks: rows kept to draw new ones from, and after which one settles
WIDER = 4.0  # times the bandwidth while a change goes on: rows to come lie beyond the landmarks
KEPT = 1024  # measurements kept


class DriftMeasurement(NamedTuple):
    """One measurement of the drift monitor.

    rows: of the stream so far; affinity: mean, to the nearest landmark; outside: share of the
    features' energy outside the subspace of the coder; shift: how far their mean is from where it
    was when the epoch began, in their own lengths; balance: mean of |2 share of ones - 1| over the
    bits (the last three at every 8th of the first 64 measurements and every 32nd after, otherwise
    NaN, as while there is no coder); evidence: the logarithm of the e-detector, an alarm at
    log(1e6) = 13.8; epoch: in which.
    """

    rows: int
    affinity: float
    outside: float
    shift: float
    balance: float
    evidence: float
    epoch: int


def latest(measurements: Sequence[DriftMeasurement]) -> DriftMeasurement | None:
    """The last measurement, its gaps filled with what was last measured; None if there are none."""
    if not measurements:
        return None
    filled = measurements[-1]
    for earlier in reversed(measurements):
        gaps = [name for name in DriftMeasurement._fields if math.isnan(getattr(filled, name))]
        if not gaps:
            break
        filled = filled._replace(**{name: getattr(earlier, name) for name in gaps})
    return filled


class EDetector:
    """Evidence that the mean of numbers in [0, 1] has dropped.

    Bets against "the mean is at least `mean` - tolerance x spread": each number multiplies the
    stake by 1 + bet (bound - number), whose mean is at most 1 while that is true. A stake below 1
    is made 1 again, so a change is seen as soon after a quiet year as after a quiet minute.
    tolerance: 0.25, or more where mean and spread are known from few numbers (see `of`).

    >>> quiet = EDetector(mean=0.8, spread=0.1)
    >>> [quiet.update(np.full(64, value)) for value in (0.8, 0.8, 0.4, 0.4)]
    [False, False, True, True]
    """

    def __init__(self, mean: float, spread: float, tolerance: float = TOLERANCE) -> None:
        self.mean, self.spread, self.tolerance = mean, max(spread, 1e-3), tolerance
        self.evidence = 0.0
        self.since = 0  # measurements since the stake was last 1

    @classmethod
    def of(cls, numbers: NDArray[np.float64]) -> Self:
        """One that expects more of the same; a mean of few numbers has an error of its own."""
        error = ERRORS / math.sqrt(len(numbers))
        return cls(float(numbers.mean()), float(numbers.std()), max(TOLERANCE, error))

    def fresh(self) -> Self:
        """One that expects the same, and has seen nothing."""
        return type(self)(self.mean, self.spread, self.tolerance)

    def update(self, numbers: NDArray[np.float64]) -> bool:
        """Whether the evidence is enough."""
        bound = self.mean - self.tolerance * self.spread
        bet = 0.5 * min(1 / self.spread, 1 / max(1 - bound, 1e-6))
        if self.evidence <= 0:
            self.evidence, self.since = 0.0, 0
        self.evidence += float(np.log1p(bet * (bound - numbers)).sum())
        self.since += 1
        return self.evidence > math.log(APART)

    def state(self) -> dict[str, Any]:
        names = ("mean", "spread", "tolerance", "evidence", "since")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        self = cls(state["mean"], state["spread"], state["tolerance"])
        self.evidence, self.since = state["evidence"], state["since"]
        return self
