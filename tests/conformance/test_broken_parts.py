"""Every check of sketches and learners catches a part that breaks its promise."""

from contextlib import nullcontext
from copy import deepcopy

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import streambits as sb
from conformance import learners, sinks, sketches
from streambits import Coder, Codes, Learner
from streambits.errors import InputError
from streambits.model.batches import CodeBatch
from streambits.model.projection import Projection
from streambits.sketches import Directions, FrequentDirections, Gram

ROWS = np.random.default_rng(0).random((4200, 5)).astype(np.float32)


def broken(kind, **attributes):
    """A subclass with something else in place of these attributes."""
    return type("Broken", (kind,), attributes)


FAILS = (AssertionError, pytest.fail.Exception)


# Sketches: a Gram matrix, or Frequent Directions that must shrink


def holds_back_small_batches(self, rows):
    if len(rows) >= 8:
        Gram.update(self, rows)


def trips_over_seven(self, rows):
    Gram.update(self, np.repeat(rows[:1], 7, axis=0) if len(rows) == 7 else rows)


def flattens_seven(self, contribution, correction):
    """Counts and mean are right, and the scatter of some batches is lost."""
    body = contribution.body * (contribution.rows != 7)
    Gram._accumulate(self, contribution._replace(body=body), correction)


def prepare_counts(self, rows):
    self._rounding += 1
    return Gram.prepare(self, rows)


def merge_empties_the_other(self, other):
    Gram.merge(self, other)
    other._sum *= 0


def empty_resets(self, other):
    Gram.merge(self, other)
    self._running.seen *= other.seen > 0


def empty_wipes(self, other):
    Gram.merge(self, other)
    self._sum *= other.seen > 0


def merges_anything(self, other):
    if type(other) is type(self):
        Gram.merge(self, other)


def weakest_first(self, count, *, extra=0):
    vectors, energies = Gram.directions(self, count, extra=extra)
    return Directions(vectors[:, ::-1], energies[::-1])


def total_energies(self, count, *, extra=0):
    vectors, energies = Gram.directions(self, count, extra=extra)
    return Directions(vectors, energies * self.seen)


def gives_fewer(self, count, *, extra=0):
    return Gram.directions(self, min(count, self.width), extra=extra)


def state_forgets_shrinkage(kind, state):
    return FrequentDirections.from_state.__func__(kind, {**state, "shrinkage": 0.0})


SKETCHES = {
    "fresh": broken(Gram, fresh=Gram.copy),
    "counts": broken(Gram, update=holds_back_small_batches),
    "mean": broken(Gram, mean=property(lambda self: Gram.mean.fget(self) / 2)),
    # as in the reference code of Frequent Directions: rows of a half-full buffer are not read
    "certificate": broken(
        FrequentDirections,
        matrix=property(lambda self: FrequentDirections.matrix.fget(self)[: self.size - 1]),
    ),
    "split": broken(Gram, update=trips_over_seven),
    "certificate_of_split": broken(Gram, _accumulate=flattens_seven),
    "prepare": broken(Gram, prepare=prepare_counts),
    "merge": broken(Gram, merge=merge_empties_the_other),
    "merge_with_empty": broken(Gram, merge=empty_resets),
    "certificate_of_merge": broken(Gram, merge=empty_wipes),
    "merge_refusal": broken(Gram, merge=merges_anything),
    "copy": broken(Gram, copy=lambda self: self),
    "state": broken(
        FrequentDirections, copy=deepcopy, from_state=classmethod(state_forgets_shrinkage)
    ),
    "memory": broken(Gram, nbytes=property(lambda self: 8 * self.seen)),
    "directions": broken(Gram, directions=weakest_first),
    "energies": broken(Gram, directions=total_energies),
    "learns": broken(Gram, learns=False),
    "rank_error": broken(Gram, directions=gives_fewer),
}


@pytest.mark.parametrize("name", SKETCHES)
def test_sketches(name):
    kind, rows = SKETCHES[name], ROWS[:100].astype(np.float64)
    sizes = (5, 4) if issubclass(kind, FrequentDirections) else (5,)
    with pytest.raises(FAILS):
        getattr(sketches, f"check_sketch_{name}")(lambda: kind(*sizes), rows)


# Learners: broken by one method that is replaced for the length of a test

learn, merge, coder, state = Learner.learn, Learner.merge, Learner.coder, Learner.state
checked, encode, project = Learner._checked, Coder.encode, Coder.project


def next_epoch(self, rows):
    codes = encode(self, rows)
    return Codes(codes.packed, codes.bits, codes.epoch + 1)


def learn_batch_by_batch(self, rows):
    rows = self._checked(rows)
    self._sketch.update(self.features(rows))
    self._sample.update(rows)
    self._stale = True
    return self


def coder_by_threads(self):
    given = coder(self)
    if any(pool["num_threads"] == 3 for pool in threadpool_info()):
        flipped = Projection(-given.projection.matrix, -given.projection.thresholds)
        return Coder(given.features, flipped, given.epoch)
    return given


def bits_by_batch(self, rows, _features=None):
    values = self._values(rows)
    return np.packbits(values > values.max(axis=0) / 4, axis=1, bitorder="little")


def coder_that_learns(self):
    learn(self, self.sample[:1])
    return coder(self)


def live_coder(self):
    before, now = self._coder, coder(self)
    if before is None:
        return now
    before.__dict__ = dict(now.__dict__)
    return before


def state_without_waiting_rows(self):
    whole = state(self)
    return {**whole, "waiting": whole["waiting"][:0]}


def merge_without_waiting_rows(self, other):
    other = deepcopy(other)
    other._blocks.waiting = 0
    return merge(self, other)


def merge_that_boasts(self, other):
    merge(self, other)
    self._sketch._shrinkage = self._sketch._rounding = 0.0
    return self


def learn_then_refuse_huge(self, rows):
    if np.asarray(rows).dtype == np.float64 and np.abs(rows).max() > 1e100:
        learn(self, rows[:5])
        raise InputError("too large")
    return learn(self, rows)


LEARNERS = {
    "seen": (Learner, "seen", property(lambda self: self._sketch.seen)),
    "codes": (Coder, "encode", next_epoch),
    "decode": (Coder, "decode", lambda _, codes: np.zeros((len(codes), 5))),
    "split": (Learner, "learn", learn_batch_by_batch),
    "threads": (Learner, "coder", coder_by_threads),
    "isolated_rows": (Coder, "_packed", bits_by_batch),
    "project": (Coder, "project", lambda self, rows: -project(self, rows)),
    "coder_changes_nothing": (Learner, "coder", coder_that_learns),
    "coder_frozen": (Learner, "coder", live_coder),
    "memory": (Learner, "nbytes", property(lambda self: 8 * self.seen)),
    "save": (Learner, "state", state_without_waiting_rows),
    "fresh": (Learner, "fresh", deepcopy),
    "merge": (Learner, "merge", merge_without_waiting_rows),
    "certificate": (Learner, "merge", merge_that_boasts),
    "merge_refusal": (Learner, "_check_mergeable", lambda *_: None),
    "bad_rows": (Learner, "_checked", lambda self, rows: checked(self, np.nan_to_num(rows))),
    "huge_rows": (Learner, "learn", learn_then_refuse_huge),
}


def shrinking():
    features, sketch = sb.features.GaussianAffinity(ROWS[:20]), FrequentDirections(20, 8)
    return Learner(features, sketch, bits=6, rotation="none", prior=ROWS[:20])


@pytest.mark.parametrize("name", LEARNERS)
def test_learners(name, monkeypatch):
    monkeypatch.setattr(*LEARNERS[name])
    with pytest.raises(FAILS):
        getattr(learners, f"check_learner_{name}")(shrinking, ROWS)


# Sinks


class Sink:
    """Codes in a dict that outlives the sink, as a table outlives a connection."""

    name = "mine"

    def __init__(self, table):
        self.table, self.waiting = table, []

    def write(self, ids, codes):
        self.waiting += list(zip(np.asarray(ids).tolist(), codes))

    def remove(self, ids):
        self.waiting += [(key, None) for key in np.asarray(ids).tolist()]

    def commit(self):
        self.table |= dict(self.waiting)
        for key in [key for key, code in self.table.items() if code is None]:
            del self.table[key]
        self.waiting = []

    def close(self):
        self.commit()


def keeps_the_first(self):
    self.waiting = [(key, code and self.table.get(key, code)) for key, code in self.waiting]
    Sink.commit(self)


def without_epochs(self):
    self.waiting = [(key, code and Codes(code.packed, 12)) for key, code in self.waiting]
    Sink.commit(self)


def begins_anew(self, table):
    table.clear()
    Sink.__init__(self, table)


SINKS = {
    "whole": {},
    "commits nothing": {"commit": lambda _: None, "close": Sink.commit},
    "closes without a commit": {"close": lambda _: None},
    "keeps the first": {"commit": keeps_the_first},
    "without epochs": {"commit": without_epochs},
    "begins anew": {"__init__": begins_anew},
    "removes nothing": {"remove": lambda *_: None},
}


@pytest.mark.parametrize("name", SINKS)
def test_the_history_of_sinks(name):
    def place():
        kind, table = broken(Sink, **SINKS[name]), {}
        return lambda: kind(table), lambda: (CodeBatch([key], code) for key, code in table.items())

    numbers = np.random.default_rng(0).permutation(2**12)[:80]
    codes = Codes.from_bits((numbers[:, None] >> np.arange(12)) & 1)
    with nullcontext() if name == "whole" else pytest.raises(AssertionError):
        sinks.check_history(place, codes)


def test_every_check_has_something_that_it_catches():
    checks = {check.__name__ for kind in (sketches, learners) for check in kind.CHECKS}
    caught_here = {f"check_sketch_{n}" for n in SKETCHES} | {f"check_learner_{n}" for n in LEARNERS}
    assert caught_here == checks
