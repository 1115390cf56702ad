import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from streambits.errors import InputError
from streambits.tune import LADDER, Trial, _split, choices, code_size, splits, tune, usual

RNG = np.random.default_rng(0)
CURVED = (RNG.random((1200, 20)) / np.arange(1, 21) ** 2).astype(np.float32)
ROUND = RNG.standard_normal((1200, 12)).astype(np.float32) * np.linspace(3, 1, 12, dtype=np.float32)


def test_the_default_is_tried_first_and_nothing_twice_matters():
    tried = list(choices(usual(16, 100)))
    assert tried[0] == usual(16, 100)
    assert tried[1].method == "linear"
    assert {c.rotation for c in tried} == {"itq", "none", "random"}
    assert {c.landmarks_by for c in tried} == {"uniform", "centres"}


def test_what_it_chooses_has_the_best_score_of_the_finalists_or_is_the_default():
    tuned = tune(CURVED, 16, n_landmarks=60, seconds=5)
    finals = {t.settings: t.score for t in tuned.trials if t.finalist}
    assert finals[tuned.settings] >= finals[usual(16, 60)]
    if tuned.settings != usual(16, 60):
        assert finals[tuned.settings] == max(finals.values())
    assert "best: " in str(tuned)


def test_a_linear_method_wins_where_bandwidths_are_hopeless():
    """Few landmarks in many equal directions carry little; the rows themselves carry all."""
    tuned = tune(ROUND, 12, target="map", n_landmarks=12, seconds=5)
    scores = {t.settings: t.score for t in tuned.trials if t.finalist}
    assert scores[tuned.settings] > scores[usual(12, 12)] + 0.002
    assert tuned.settings.method == "linear"


def test_without_time_the_default_is_tried_and_is_ready_to_learn():
    first, again = (tune(CURVED, 12, n_landmarks=50, seconds=1e-9, seed=3) for _ in range(2))
    assert [trial.settings for trial in first.trials] == [first.settings] == [usual(12, 50, 3)]
    left, right = (t.learner().learn(CURVED).coder().encode(CURVED) for t in (first, again))
    assert left == right
    assert (left.bits, left.refine, first.candidates) == (12, 0, None)


def test_no_trial_begins_that_would_end_after_the_time(monkeypatch):
    """By a clock that moves only while something is measured: two seconds per trial."""
    clock = [0.0]
    module = sys.modules["streambits.tune"]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def score(_, settings):
        clock[0] += 2.0
        return Trial(settings, 0.5, 2.0, recalls=(0.5,))

    monkeypatch.setattr(module._Judge, "score", score)
    for seconds in (1.0, 2.0, 5.0, 30.0, 100.0):
        clock[0] = 0.0
        tune(CURVED, 8, n_landmarks=50, seconds=seconds)
        assert clock[0] <= max(seconds, 2.0)


def test_more_bits_than_columns_leave_the_linear_rival_without_a_score():
    tuned = tune(CURVED, 32, n_landmarks=60, seconds=5)
    linear = [t for t in tuned.trials if t.settings.method == "linear"]
    assert {t.score for t in linear} == {-1.0}
    assert tuned.settings.method == "ssbc"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "speed"}, "target"),
        ({"seconds": 0}, "seconds"),
        ({"n_landmarks": 1}, "n_landmarks"),
        ({"bits": 0}, "bits"),
        ({"sample": CURVED[:50]}, "at least 200"),
        ({"sample": np.full((300, 3), np.nan)}, "NaN"),
        ({"bytes": 16}, "bits is 8 and bytes is 16: set bits"),
        ({"bits": None, "bytes": 1}, "bytes is 1"),
        ({"bits": None, "bytes": 16, "target": "map"}, "target='recall', or bits"),
        ({"bits": None, "bytes": 16, "candidates": 5}, "candidates is 5"),
    ],
)
def test_bad_input(change, message):
    settings = {"sample": CURVED, "bits": 8} | change
    with pytest.raises(InputError, match=message):
        sb.tune(settings.pop("sample"), settings.pop("bits"), **settings)


def test_landmarks_are_halved_until_the_memory_suffices():
    whole = usual(8, 400).build(CURVED[:400]).coder().nbytes
    tuned = tune(CURVED, 8, n_landmarks=400, seconds=1e-9, memory=whole // 3)
    assert tuned.settings.n_landmarks in (100, 50)
    assert tuned.learner().coder().nbytes <= whole // 3


def test_a_limit_that_nothing_meets_is_an_error():
    with pytest.raises(InputError, match="use lsh"):
        tune(CURVED, 8, n_landmarks=100, seconds=1e-9, speed=1e12)


def searched(n_bytes, columns, scores, *, n_landmarks=200, scan=False):
    """All settings that are tried for some bytes, where `scores` says how good they are."""
    default = _split(usual(8, n_landmarks), n_bytes // 2, n_bytes, columns)
    tried = {}
    for settings in splits(default, n_bytes, columns, tried, scan=scan):
        tried.setdefault(settings, Trial(settings, scores(settings), 0.0))
    return tried


@given(st.integers(2, 64), st.integers(1, 300), st.integers(2, 300), st.booleans())
def test_every_split_uses_the_bytes_and_is_possible(n_bytes, columns, n_landmarks, scan):
    tried = searched(n_bytes, columns, lambda s: s.bits / 1000, n_landmarks=n_landmarks, scan=scan)
    for settings in tried:
        assert -(-settings.sign_bits // 8) + settings.refine == n_bytes
        assert settings.refine >= 1
        most = {"ssbc": n_landmarks, "linear": columns, "product": 0}[settings.method]
        assert settings.sign_bits <= most
    assert ("product" in {settings.method for settings in tried}) is scan


@given(st.integers(2, 64), st.integers(1, 63), st.booleans())
def test_the_best_split_is_found_where_one_is_best(n_bytes, best, linear):
    best = min(best, n_bytes - 1)

    def score(settings):
        liked = (settings.method == "linear") is linear
        return 0.9 - abs(n_bytes - settings.refine - best) / 100 - (0 if liked else 0.01)

    tried = searched(n_bytes, 1000, score, n_landmarks=1000)
    found = max(tried.values(), key=lambda trial: trial.score).settings
    assert found.refine == n_bytes - best
    assert (found.method == "linear") is linear


def test_few_trials_find_the_split_of_16_bytes():
    tried = searched(16, 128, lambda s: 0.6 - abs(s.bits - 48) / 1000)
    plain = [s for s in tried if (s.rotation, s.bandwidth_factor) in (("itq", 1.0), ("itq", None))]
    assert len({(s.method, s.bits) for s in plain}) <= 12


def test_a_number_of_bytes_gives_refined_codes_of_that_size():
    tuned = tune(CURVED, bytes=6, n_landmarks=60, seconds=4)
    assert tuned.settings.sign_bits >= 1
    assert all(t.settings.method != "product" for t in tuned.trials)
    assert tuned.candidates in {50, 100, 200, 300}
    codes = tuned.learner().learn(CURVED).coder().encode(CURVED)
    assert codes.packed.shape[1] + codes.refine == 6
    assert "; candidates " in str(tuned)
    assert code_size(tuned.settings) in str(tuned)


def test_without_time_half_of_the_bytes_are_sign_bits():
    tuned = tune(CURVED, bytes=8, n_landmarks=60, seconds=1e-9)
    assert (tuned.settings.bits, tuned.settings.refine) == (32, 4)
    [trial] = tuned.trials
    assert len(trial.recalls) == len(LADDER)
    assert trial.recalls[-1] == trial.score


def test_codes_without_sign_bits_are_chosen_where_a_scan_is_allowed():
    """Nothing is lost to candidates, and all bytes say where a row is."""
    tuned = tune(CURVED, bytes=6, n_landmarks=60, seconds=4, scan=True)
    assert tuned.settings.method == "product"
    assert tuned.candidates == "all"
    coder = tuned.learner().coder()  # before it has learned a row
    assert (coder.bits, coder.refine) == (0, 6)
