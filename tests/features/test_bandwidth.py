import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist

from streambits.errors import InputError
from streambits.features.bandwidth import Bandwidth, all_pairs, nearest


@given(st.integers(0, 1000), st.integers(2, 60), st.integers(1, 40), st.sampled_from([1, 2]))
def test_nearest_is_the_mean_distance_to_a_neighbour_to_a_power(seed, count, neighbour, power):
    landmarks = np.random.default_rng(seed).standard_normal((count, 3))
    ranked = np.sort(cdist(landmarks, landmarks), axis=1)
    expected = ranked[:, min(neighbour, count - 1)].mean() ** power
    assert nearest(neighbour, power=power).of(landmarks) == pytest.approx(expected, rel=1e-9)


@given(st.integers(0, 1000), st.integers(2, 60), st.sampled_from([1, 2]))
def test_all_pairs_is_the_mean_distance_over_pairs_to_a_power(seed, count, power):
    landmarks = np.random.default_rng(seed).standard_normal((count, 3))
    expected = pdist(landmarks).mean() ** power
    assert all_pairs(power=power).of(landmarks) == pytest.approx(expected, rel=1e-9)


def test_factors_multiply_and_divide():
    landmarks = np.random.default_rng(0).standard_normal((50, 3))
    one = nearest(7).of(landmarks)
    assert (4 * nearest(7)).of(landmarks) == pytest.approx(4 * one)
    assert (nearest(7) * 3 / 6).of(landmarks) == pytest.approx(one / 2)


@pytest.mark.parametrize(
    "settings",
    [{"neighbour": 0}, {"neighbour": -5}, {"neighbour": 2.5}, {"power": 0}, {"power": 3}],
)
def test_settings_are_checked_at_once(settings):
    with pytest.raises(InputError, match=f"{next(iter(settings))} is "):
        nearest(**settings)
    with pytest.raises(InputError, match=f"{next(iter(settings))} is "):
        Bandwidth(**settings)


@pytest.mark.parametrize("bandwidth", [nearest(), all_pairs()])
def test_a_single_landmark_has_no_distance(bandwidth):
    with pytest.raises(InputError, match="pass at least 2"):
        bandwidth.of(np.ones((1, 2)))


@given(st.integers(0, 1000), st.integers(1, 60), st.sampled_from([0.0, 10.0, 1e6]))
def test_duplicates_up_to_the_neighbour_have_no_typical_distance(seed, width, offset):
    points = np.random.default_rng(seed).standard_normal((3, width)) + offset
    with pytest.raises(InputError, match="typical distance between landmarks is 0"):
        nearest(30).of(np.repeat(points, 40, axis=0))
