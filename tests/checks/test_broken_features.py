"""Each check of features catches features that break its promise, and says its name."""

import numpy as np
import pytest

import streambits as sb
from streambits.checks import check_features
from streambits.checks.features import CHECKS

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
    def noise(self, rows):
        return super().noise(rows)[:1]


class CentresTheBatch(sb.Linear):
    def __call__(self, rows):
        return rows - rows.mean(axis=0)


class Overconfident(sb.Linear):
    def __call__(self, rows):
        return rows / rows.dtype.type(3)

    def noise(self, rows):
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
    TooWide: "check_width",
    Infinite: "check_finite",
    Coarse: "check_precision",
    OneNoiseForAll: "check_noise_shape",
    CentresTheBatch: "check_row_wise",
    Overconfident: "check_noise",
    HandsOutItsCache: "check_frozen",
    ForgetsItsCentre: "check_state",
    UnstorableState: "check_state",
    MovesWrongly: "check_on",
    Hoards: "check_memory",
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

    with pytest.raises(AssertionError, match="check_width: raised KeyError: 'oops'"):
        check_features(Raises(ROWS[0]), ROWS)
