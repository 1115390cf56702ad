"""Settings of a job: what they become, and what is refused before there is a job."""

from dataclasses import fields

import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError
from streambits.methods import METHODS
from streambits.methods.choose import choose_features
from streambits.methods.settings import MethodSettings, Settings


def test_each_setting_reaches_the_learner(rows):
    settings = Settings(8, n_landmarks=40, whitening=0.25, rotation="random", bandwidth_factor=4.0)
    learner = settings.learner([rows[:400]])
    usual = sb.bandwidth.nearest(30).of(learner.features.landmarks)
    assert (learner.whitening, learner.rotation) == (0.25, "random")
    assert learner.features.bandwidth == pytest.approx(4 * usual, rel=1e-12)


def test_a_factor_holds_for_later_epochs_too(rows):
    learner = Settings(8, n_landmarks=40, bandwidth_factor=4.0).learner([rows[:400]])
    learner.learn(100 * rows).renew()
    usual = sb.bandwidth.nearest(30).of(learner.features.landmarks)
    assert learner.features.bandwidth == pytest.approx(4 * usual, rel=1e-12)


def test_landmarks_are_drawn_or_centres_for_any_batches(rows, parts):
    for size in (400, 70):
        batches = parts(rows[:400], size)
        drawn, also, found = (
            Settings(8, "ssbc", n_landmarks=40, landmarks_by=way, seed=3)
            .learner(batches)
            .features.landmarks
            for way in ("uniform", "uniform", "centres")
        )
        np.testing.assert_array_equal(drawn, sb.reservoir([rows[:400]], 40, seed=3))
        np.testing.assert_array_equal(also, drawn)
        np.testing.assert_array_equal(
            found, sb.features.centres(rows[:400].astype(float), 40, seed=3)
        )


def test_auto_is_the_method_that_finds_more_of_the_first_rows(rows):
    curved = np.random.default_rng(0).random((1000, 2)) * 6
    curved = np.column_stack([np.sin(k * curved) for k in (1, 2, 3, 4)]).astype(np.float32)
    wide = np.random.default_rng(0).standard_normal((1000, 64)) * 0.9 ** np.arange(64)
    for first in (curved, wide.astype(np.float32)):
        settings = Settings(8, n_landmarks=100)
        choice = choose_features(first, 8, n_landmarks=100)
        assert settings.resolved([first]).method == choice.method
        kernel = isinstance(settings.learner([first]).features, sb.features.GaussianAffinity)
        assert kernel == (choice.method == "ssbc")
    for only in ({"bandwidth": 2.0}, {"epsilon": 2.0}, {"landmarks_by": "centres"}):
        assert Settings(8, **only).resolved([wide]).method == "ssbc"
    assert Settings(8).checked() == Settings(8)


def test_bits_and_bytes_of_a_code():
    for settings, expected in (
        (Settings(), (64, 0)),
        (Settings(32, "ssbc", refine=8, certified=True), (32, 9)),
        (Settings(method="product"), (0, 8)),
        (Settings(method="product", refine=16), (0, 16)),
    ):
        assert (settings.sign_bits, settings.refinement_bytes) == expected


def test_itq_and_pcah_are_linear_with_a_rotation(rows, fingerprint):
    for method, rotation in (("itq", "itq"), ("pcah", "none")):
        known = Settings(6, method, n_landmarks=40).learner([rows[:400]])
        linear = Settings(6, "linear", n_landmarks=40, rotation=rotation, epochs="never")
        found = linear.learner([rows[:400]])
        assert fingerprint(found) == fingerprint(known)


@pytest.mark.parametrize("method", METHODS)
def test_the_defaults_of_every_method_are_filled_in(method, rows, fingerprint):
    left = Settings(8, method, n_landmarks=40)
    filled = left.checked()
    taken = METHODS[method].settings
    for name, value in filled.arguments().items():
        assert taken[name].default == value
    unset = {f.name for f in fields(MethodSettings)} - filled.arguments().keys()
    assert all(name not in taken or taken[name].default is None for name in unset)
    first, second = (s.learner([rows[:400]]) for s in (left, filled))
    assert fingerprint(first) == fingerprint(second)


def test_every_setting_of_a_method_is_declared_or_no_number():
    """Else jobs, the command line and the adapter do not have it."""
    special = {"seed", "reference", "paper"}
    declared = {f.name for f in fields(Settings)}
    for name, method in METHODS.items():
        missing = set(method.settings) - declared - special
        assert not missing, (name, missing)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"method": "lsh"}, "method is 'lsh'; choose one of auto, ssbc"),
        ({"method": "osh"}, "'osh' is not in streambits since .* in paper/methods .*: use linear"),
        ({"bits": 5000}, "bits is 5000"),
        ({"n_landmarks": 7}, "bits is 8, and ssbc has at most 7 bits: one per landmark; ask for"),
        ({"bits": 1, "n_landmarks": 1}, "at least 2"),
        ({"whitening": 1.5}, "whitening is 1.5; it must be .* at most 1"),
        ({"whitening": float("nan")}, "whitening is nan"),
        ({"rotation": "left"}, "rotation is 'left'; choose one of"),
        ({"bandwidth": 0.0}, "bandwidth is 0.0; it must be finite and above 0"),
        ({"bandwidth_factor": -1.0}, "factor is -1.0; it must be finite and above 0"),
        ({"bandwidth": 3.0, "bandwidth_factor": 2.0}, "bandwidth is 3 and .*factor 2: give one"),
        ({"landmarks_by": "grid"}, "landmarks_by is 'grid'; choose one of uniform, centres"),
        ({"method": "linear", "landmarks_by": "centres"}, "linear has no landmarks: leave it out"),
        ({"method": "itq", "whitening": 0.5}, "itq has no setting 'whitening': it takes"),
        ({"half_life": -1.0}, "half_life is -1.0"),
        ({"epochs": 3}, "epochs is 3"),
    ],
)
def test_what_no_method_takes_is_refused_before_the_first_row(change, complaint):
    with pytest.raises(InputError, match=complaint):
        Settings(**{"bits": 8} | change).checked()
