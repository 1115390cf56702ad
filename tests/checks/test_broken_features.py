"""Each check of features catches features that break its promise, and says its name."""

import numpy as np
import pytest

import streambits as sb
from streambits.checks import check_features
from streambits.checks.features import CHECKS
from streambits.errors import InputError

ROWS = np.random.default_rng(0).random((30, 4)).astype(np.float32)


class TooWide(sb.Linear):
    def __call__(self, rows):
        return np.repeat(super().__call__(rows), 2, axis=1)


class Infinite(sb.Linear):
    def __call__(self, rows):
        return np.where(rows > 0.99, np.inf, super().__call__(rows))


class Coarse(sb.Linear):
    def __call__(self, rows):
        return super().__call__(rows).astype(np.float16)


class OneNoiseForAll(sb.Linear):
    def noise(self, rows, features):
        return super().noise(rows, features)[:1]


class CentresTheBatch(sb.Linear):
    def __call__(self, rows):
        return rows - rows.mean(axis=0)


class Overconfident(sb.Linear):
    def __call__(self, rows):
        return rows / rows.dtype.type(3)

    def noise(self, rows, _features):
        return np.zeros_like(rows[:, 0])


class HandsOutItsCache(sb.Linear):
    def __init__(self, centre):
        super().__init__(centre)
        self.cache = {}

    def __call__(self, rows):
        return self.cache.setdefault(rows.tobytes(), super().__call__(rows))


class ForgetsItsCentre(sb.Linear):
    @classmethod
    def from_state(cls, state):
        return cls(0 * state["centre"])


class UnstorableState(sb.Linear):
    def state(self):
        return {"centre": self.centre, "how": object()}


class MovesWrongly(sb.Linear):
    def on(self, _):
        return type(self)(self.centre + 1)


class Hoards(sb.Linear):
    calls = 0

    def __call__(self, rows):
        self.calls += 1
        return super().__call__(rows)

    @property
    def nbytes(self):
        return self.calls


BROKEN = {
    TooWide: "check_features_width",
    Infinite: "check_features_finite",
    Coarse: "check_features_precision",
    OneNoiseForAll: "check_features_noise_shape",
    CentresTheBatch: "check_features_row_wise",
    Overconfident: "check_features_noise",
    HandsOutItsCache: "check_features_frozen",
    ForgetsItsCentre: "check_features_state",
    UnstorableState: "check_features_state",
    MovesWrongly: "check_features_on",
    Hoards: "check_features_memory",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_caught(kind):
    with pytest.raises(AssertionError, match=rf"^{BROKEN[kind]}: "):
        check_features(kind(ROWS[0]), ROWS)


def test_every_check_has_something_that_it_catches():
    assert set(BROKEN.values()) == {check.__name__ for check in CHECKS}


def test_other_exceptions_are_named_too():
    class Raises(sb.Linear):
        def __call__(self, _):
            raise KeyError("oops")

    with pytest.raises(AssertionError, match="check_features_width: raised KeyError: 'oops'"):
        check_features(Raises(ROWS[0]), ROWS)


def test_features_in_double_precision_must_be_declared_untested():
    features = sb.Linear(ROWS[0].astype(np.float64))
    with pytest.raises(
        AssertionError, match=r"^check_features_noise: was not tested, since .*skip"
    ):
        check_features(features, ROWS)
    report = check_features(features, ROWS, skip=["check_features_noise"])
    assert report.skipped == ("check_features_noise",)
    assert {*report.passed, *report.skipped} == {check.__name__ for check in CHECKS}


def test_a_skip_that_names_no_check_is_refused():
    with pytest.raises(InputError, match="skip names check_nois; there are check_features_width, "):
        check_features(sb.Linear(ROWS[0]), ROWS, skip=["check_nois"])
