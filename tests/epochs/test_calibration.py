import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.isotonic import IsotonicRegression

from streambits import Codes
from streambits.epochs.calibration import (
    SHARES,
    Calibration,
    RealCalibration,
    distance_curve,
    query_scales,
    shares,
)


@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 20))
def test_a_curve_is_the_isotonic_regression_of_distances(seed, count, bits):
    rng = np.random.default_rng(seed)
    near = rng.integers(0, bits + 1, (count, count)).astype(np.uint16)
    near = np.maximum(near, near.T)
    far = rng.random((count, count)) + 0.3 * near
    above = np.triu_indices(count, 1)
    fitted = IsotonicRegression(out_of_bounds="clip").fit(near[above], far[above])
    found = distance_curve(near, far)
    assert np.allclose(found, fitted.predict(np.arange(len(found))))
    assert (np.diff(found) >= -1e-12).all()


def test_a_far_query_is_told_so_although_its_codes_are_near():
    steps = np.arange(17.0)
    near = np.tile(np.arange(17, dtype=np.uint16), 20)[None, :]
    inside, outside = 1.0 * near, 1.0 * near + 100
    found = query_scales(steps, np.concatenate([near, near]), np.concatenate([inside, outside]), 16)
    assert np.allclose(found[0], steps, atol=0.5)
    assert (found[1] > 80).all()
    assert (np.diff(found) >= 0).all()


def test_where_nothing_is_known_the_nearest_answer_counts():
    near = np.full((1, 50), 10, np.uint16)
    found = query_scales(np.arange(17.0), near, np.full((1, 50), 30.0), 16)
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


@given(st.integers(0, 2**32), st.integers(1, 70), st.floats(1e-30, 1e30))
def test_shares_are_parts_of_what_all_bits_cost(seed, bits, size):
    rng = np.random.default_rng(seed)
    codes = Codes.from_bits(rng.random((9, bits)) > 0.5)
    values = size * rng.standard_normal((5, bits))
    values[0] = 0
    found = shares(values, codes)
    differ = codes.unpack()[None] != (values > 0)[:, None]
    costs = (np.abs(values)[:, None] * differ).sum(axis=2)
    expected = SHARES * costs[1:] / np.abs(values[1:]).sum(axis=1)[:, None]
    assert np.abs(found[1:] - expected).max() < 0.51
    assert len(set(found[0].tolist())) == 1  # a query of zeros is as near to all


def test_a_real_scale_rises_and_is_closer_to_true_distances():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((800, 8))
    planes = rng.standard_normal((8, 32))
    values, known, asked = rows @ planes, rows[:700], rows[700:]
    codes = Codes.from_bits(values > 0)
    sample = Calibration(known, codes[:700])
    scale = RealCalibration(sample, values[:700])(asked, values[700:])
    assert scale.shape == (100, SHARES + 1)
    assert (np.diff(scale) > 0).all()
    near = shares(values[700:], codes[:700]).astype(int)
    plain = np.take_along_axis(
        sample(asked, codes[700:]), codes[700:].hamming(codes[:700]).astype(int), axis=1
    )
    guess, true = np.take_along_axis(scale, near, axis=1), cdist(asked, known)
    assert abs(np.median(guess / true) - 1) < 0.05
    error, other = (np.abs(np.log(one / true)).mean() for one in (guess, plain))
    assert error < 0.95 * other


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


def test_a_row_of_the_sample_itself_does_not_outweigh_its_neighbours():
    """Its distance is 0, whose logarithm would pull down what a few bits mean, too."""
    rows = np.random.default_rng(0).standard_normal((400, 6))
    codes = signs(rows)
    among = Calibration(rows, codes)(rows[:50], codes[:50])
    apart = Calibration(rows[50:], codes[50:])(rows[:50], codes[:50])
    shares = np.median(among / apart, axis=0)
    assert shares[1] > 0.15
    assert shares[2] > 0.6
    assert shares[3:] == pytest.approx(1, abs=0.05)


def test_a_common_offset_costs_no_precision():
    rows = np.random.default_rng(0).integers(-900, 900, (300, 8)).astype(np.float32) / 512
    codes, offset = signs(rows), np.float32(2**14)
    here = Calibration(rows, codes)(rows[:20], codes[:20])
    there = Calibration(rows + offset, codes)(rows[:20] + offset, codes[:20])
    assert np.allclose(there, here, rtol=1e-4)


def test_a_scale_is_exact_where_bits_tell_the_distance():
    bits = np.random.default_rng(0).random((300, 8)) < 0.5
    rows, codes = bits.astype(float), Codes.from_bits(bits)
    scale = Calibration(rows, codes)(rows[:5], codes[:5])
    assert np.allclose(scale, np.sqrt(np.arange(9)), atol=1e-4)
