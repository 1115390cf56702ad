"""Bandwidths: the denominator b of the affinity exp(-distance^2 / b).

`nearest(30)` is the square of the paper's sigma_30, the mean distance of a landmark to its 30th
neighbour; `all_pairs()` is the square of sigma_all, the mean distance over all pairs. Any factor
of them (`4 * nearest(30)`) or a plain number will do. The paper prints both sigma and sigma^2 as
the denominator; only the square has the unit of a squared distance. `power=1` gives the former.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from streambits._arrays import Array, as_count, as_number, double, squared_distances, to_numpy
from streambits._threads import one_blas_thread
from streambits.errors import InputError

SMALLEST = float(np.finfo(np.float64).tiny)
BLOCK = 1024  # rows of the distance matrix held at a time


@dataclass(frozen=True)
class Bandwidth:
    """A rule for the bandwidth: factor x (a typical distance among the landmarks) ** power.

    Parameters
    ----------
    neighbour : int or None, default 30
        The typical distance is the mean distance to that many-th neighbour, or to the farthest one
        if there are fewer landmarks; None: the mean distance over all pairs.
    power : {1, 2}, default 2
        2 gives a squared distance.
    factor : float, default 1.0
        A rule can be multiplied and divided by numbers, which changes its factor.

    Raises
    ------
    InputError
        If one of them is out of range.
    """

    neighbour: int | None = 30
    power: int = 2
    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.neighbour is not None:
            as_count(self.neighbour, "neighbour")
        as_count(self.power, "power", most=2)
        as_number(self.factor, "the bandwidth's factor", above=0)

    def __mul__(self, factor: float) -> Self:
        return replace(
            self, factor=self.factor * as_number(factor, "the bandwidth's factor", above=0)
        )

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Self:
        return self * (1 / as_number(divisor, "the bandwidth's divisor", above=0))

    def of(self, landmarks: Array) -> float:
        """Measure the bandwidth on landmarks.

        Parameters
        ----------
        landmarks : array of shape (m, d)
            At least 2, not all equal.

        Returns
        -------
        float
            The denominator of the affinity. Costs m^2 d; memory m x 1024.

        Raises
        ------
        InputError
            If the typical distance is 0, or too small to square.
        """
        distance = self.distance(landmarks)
        found = self.factor * math.pow(distance, self.power)
        if found < SMALLEST:
            raise InputError(
                f"the typical distance between landmarks is {distance:.3g}, and its square is too "
                f"small for double precision: scale the data"
            )
        return found

    def distance(self, landmarks: Array) -> float:
        """Measure the typical distance among landmarks (m, d): the paper's sigma."""
        count = int(landmarks.shape[0])
        if count < 2:
            raise InputError(f"{count} landmark(s) have no distances: pass at least 2")
        rows = _centred(landmarks)
        place = None if self.neighbour is None else min(self.neighbour, count - 1)
        with one_blas_thread():
            sums = [_typical(rows, start, place) for start in range(0, count, BLOCK)]
        distance = float(sum(sums)) / count
        if distance == 0:
            raise InputError(
                "the typical distance between landmarks is 0 (all landmarks equal, or nearly all "
                "in duplicates): pass distinct rows, or a number as the bandwidth"
            )
        return distance


def nearest(neighbour: int = 30, *, power: int = 2) -> Bandwidth:
    """The mean distance of a landmark to its `neighbour`-th neighbour, squared by default.

    Parameters
    ----------
    neighbour : int, default 30
        Which neighbour.
    power : {1, 2}, default 2
        1 leaves the distance as it is.

    Returns
    -------
    Bandwidth
        The rule.

    Examples
    --------
    >>> 4 * nearest(30)
    Bandwidth(neighbour=30, power=2, factor=4.0)
    """
    return Bandwidth(as_count(neighbour, "neighbour"), as_count(power, "power", most=2))


def all_pairs(*, power: int = 2) -> Bandwidth:
    """The mean distance over all pairs of landmarks, squared by default.

    Parameters
    ----------
    power : {1, 2}, default 2
        1 leaves the distance as it is.

    Returns
    -------
    Bandwidth
        The rule.
    """
    return Bandwidth(None, as_count(power, "power", most=2))


def denominator(bandwidth: Bandwidth | float | None, landmarks: Array) -> float:
    """The number that a bandwidth stands for.

    Parameters
    ----------
    bandwidth : Bandwidth, float or None
        A rule, the number itself, or None for `nearest(30)`.
    landmarks : array of shape (m, d)
        What the rule is measured on.

    Returns
    -------
    float
        Positive and finite.
    """
    bandwidth = nearest(30) if bandwidth is None else bandwidth
    if isinstance(bandwidth, Bandwidth):
        return bandwidth.of(landmarks)
    return as_number(bandwidth, "bandwidth", above=0)


def _centred(landmarks: Array) -> Array:
    rows = to_numpy(double(landmarks))
    return rows - rows.mean(axis=0)


def _typical(rows: Array, start: int, place: int | None) -> float:
    """Sum over a block of rows of the distance to the neighbour, or of the mean distance."""
    block = rows[start : start + BLOCK]
    squared = np.maximum(squared_distances(block, rows), 0)
    here = np.arange(len(block))
    squared[here, start + here] = 0
    if place is None:
        return float(np.sqrt(squared).sum() / (len(rows) - 1))
    # its distance again by differences: duplicates are at 0, not at the rounding of a square
    neighbour = np.argpartition(squared, place, axis=1)[:, place]
    return float(np.linalg.norm(block - rows[neighbour], axis=1).sum())
