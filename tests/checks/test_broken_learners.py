"""Each check of learners catches a learner that breaks its promise, and says its name.

The learner is broken by replacing one method of a built-in class for the length of a test.
"""

from copy import deepcopy

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import streambits as sb
from streambits.checks import check_learner
from streambits.checks.learners import CHECKS
from streambits.errors import InputError
from streambits.model.refinement import Refinement

ROWS = np.random.default_rng(0).random((4200, 5)).astype(np.float32)
learn, merge, coder = sb.Learner.learn, sb.Learner.merge, sb.Learner.coder
state, checked = sb.Learner.state, sb.Learner._checked
encode, project = sb.Coder.encode, sb.Coder.project


def factory():
    """Frequent Directions that must shrink: blocks and their order leave traces."""
    features = sb.features.GaussianAffinity(ROWS[:20])
    sketch = sb.sketches.FrequentDirections(20, 8)
    return sb.Learner(features, sketch, bits=6, rotation="none", prior=ROWS[:20])


def learn_batch_by_batch(self, rows):
    rows = self._checked(rows)
    self._sketch.update(self.features(rows))
    self._sample.update(rows)
    self._stale = True
    return self


def learn_in_small_steps(self, rows):
    for start in range(0, max(len(rows), 1), 100):
        learn(self, rows[start : start + 100])
    return self


def learn_then_refuse_huge(self, rows):
    if np.asarray(rows).dtype == np.float64 and np.abs(rows).max() > 1e100:
        learn(self, rows[:5])
        raise InputError("too large")
    return learn(self, rows)


def poisoned_by_huge(self, rows):
    clipped = np.clip(rows, -1e30, 1e30) if np.asarray(rows).dtype == np.float64 else rows
    self.poisoned = clipped is not rows and bool((clipped != rows).any())
    return learn(self, clipped)


def coder_unless_poisoned(self):
    if getattr(self, "poisoned", False):
        raise ValueError("infinite")
    return coder(self)


def coder_by_threads(self):
    given = coder(self)
    if any(pool["num_threads"] == 3 for pool in threadpool_info()):
        flipped = sb.model.projection.Projection(
            -given.projection.matrix, -given.projection.thresholds
        )
        return sb.Coder(given.features, flipped, given.epoch)
    return given


def coder_that_learns(self):
    learn(self, self.sample[:1])
    return coder(self)


def live_coder(self):
    before, now = self._coder, coder(self)
    if before is None:
        return now
    before.__dict__ = dict(now.__dict__)
    return before


def bits_by_batch(self, rows, _features=None):
    values = self._values(rows)
    return np.packbits(values > values.max(axis=0) / 4, axis=1, bitorder="little")


def state_without_waiting_rows(self):
    held = state(self)
    return {**held, "waiting": held["waiting"][:0]}


def merge_without_waiting_rows(self, other):
    other = deepcopy(other)
    other._blocks.waiting = 0
    return merge(self, other)


def merge_that_takes_away(self, other):
    merge(self, other)
    other._blocks.waiting = 0
    return self


def merge_that_boasts(self, other):
    merge(self, other)
    self._sketch._shrinkage = self._sketch._rounding = 0.0
    return self


def next_epoch(self, rows):
    codes = encode(self, rows)
    return sb.Codes(codes.packed, codes.bits, codes.epoch + 1)


def all_equal(self, rows):
    codes = encode(self, rows)
    return sb.Codes(0 * codes.packed, codes.bits, codes.epoch)


LEARNER, CODER = sb.Learner, sb.Coder
BROKEN = [
    ("check_learner_seen", LEARNER, "seen", property(lambda self: self._sketch.seen)),
    ("check_learner_codes", CODER, "encode", next_epoch),
    ("check_learner_codes", CODER, "encode", all_equal),
    ("check_learner_decode", CODER, "decode", lambda _, codes: np.zeros((len(codes), 5))),
    ("check_learner_split", LEARNER, "learn", learn_batch_by_batch),
    ("check_learner_threads", LEARNER, "coder", coder_by_threads),
    ("check_learner_isolated_rows", CODER, "_packed", bits_by_batch),
    ("check_learner_project", CODER, "project", lambda self, rows: -project(self, rows)),
    ("check_learner_coder_changes_nothing", LEARNER, "coder", coder_that_learns),
    ("check_learner_coder_frozen", LEARNER, "coder", live_coder),
    ("check_learner_memory", LEARNER, "nbytes", property(lambda self: 8 * self.seen)),
    ("check_learner_save", LEARNER, "state", state_without_waiting_rows),
    ("check_learner_fresh", LEARNER, "fresh", deepcopy),
    ("check_learner_merge", LEARNER, "merge", merge_without_waiting_rows),
    ("check_learner_merge", LEARNER, "merge", merge_that_takes_away),
    ("check_learner_certificate", LEARNER, "merge", merge_that_boasts),
    ("check_learner_merge_refusal", LEARNER, "_check_mergeable", lambda *_: None),
    (
        "check_learner_bad_rows",
        LEARNER,
        "_checked",
        lambda self, rows: checked(self, np.nan_to_num(rows)),
    ),
    ("check_learner_bad_rows", LEARNER, "learn", learn_in_small_steps),
    ("check_learner_huge_rows", LEARNER, "learn", learn_then_refuse_huge),
]


@pytest.mark.parametrize(
    ("name", "kind", "attribute", "replacement"),
    BROKEN,
    ids=[f"{name}-{getattr(new, '__name__', attribute)}" for name, _, attribute, new in BROKEN],
)
def test_caught(name, kind, attribute, replacement, monkeypatch):
    monkeypatch.setattr(kind, attribute, replacement)
    with pytest.raises(AssertionError, match=rf"^{name}: "):
        check_learner(factory, ROWS)


def test_a_learner_that_huge_rows_break_for_ever_is_caught(monkeypatch):
    monkeypatch.setattr(sb.Learner, "learn", poisoned_by_huge)
    monkeypatch.setattr(sb.Learner, "coder", coder_unless_poisoned)
    with pytest.raises(AssertionError, match=r"^check_learner_huge_rows: raised ValueError"):
        check_learner(factory, ROWS)


def refined():
    return sb.ssbc(ROWS[:20], 6, refine=2, certified=True, epochs="never")


def refitted(self, signs):
    self._refinement = None
    return fit(self, signs)


fit, decode, bounds = sb.Learner._refined, sb.Coder.decode, Refinement.bounds


@pytest.mark.parametrize(
    ("kind", "attribute", "replacement", "complaint"),
    [
        (sb.Learner, "_refined", refitted, "decode as before"),
        (sb.Coder, "decode", lambda self, codes: decode(self, codes) + 9, "nearer than the mean"),
        (Refinement, "bounds", lambda self, some: 0.9 * bounds(self, some), "within its bound"),
    ],
)
def test_a_refinement_that_does_not_keep_its_promises_is_caught(
    kind, attribute, replacement, complaint, monkeypatch
):
    monkeypatch.setattr(kind, attribute, replacement)
    with pytest.raises(AssertionError, match=rf"^check_learner_decode: .*{complaint}"):
        check_learner(refined, ROWS)


@pytest.mark.parametrize("whole", [factory, refined])
def test_the_learner_that_was_broken_is_whole(whole):
    """Otherwise the tests above would prove nothing."""
    check_learner(whole, ROWS)


def test_a_learner_without_a_certificate_must_say_so():
    def fixed():
        return sb.methods.lsh(ROWS[:20], 6)

    with pytest.raises(AssertionError, match=r"^check_learner_certificate: was not tested"):
        check_learner(fixed, ROWS)
    report = check_learner(fixed, ROWS, skip=["check_learner_certificate"])
    assert report.skipped == ("check_learner_certificate",)


def test_every_check_has_something_that_it_catches():
    assert {name for name, *_ in BROKEN} == {check.__name__ for check in CHECKS}
