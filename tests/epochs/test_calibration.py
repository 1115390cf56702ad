import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.isotonic import IsotonicRegression

from streambits import Codes
from streambits.epochs.calibration import Calibration, curve, smoothed, tables


@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 20))
def test_a_curve_is_the_isotonic_regression_of_distances(seed, count, bits):
    rng = np.random.default_rng(seed)
    near = rng.integers(0, bits + 1, (count, count)).astype(np.uint16)
    near = np.maximum(near, near.T)
    far = rng.random((count, count)) + 0.3 * near
    above = np.triu_indices(count, 1)
    fitted = IsotonicRegression(out_of_bounds="clip").fit(near[above], far[above])
    found = curve(near, far)
    assert np.allclose(found, fitted.predict(np.arange(len(found))))
    assert (np.diff(found) >= -1e-12).all()


def test_a_far_query_is_told_so_although_its_codes_are_near():
    steps = np.arange(17.0)
    near = np.tile(np.arange(17, dtype=np.uint16), 20)[None, :]
    inside, outside = 1.0 * near, 1.0 * near + 100
    found = tables(steps, np.concatenate([near, near]), np.concatenate([inside, outside]), 16)
    assert np.allclose(found[0], steps, atol=0.5)
    assert (found[1] > 80).all()
    assert (np.diff(found) >= 0).all()


def test_where_nothing_is_known_the_nearest_answer_counts():
    near = np.full((1, 50), 10, np.uint16)
    found = tables(np.arange(17.0), near, np.full((1, 50), 30.0), 16)
    assert found[0, 0] > 15
    assert found[0, 10] > 25


def signs(rows):
    """A code that tells direction, and nothing of length."""
    return Codes.from_bits(rows @ np.random.default_rng(5).standard_normal((rows.shape[1], 32)) > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_scale_rises_and_is_close_to_true_distances(dtype):
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((800, 8)) + 100).astype(dtype)
    known, asked = rows[:700], rows[700:]
    centred = rows - 100
    codes = signs(centred)
    scale = Calibration(known, codes[:700])(asked, codes[700:])
    assert scale.shape == (100, 33)
    assert (np.diff(scale) > 0).all()
    near = codes[700:].hamming(codes[:700]).astype(int)
    guess = np.take_along_axis(scale, near, axis=1)
    true = cdist(asked.astype(float), known.astype(float))
    assert np.corrcoef(guess.ravel(), true.ravel())[0, 1] > 0.6
    assert abs(np.median(guess / true) - 1) < 0.1


def test_outliers_with_equal_codes_do_not_decide_what_is_near():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 4))
    rows[:40] *= 1e4
    codes = signs(rows)
    few = codes.unpack().copy()
    few[:40] = few[0]  # all far rows look alike
    codes = Codes.from_bits(few)
    scale = Calibration(rows, codes)(rows[200:], codes[200:])
    assert np.median(scale[:, 2]) < 10


@pytest.mark.parametrize("rows", [np.zeros((5, 3)), np.full((5, 3), 1e30, np.float32)])
def test_equal_rows_and_huge_ones_have_a_scale_too(rows):
    rows = rows.copy()
    codes = Codes.from_bits(np.zeros((5, 6), np.bool_))
    scale = Calibration(rows, codes)(rows[:2], codes[:2])
    assert np.isfinite(scale).all()
    assert (np.diff(scale) > 0).all()


@pytest.mark.parametrize("bits", [1, 31, 64, 1000])
def test_smoothing_weighs_all_pairs_and_holds_few_of_them(bits):
    values = np.random.default_rng(0).random((3, bits + 1))
    steps = np.arange(bits + 1)
    weights = np.exp(-0.5 * ((steps[:, None] - steps) / max(1.0, bits / 32)) ** 2)
    assert np.allclose(smoothed(values), values @ weights)


def test_scales_of_long_codes_leave_nothing_behind():
    near, far = np.full((1, 4), 9, np.uint16), np.ones((1, 4))
    tracemalloc.start()
    tables(np.ones(4097), near, far, 4096)
    left, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 1 << 20
    assert peak < 1 << 25  # the whole matrix has 2^27 bytes
