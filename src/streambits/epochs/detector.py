"""Drift: whether the rows that come are still like those the landmarks were drawn from.

What is tested here is how close a row comes to its nearest landmark, an affinity between 0 and 1.
Where the stream moves, new rows fall between or beyond the landmarks and it drops; on a stream that
stays, it does not, however long. The test is an e-detector: a cumulative sum of evidence that bets
against "the mean affinity is no lower than it was among the landmarks, but for a tolerance". As
long as that is true, false alarms are at least `APART` rows apart on average, whatever the
distribution of the affinities: no model, no tables, ten lines. What it was among the landmarks is
an estimate: where they are fewer than 200, the tolerance is wider, and a small change is detected
later or not at all. Proportions that change among rows that all have landmarks nearby are seen by a
second test, that of `streambits.epochs.embedding`.

References
----------
Shin, Ramdas & Rinaldo, "E-detectors: A Nonparametric Framework for Sequential Change Detection",
2023.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, array_namespace

CHUNK = 512  # rows between two measurements
SAMPLED = 64  # rows of a chunk that are measured
TOLERANCE = 0.25  # standard deviations of an affinity that the mean may drop without notice
ERRORS = 2.5  # standard errors, at least, that the tolerance spans: the mean is an estimate too
APART = 1e6  # rows between false alarms, at least, on average
ALARM = math.log(APART)  # evidence from which there is one, of either test: see `Evidence`
RECENT = 4  # times the landmarks: rows kept to draw new ones from, and after which one settles
WIDER = 4.0  # times the bandwidth while a change goes on: rows to come lie beyond the landmarks
KEPT = 1024  # measurements kept


class DriftMeasurement(NamedTuple):
    """One measurement of the drift monitor.

    Attributes
    ----------
    rows : int
        Rows of the stream so far.
    affinity : float
        Mean affinity to the nearest landmark.
    outside : float
        Share of the features' energy outside the subspace of the coder.
    shift : float
        Distance of their mean from where it was when the epoch began, in their own lengths.
    balance : float
        Mean of abs(2 share of ones - 1) over the bits.
    evidence : float
        That rows come less close to the landmarks: logarithm of an e-detector; an alarm is at
        log(1e6) = 13.8.
    proportion_evidence : float
        That proportions among the rows have changed: the same of the test of the mean embedding,
        with the same alarm. 0 while that test still learns what to expect.
    epoch : int
        The epoch of the rows.

    Notes
    -----
    `outside`, `shift` and `balance` are measured at every 8th of the first 64 measurements and at
    every 32nd after. Otherwise, and while there is no coder, they are NaN.
    """

    rows: int
    affinity: float
    outside: float
    shift: float
    balance: float
    evidence: float
    proportion_evidence: float
    epoch: int


def latest(measurements: Sequence[DriftMeasurement]) -> DriftMeasurement | None:
    """Return the last measurement, its gaps filled with the values measured last.

    Parameters
    ----------
    measurements : sequence of DriftMeasurement

    Returns
    -------
    DriftMeasurement or None
        None if there are no measurements.
    """
    if not measurements:
        return None
    filled = measurements[-1]
    for earlier in reversed(measurements):
        gaps = [name for name in DriftMeasurement._fields if math.isnan(getattr(filled, name))]
        if not gaps:
            break
        filled = filled._replace(**{name: getattr(earlier, name) for name in gaps})
    return filled


class Evidence:
    """The logarithm of an e-detector: a stake that is made 1 again whenever it falls below.

    Attributes
    ----------
    evidence : float
        An alarm is due above `ALARM`, log(A) with A = 1e6.
    since : int
        Measurements since the stake was last 1.

    Notes
    -----
    A measurement multiplies the stake by a factor that is an e-value: given the measurements before
    it, its mean is at most 1 as long as there is no change. With M(t) = max(M(t - 1), 1) e(t), the
    difference of M(t) and t then falls on average, so E[M(T)] <= E[T] at any time T at which one
    stops. Stopped when one of two such stakes exceeds A, their sum does, so A <= 2 E[T]: false
    alarms of both tests together are at least A / 2 measurements apart on average, which are 256 A
    rows. That is more than the A rows promised, and leaves room for what is estimated (the means to
    expect, beyond the tolerance).
    """

    def __init__(self) -> None:
        self.evidence, self.since = 0.0, 0

    @property
    def alarm(self) -> bool:
        """Whether the evidence suffices for an alarm."""
        return self.evidence > ALARM

    def add(self, gain: float) -> float:
        """Add what a measurement gains; returns the evidence after it."""
        if self.evidence <= 0:
            self.evidence, self.since = 0.0, 0
        self.evidence += gain
        self.since += 1
        return self.evidence


class EDetector(Evidence):
    """Evidence that the mean of numbers in [0, 1] has dropped.

    Parameters
    ----------
    mean, spread : float
        Mean and standard deviation to expect.
    tolerance : float, default 0.25
        Spreads by which the mean may drop without notice; more where mean and spread are estimated
        from few numbers (see `of`).

    Notes
    -----
    Bets against "the mean is at least `mean` - tolerance x spread": each number multiplies the
    stake by 1 + bet (bound - number), whose mean is at most 1 while that is true. A stake below 1
    is made 1 again, so a change is detected as soon after a quiet year as after a quiet minute.

    Examples
    --------
    >>> quiet = EDetector(mean=0.8, spread=0.1)
    >>> [quiet.update(np.full(64, value)) for value in (0.8, 0.8, 0.4, 0.4)]
    [False, False, True, True]
    """

    def __init__(self, mean: float, spread: float, tolerance: float = TOLERANCE) -> None:
        super().__init__()
        self.mean, self.spread, self.tolerance = mean, max(spread, 1e-3), tolerance

    @classmethod
    def of(cls, numbers: NDArray[np.float64]) -> Self:
        """Build a detector that expects more of the same numbers.

        Its tolerance is at least 2.5 standard errors, for a mean of few numbers is an estimate.
        """
        error = ERRORS / math.sqrt(len(numbers))
        return cls(float(numbers.mean()), float(numbers.std()), max(TOLERANCE, error))

    def fresh(self) -> Self:
        """Return a detector that expects the same, and has seen nothing."""
        return type(self)(self.mean, self.spread, self.tolerance)

    def update(self, numbers: NDArray[np.float64]) -> bool:
        """Add numbers (n,) in [0, 1]; returns whether the evidence suffices for an alarm."""
        self.add(float(self.gains(numbers[None])[0]))
        return self.alarm

    def gains(self, numbers: Array) -> Array:
        """What measurements (k, n) of numbers in [0, 1] add to the evidence, (k,)."""
        bound = self.mean - self.tolerance * self.spread
        bet = 0.5 * min(1 / self.spread, 1 / max(1 - bound, 1e-6))
        xp = array_namespace(numbers)
        return xp.sum(xp.log1p(bet * (bound - numbers)), axis=1)

    def state(self) -> dict[str, Any]:
        """Return the contents by name, for `from_state`."""
        names = ("mean", "spread", "tolerance", "evidence", "since")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a detector from what `state` returned."""
        self = cls(state["mean"], state["spread"], state["tolerance"])
        self.evidence, self.since = state["evidence"], state["since"]
        return self
