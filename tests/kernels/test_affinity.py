"""Compiled affinities and signs, against the same in double precision by NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from streambits.features import GaussianAffinity
from streambits.kernels.affinity import LOWEST, LOWEST_DOUBLE, _exp, _exp_double


@njit
def every(function, numbers, found):
    for i in range(len(numbers)):
        found[i] = function(numbers[i])


@pytest.mark.parametrize(
    ("function", "dtype", "lowest", "units"),
    [(_exp, np.float32, LOWEST, 2), (_exp_double, np.float64, LOWEST_DOUBLE, 3)],
)
def test_exponentials_are_within_their_units(function, dtype, lowest, units):
    numbers = np.concatenate(
        [np.linspace(lowest, 0, 200_001), -np.geomspace(1e-30, 1, 1000), [0.0]]
    ).astype(dtype)
    found = np.empty_like(numbers)
    every(function, numbers, found)
    errors = np.abs(found / np.exp(numbers.astype(np.longdouble)) - 1)
    assert errors.max() <= units * np.finfo(dtype).eps / 2
    assert found[-1] == 1


@pytest.mark.parametrize(("function", "dtype"), [(_exp, np.float32), (_exp_double, np.float64)])
def test_exponentials_of_far_numbers_are_zero(function, dtype):
    numbers = np.array([-1e3, -1e30, -np.inf, np.nan], dtype)
    found = np.ones_like(numbers)
    every(function, numbers, found)
    assert not found.any()


def affinities(rows, landmarks, bandwidth):
    steps = rows.astype(np.float64)[:, None, :] - landmarks.astype(np.float64)
    return np.exp(-(steps**2).sum(axis=2) / bandwidth)


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 40),
    columns=st.integers(1, 40),
    marks=st.integers(2, 90),
    power=st.sampled_from([-60, -3, 0, 4, 50]),
)
def test_affinities_and_lengths_are_within_the_noise(seed, count, columns, marks, power):
    rng = np.random.default_rng(seed)
    scale = np.float32(2.0**power)
    landmarks = rng.standard_normal((marks, columns), dtype=np.float32) * scale
    rows = rng.standard_normal((count, columns), dtype=np.float32) * scale
    rows[0] = landmarks[0]
    features = GaussianAffinity(landmarks, 2.0 * columns * float(scale) ** 2)
    found = features.measured(rows, fresh=True)
    expected = affinities(rows, landmarks, features.bandwidth)
    assert np.all(np.abs(found.features / expected - 1).max(axis=1) <= features.noise(rows, None))
    assert np.allclose(found.lengths, (expected**2).sum(axis=1), rtol=1e-4)
    assert np.allclose(features.closest(rows), expected.max(axis=1), rtol=1e-4)
    assert found.features.max() <= 1
    flat, steep = features.error
    assert np.allclose(flat + steep * found.squares, features.noise(rows, None), rtol=1e-5)
