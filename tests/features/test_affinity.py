import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from streambits.errors import InputError
from streambits.features import GaussianAffinity
from streambits.features.bandwidth import nearest


def direct(rows, landmarks, bandwidth):
    """By differences in double precision, no square expanded."""
    distances = cdist(rows.astype(np.float64), landmarks.astype(np.float64))
    return np.exp(-(distances**2) / bandwidth)


@given(st.integers(0, 1000), st.integers(2, 40), st.integers(1, 20))
def test_affinities_are_those_of_direct_differences(seed, count, width):
    rng = np.random.default_rng(seed)
    landmarks, rows = rng.standard_normal((count, width)), rng.standard_normal((30, width))
    affinity = GaussianAffinity(landmarks, bandwidth=float(width))
    expected = direct(rows, landmarks, width)
    assert np.allclose(affinity(rows), expected, rtol=1e-10)
    single = GaussianAffinity(landmarks.astype(np.float32), bandwidth=float(width))
    assert np.allclose(single(rows.astype(np.float32)), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, -3e6])
def test_a_large_common_offset_costs_no_precision(dtype, offset):
    rng = np.random.default_rng(0)
    landmarks = (rng.standard_normal((50, 10)) + offset).astype(dtype)
    rows = (rng.standard_normal((200, 10)) + offset).astype(dtype)
    found = GaussianAffinity(landmarks)(rows)
    expected = direct(rows, landmarks, nearest(30).of(landmarks))
    assert np.allclose(found, expected, rtol=20 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)


@pytest.mark.parametrize("apart", [1e3, 1e5, 1e6])
def test_clusters_too_far_apart_for_single_precision_are_still_told_right(apart):
    rng = np.random.default_rng(0)
    place = np.where(rng.random((120, 1)) > 0.5, apart, -apart)
    cloud = (place + rng.standard_normal((120, 5))).astype(np.float32)
    found = GaussianAffinity(cloud[:40], bandwidth=10.0)(cloud[40:])
    assert np.allclose(found, direct(cloud[40:], cloud[:40], 10.0), rtol=1e-3, atol=1e-12)


def test_huge_rows_in_single_precision_have_affinity_zero():
    affinity = GaussianAffinity(np.random.default_rng(0).random((20, 4), dtype=np.float32))
    rows = np.array([[1e30] * 4, [0.5] * 4, [-1e30, 0, 0, 0]], np.float32)
    found = affinity(rows)
    assert np.array_equal(found[[0, 2]], np.zeros((2, 20)))
    assert np.allclose(found[1], affinity(rows[1:2])[0], rtol=1e-6)


def test_huge_rows_in_double_precision_are_an_error_that_says_scale():
    affinity = GaussianAffinity(np.random.default_rng(0).random((20, 4)))
    with pytest.raises(InputError, match=r"1e\+200.*scale the data"):
        affinity(np.full((1, 4), 1e200))


@given(st.integers(0, 1000), st.sampled_from([0.0, 100.0, 1e6]))
def test_noise_bounds_the_rounding_error_of_a_row(seed, offset):
    rng = np.random.default_rng(seed)
    landmarks = (rng.standard_normal((30, 12)) * 3 + offset).astype(np.float32)
    rows = (rng.standard_normal((100, 12)) * 3 + offset).astype(np.float32)
    affinity = GaussianAffinity(landmarks)
    exact = direct(rows, landmarks, affinity.bandwidth)
    error = np.linalg.norm(affinity(rows) - exact, axis=1)
    assert np.all(error <= affinity.noise(rows, affinity(rows)) * np.linalg.norm(exact, axis=1))


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, "wide", True])
def test_a_bandwidth_that_is_no_positive_number_is_refused(bandwidth):
    with pytest.raises(InputError, match=r"bandwidth is .*must be"):
        GaussianAffinity(np.eye(3), bandwidth)


@pytest.mark.parametrize("bandwidth", [None, nearest(1), 1.0])
@pytest.mark.parametrize("row", [[0.0, 0.0], [0.1, 0.7], [1e6 + 0.1, -3.3]])
def test_equal_landmarks_are_refused(row, bandwidth):
    with pytest.raises(InputError, match=r"equal.*pass distinct rows"):
        GaussianAffinity(np.tile(row, (40, 1)), bandwidth)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strict_arrays_give_the_same_affinities(dtype):
    rng = np.random.default_rng(0)
    landmarks, rows = rng.random((20, 4)).astype(dtype), rng.random((50, 4)).astype(dtype)
    here, there = GaussianAffinity(landmarks), GaussianAffinity(strict.asarray(landmarks))
    found = there(strict.asarray(rows))
    assert isinstance(found, type(strict.asarray(rows)))
    assert there.bandwidth == here.bandwidth
    assert np.allclose(np.asarray(found), here(rows), rtol=1e-5)
    noise = there.noise(strict.asarray(rows), found)
    assert np.allclose(np.asarray(noise), here.noise(rows, here(rows)))
    assert np.array_equal(here.on(strict.zeros(1)).on(np.zeros(1)).landmarks, landmarks)


@given(st.integers(0, 1000), st.integers(2, 30), st.integers(1, 8))
def test_the_closest_of_some_landmarks_is_the_largest_affinity(seed, count, width):
    rng = np.random.default_rng(seed)
    landmarks, rows = rng.standard_normal((count, width)), rng.standard_normal((20, width))
    affinity = GaussianAffinity(landmarks, bandwidth=2.0)
    places = rng.permutation(count)[: 1 + count // 2]
    some = affinity.among(places)
    expected = direct(rows, landmarks[places], 2.0).max(axis=1)
    assert np.allclose(some.closest(rows), expected, rtol=1e-9)
    assert affinity.closest(landmarks) == pytest.approx(1)
    assert (some.width, some.bandwidth, affinity.width) == (len(places), 2.0, count)


@pytest.mark.parametrize("bandwidth", [None, nearest(5), 2.5])
def test_a_renewed_affinity_may_be_wider_for_a_while(bandwidth):
    rng = np.random.default_rng(0)
    old, new, last = rng.random((3, 40, 4)) * np.array([1.0, 2.0, 3.0])[:, None, None]
    affinity = GaussianAffinity(old, bandwidth)
    plain, wide = affinity.renewed(new), affinity.renewed(new, wider=4.0)
    assert plain.bandwidth == pytest.approx(GaussianAffinity(new, bandwidth).bandwidth)
    assert wide.bandwidth == pytest.approx(4 * plain.bandwidth)
    assert np.array_equal(wide.landmarks, new)
    again = wide.renewed(last)
    assert again.bandwidth == pytest.approx(GaussianAffinity(last, bandwidth).bandwidth)
    twice = wide.renewed(last, wider=4.0)
    assert twice.bandwidth == pytest.approx(4 * again.bandwidth)


@pytest.mark.parametrize("exponent", [-110, -100, -83, -66, -40, 40, 66, 83, 100, 122])
def test_the_unit_of_single_precision_rows_changes_nothing(exponent):
    """A power of two rounds nothing, so affinities are the same to the bit; no warning is given."""
    rows = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
    scaled = rows * np.float32(2.0**exponent)
    usual, other = GaussianAffinity(rows[:50]), GaussianAffinity(scaled[:50])
    assert np.array_equal(usual(rows), other(scaled))
    assert np.array_equal(usual.closest(rows), other.closest(scaled))
    noise = usual.noise(rows, usual(rows))
    assert np.array_equal(noise, other.noise(scaled, other(scaled)))
    again = GaussianAffinity.from_state(other.state())
    assert np.array_equal(usual(rows), again(scaled))
