import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.model.projection import Directions, Projection, hold, orient, whiten


def orthonormal(width, count, seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((width, count)))[0]


def directions(width=9, count=6, seed=0):
    energies = np.sort(np.random.default_rng(seed + 1).uniform(0.1, 3, count))[::-1]
    return Directions(orthonormal(width, count, seed), energies)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_projection_is_a_product_minus_thresholds_in_the_precision_of_the_features(dtype):
    rng = np.random.default_rng(0)
    matrix, thresholds = rng.standard_normal((5, 3)), rng.standard_normal(3)
    features = rng.standard_normal((4, 5)).astype(dtype)
    values = Projection(matrix, thresholds)(features)
    assert values.dtype == dtype
    assert np.allclose(values, features @ matrix - thresholds, atol=1e-5)


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.5, 1.0]))
def test_whitening_scales_each_direction_by_a_power_of_its_singular_value(seed, exponent):
    given_ = directions(seed=seed)
    whitened = whiten(given_, exponent)
    lengths = np.sqrt(given_.energies) ** -exponent
    assert np.allclose(whitened, given_.vectors * lengths, rtol=1e-12)


@given(st.integers(0, 1000), st.lists(st.booleans(), min_size=6, max_size=6))
def test_orienting_undoes_any_choice_of_signs(seed, flips):
    given_ = directions(seed=seed)
    flipped = given_._replace(vectors=given_.vectors * np.where(flips, 1, -1))
    found = orient(flipped)
    assert np.array_equal(found.vectors, orient(given_).vectors)
    assert np.array_equal(abs(found.vectors), abs(given_.vectors))
    assert np.all(found.vectors.max(axis=0) >= -found.vectors.min(axis=0))


@given(st.integers(0, 1000), st.integers(1, 6))
def test_holding_gives_as_many_orthonormal_directions_as_the_last_had(seed, bits):
    given_, last = directions(seed=seed), orthonormal(9, bits, seed + 7)
    held = hold(given_, last)
    assert held.vectors.shape == (9, bits)
    assert np.allclose(held.vectors.T @ held.vectors, np.eye(bits), atol=1e-12)
    assert np.all(np.diff(held.energies) <= 1e-12)
    inside = given_.vectors @ (given_.vectors.T @ held.vectors)
    assert np.allclose(inside, held.vectors, atol=1e-12)
    true = held.vectors.T @ (given_.vectors * given_.energies) @ given_.vectors.T @ held.vectors
    assert np.allclose(true, np.diag(held.energies), atol=1e-12)


def test_strict_arrays_give_the_same_values():
    given_, last = directions(), orthonormal(9, 4, 3)
    there = Directions(*(strict.asarray(part) for part in given_))
    held = hold(there, strict.asarray(last))
    assert np.allclose(np.asarray(held.energies), hold(given_, last).energies)
    assert np.array_equal(np.asarray(orient(there).vectors), orient(given_).vectors)
    assert np.allclose(np.asarray(whiten(there, 0.5)), whiten(given_, 0.5))
    features, thresholds = np.ones((2, 9)), np.ones(4)
    moved = Projection(strict.asarray(last), strict.asarray(thresholds))
    values = moved(strict.asarray(features))
    assert np.allclose(np.asarray(values), Projection(last, thresholds)(features))
