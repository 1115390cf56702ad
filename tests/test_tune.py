import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError
from streambits.tune import Choice, choices, tune

RNG = np.random.default_rng(0)
CURVED = (RNG.random((1200, 20)) / np.arange(1, 21) ** 2).astype(np.float32)
ROUND = RNG.standard_normal((1200, 12)).astype(np.float32) * np.linspace(3, 1, 12, dtype=np.float32)


def test_the_default_is_tried_first_and_nothing_twice_matters():
    tried = list(choices(Choice(n_landmarks=100)))
    assert tried[0] == Choice(n_landmarks=100)
    assert not tried[1].kernel
    assert {c.rotation for c in tried} == {"itq", "none", "random"}
    assert {c.landmarks_by for c in tried} == {"uniform", "centres"}


def test_what_it_chooses_has_the_best_score_of_the_finalists_or_is_the_default():
    tuned = tune(CURVED, 16, n_landmarks=60, seconds=5)
    finals = {t.choice: t.score for t in tuned.trials if t.finalist}
    assert finals[tuned.choice] >= finals[Choice(n_landmarks=60)]
    if tuned.choice != Choice(n_landmarks=60):
        assert finals[tuned.choice] == max(finals.values())
    assert "chosen: " in str(tuned)


def test_the_choice_comes_ready_to_learn_and_is_the_same_each_time():
    first, again = (tune(CURVED, 12, n_landmarks=50, seconds=1e-6, seed=3) for _ in range(2))
    left, right = (t.learner().learn(CURVED).coder().encode(CURVED) for t in (first, again))
    assert left == right
    assert left.bits == 12


def test_a_linear_method_wins_where_bandwidths_are_hopeless():
    """Few landmarks in many equal directions carry little; the rows themselves carry all."""
    tuned = tune(ROUND, 12, target="map", n_landmarks=12, seconds=5)
    scores = {t.choice: t.score for t in tuned.trials if t.finalist}
    assert scores[tuned.choice] > scores[Choice(n_landmarks=12)] + 0.002
    assert not tuned.choice.kernel


def test_the_time_limit_holds_after_the_first_two():
    tuned = tune(CURVED, 8, n_landmarks=50, seconds=1e-9)
    assert len(tuned.trials) == 2


def test_more_bits_than_columns_leave_the_linear_rival_without_a_score():
    tuned = tune(CURVED, 32, n_landmarks=60, seconds=1e-9)
    (linear,) = [t for t in tuned.trials if not t.choice.kernel]
    assert linear.score < 0
    assert tuned.choice.kernel


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "speed"}, "target"),
        ({"seconds": 0}, "seconds"),
        ({"n_landmarks": 1}, "n_landmarks"),
        ({"bits": 0}, "bits"),
        ({"sample": CURVED[:50]}, "at least 200"),
        ({"sample": np.full((300, 3), np.nan)}, "NaN"),
    ],
)
def test_bad_input(change, message):
    settings = {"sample": CURVED, "bits": 8} | change
    with pytest.raises(InputError, match=message):
        sb.tune(settings.pop("sample"), settings.pop("bits"), **settings)


def test_landmarks_are_halved_until_the_memory_suffices():
    whole = Choice(n_landmarks=400).build(CURVED[:400], 8, 0).coder().nbytes
    tuned = tune(CURVED, 8, n_landmarks=400, seconds=1e-9, memory=whole // 3)
    assert tuned.choice.n_landmarks in (100, 50)
    assert tuned.learner().coder().nbytes <= whole // 3


def test_a_limit_that_nothing_meets_is_an_error():
    with pytest.raises(InputError, match="use lsh"):
        tune(CURVED, 8, n_landmarks=100, seconds=1e-9, speed=1e12)
