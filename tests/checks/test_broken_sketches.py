"""Each check of sketches catches a sketch that breaks its promise, and says its name."""

from copy import deepcopy

import numpy as np
import pytest

import streambits as sb
from streambits.checks import check_sketch
from streambits.checks.sketches import CHECKS

ROWS = np.random.default_rng(0).random((100, 6))


class FreshIsACopy(sb.Gram):
    def fresh(self):
        return self.copy()


class FreshForgetsItsSettings(sb.FrequentDirections):
    def fresh(self):
        return type(self)(self.width, self.size + 1)


class HoldsBackSmallBatches(sb.Gram):
    def update(self, rows):
        if len(rows) >= 8:
            super().update(rows)


class LosesPendingRows(sb.FrequentDirections):
    """As in the reference code of Frequent Directions: rows of a half-full buffer are not read."""

    @property
    def matrix(self):
        return super().matrix[: self.size - 1]


class HalfMean(sb.Gram):
    @property
    def mean(self):
        return super().mean / 2


class ClaimsTooMuch(sb.FrequentDirections):
    @property
    def certificate(self):
        return 0.0


class AddsInsteadOfShrinking(sb.FrequentDirections):
    """More than the rows had: A'A - B'B is negative."""

    @property
    def matrix(self):
        return super().matrix * (3 if self.seen > 20 else 1)


class ForgetsTheMeanCorrection(sb.Gram):
    def _accumulate(self, contribution, correction):
        super()._accumulate(contribution, correction[:0])


class TripsOverSeven(sb.Gram):
    def update(self, rows):
        super().update(np.repeat(rows[:1], 7, axis=0) if len(rows) == 7 else rows)


class PrepareCounts(sb.Gram):
    def prepare(self, rows):
        self._rounding += 1
        return super().prepare(rows)


class MergeDoesNothing(sb.Gram):
    def merge(self, other):
        pass


class MergeEmptiesTheOther(sb.Gram):
    def merge(self, other):
        super().merge(other)
        other._sum *= 0


class EmptyWipes(sb.Gram):
    def merge(self, other):
        super().merge(other)
        self._sum *= other.seen > 0


class MergesAnything(sb.Gram):
    def merge(self, other):
        if type(other) is type(self):
            super().merge(other)


class CopyIsItself(sb.Gram):
    def copy(self):
        return self


class StateForgetsShrinkage(sb.FrequentDirections):
    def copy(self):
        return deepcopy(self)

    @classmethod
    def from_state(cls, state):
        return super().from_state({**state, "shrinkage": 0.0})


class Grows(sb.Gram):
    @property
    def nbytes(self):
        return super().nbytes + 8 * self.seen


class LongDirections(sb.Gram):
    def directions(self, count, *, extra=0):
        vectors, energies = super().directions(count, extra=extra)
        return sb.sketches.Directions(2 * vectors, energies)


class WeakestFirst(sb.Gram):
    def directions(self, count, *, extra=0):
        vectors, energies = super().directions(count, extra=extra)
        return sb.sketches.Directions(vectors[:, ::-1], energies[::-1])


class TotalEnergies(sb.Gram):
    def directions(self, count, *, extra=0):
        vectors, energies = super().directions(count, extra=extra)
        return sb.sketches.Directions(vectors, energies * self.seen)


class TurnsThoughFixed(sb.Fixed):
    def directions(self, count, *, extra=0):
        found = super().directions(count, extra=extra)
        return found._replace(vectors=-found.vectors) if self.seen else found


class GivesFewer(sb.Gram):
    def directions(self, count, *, extra=0):
        return super().directions(min(count, self.width), extra=extra)


def _gram(kind):
    return lambda: kind(6)


def _shrinking(kind):
    return lambda: kind(6, 4)


BROKEN = {
    FreshIsACopy: (_gram, "check_fresh"),
    FreshForgetsItsSettings: (_shrinking, "check_fresh"),
    HoldsBackSmallBatches: (_gram, "check_counts_all"),
    LosesPendingRows: (_shrinking, "check_counts_all"),
    HalfMean: (_gram, "check_mean"),
    ClaimsTooMuch: (_shrinking, "check_certificate"),
    AddsInsteadOfShrinking: (_shrinking, "check_certificate"),
    ForgetsTheMeanCorrection: (_gram, "check_certificate"),
    TripsOverSeven: (_gram, "check_split"),
    PrepareCounts: (_gram, "check_prepare"),
    MergeDoesNothing: (_gram, "check_merge"),
    MergeEmptiesTheOther: (_gram, "check_merge"),
    EmptyWipes: (_gram, "check_merge_with_empty"),
    MergesAnything: (_gram, "check_merge_refuses"),
    CopyIsItself: (_gram, "check_copy"),
    StateForgetsShrinkage: (_shrinking, "check_state"),
    Grows: (_gram, "check_memory"),
    LongDirections: (_gram, "check_directions"),
    WeakestFirst: (_gram, "check_directions"),
    TotalEnergies: (_gram, "check_energies"),
    TurnsThoughFixed: (lambda kind: lambda: kind(np.eye(6)[:, :3]), "check_learns"),
    GivesFewer: (_gram, "check_rank_error"),
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_caught(kind):
    factory, name = BROKEN[kind]
    with pytest.raises(AssertionError, match=rf"^{name}: "):
        check_sketch(factory(kind), ROWS)


def test_every_check_has_something_that_it_catches():
    assert {name for _, name in BROKEN.values()} == {check.__name__ for check in CHECKS}
