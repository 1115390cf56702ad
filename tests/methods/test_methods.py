import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError, RankError


def same_up_to_signs(codes, bits):
    """Every bit equal to the expected one, or to its opposite for all rows."""
    agree = (codes.unpack() == bits).mean(axis=0)
    return np.maximum(agree, 1 - agree)


def test_pcah_gives_the_signs_of_principal_components(train, rows):
    """Of the rows alone: they weigh more than 16 times as much as the prior."""
    centred = (rows - rows.mean(axis=0)).astype(np.float64)
    _, _, right = np.linalg.svd(centred, full_matrices=False)
    codes = sb.methods.METHODS["pcah"](train, 6).learn(rows).coder().encode(rows)
    assert same_up_to_signs(codes, centred @ right[:6].T > 0).min() > 0.999


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: sb.ssbc(t, 61), "bits is 61.*at most 60"),
        (lambda t: sb.methods.METHODS["pcah"](t, 9), "bits is 9.*at most 8"),
        (lambda t: sb.ssbc(t, 8, epsilon=0), "epsilon is 0"),
        (lambda t: sb.ssbc(t, 8, epsilon=np.nan), "epsilon is nan"),
        (lambda t: sb.ssbc(t, 8, bandwidth=-1), "bandwidth is -1"),
        (lambda t: sb.ssbc(t[:1], 1), "at least 2"),
        (lambda t: sb.ssbc(np.tile(t[:1], (60, 1)), 8), "distinct rows"),
        (lambda t: sb.methods.METHODS["pcah"](t * np.nan, 4), "NaN"),
    ],
)
def test_bad_settings_are_refused_at_once(train, make, message):
    with pytest.raises(InputError, match=message):
        make(train)


def test_more_bits_than_distinct_landmarks_are_a_rank_error(train):
    few = np.tile(train[:5], (12, 1)).astype(np.float64)  # single precision may round equals apart
    with pytest.raises(RankError, match="at most"):
        sb.ssbc(few, 8, bandwidth=1.0).coder()


def test_principal_methods_refuse_more_bits_than_the_rank(train, rows):
    flat = rows * [1, 1, 1, 0, 0, 0, 0, 0]
    with pytest.raises(RankError, match="have 3: ask for at most 3 bits"):
        sb.methods.METHODS["pcah"](flat[:60], 4).learn(flat).coder()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_numbers_may_be_shifted_at_will(method, build, dtype, digest):
    rng = np.random.default_rng(0)
    half = rng.integers(-20, 20, (30, 8))
    train = np.concatenate([half, -half]).astype(dtype)  # the mean is exact
    rows = rng.integers(-20, 20, (3000, 8)).astype(dtype)
    shifts = (0, 2**19, -(2**19))
    coders = [build(method, train + shift).learn(rows + shift).coder() for shift in shifts]
    codes = [coder.encode(rows + shift) for coder, shift in zip(coders, shifts, strict=True)]
    if method == "product":  # k-means may break ties in another way
        decoded = [c.decode(some) for c, some in zip(coders, codes, strict=True)]
        errors = [
            np.square(there - rows - shift).mean()
            for there, shift in zip(decoded, shifts, strict=True)
        ]
        assert errors == pytest.approx([errors[0]] * 3, rel=0.02)
        return
    assert len({digest(some) for some in codes}) == 1


def test_a_setting_that_a_method_does_not_have_is_named_with_those_it_has():
    rows = np.random.default_rng(0).random((50, 4))
    with pytest.raises(InputError, match="itq has no setting 'rotation': it takes half_life, "):
        sb.methods.METHODS["itq"](rows, 4, rotation="none")
