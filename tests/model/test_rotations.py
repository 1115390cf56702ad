import array_api_strict as strict
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from streambits.model.rotations import (
    PIECE,
    ease,
    itq_rotation,
    itq_steps,
    procrustes,
    random_rotation,
    uniform_diagonal,
)


def quantisation_loss(projected, rotation):
    turned = projected @ rotation
    return np.linalg.norm(np.where(turned > 0, 1.0, -1.0) - turned)


def assert_orthogonal(matrix):
    assert np.allclose(matrix.T @ matrix, np.eye(matrix.shape[1]), atol=1e-10)


@given(st.integers(1, 20), st.integers(0, 2**40))
def test_a_random_rotation_is_orthogonal_and_fixed_by_its_seed(bits, seed):
    rotation = random_rotation(bits, np.zeros(1), seed)
    assert_orthogonal(rotation)
    assert np.array_equal(rotation, random_rotation(bits, np.zeros(1), seed))


@given(st.integers(1, 8), st.integers(0, 1000))
def test_itq_is_orthogonal_and_its_loss_never_rises(bits, seed):
    projected = np.random.default_rng(seed).standard_normal((40, bits)) * np.arange(1, bits + 1)
    start = random_rotation(bits, projected, seed)
    turns = [start, *itq_steps(projected, start, 20)]
    losses = [quantisation_loss(projected, turn) for turn in turns]
    for turn in turns:
        assert_orthogonal(turn)
    assert np.all(np.diff(losses) <= 1e-9)


def test_itq_finds_the_corners_of_a_turned_cube():
    rng = np.random.default_rng(0)
    corners = np.where(rng.random((400, 4)) > 0.5, 1.0, -1.0)
    turn = random_rotation(4, corners, 5)
    losses = [
        quantisation_loss(corners @ turn, itq_rotation(corners @ turn, seed)) for seed in range(5)
    ]
    assert min(losses) < 1e-6


@given(st.integers(0, 1000), st.integers(1, 7))
def test_procrustes_agrees_with_scipy(seed, bits):
    left, right = np.random.default_rng(seed).standard_normal((2, 30, bits))
    expected, _ = scipy.linalg.orthogonal_procrustes(left, right)
    assert np.allclose(procrustes(left.T @ right), expected, atol=1e-9)


@pytest.mark.parametrize("weakest", [1e-2, 1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize("seed", range(3))
def test_procrustes_is_orthogonal_and_best_also_where_singular_values_differ_widely(seed, weakest):
    left, right = (random_rotation(20, np.zeros(1), [seed, side]) for side in (0, 1))
    cross = left * np.geomspace(1, weakest, 20) @ right
    turn = procrustes(cross)
    assert np.allclose(turn.T @ turn, np.eye(20), atol=1e-13)
    assert np.allclose(turn, left @ right, atol=1e-15 / weakest**2 if weakest > 1e-4 else 1e-6)


def test_itq_of_more_rows_than_a_piece_is_the_same_for_any_number_of_threads():
    projected = np.random.default_rng(0).standard_normal((3 * PIECE + 7, 16))
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            found.append(itq_rotation(projected, 1))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_strict_arrays_give_the_same_rotations():
    projected = np.random.default_rng(0).standard_normal((40, 5))
    there = strict.asarray(projected)
    assert np.array_equal(
        np.asarray(random_rotation(5, there, 1)), random_rotation(5, projected, 1)
    )
    assert np.allclose(np.asarray(itq_rotation(there, 1)), itq_rotation(projected, 1))


spectra = st.lists(st.floats(0, 1e6), min_size=1, max_size=40).map(np.array)


@given(spectra)
def test_uniform_diagonal_is_orthogonal_and_makes_all_variances_equal(energies):
    rotation = uniform_diagonal(energies)
    turned = rotation.T @ np.diag(energies) @ rotation
    assert_orthogonal(rotation)
    assert np.allclose(np.diag(turned), energies.mean(), rtol=1e-9, atol=1e-9 * energies.max())
    assert np.allclose(np.linalg.eigvalsh(turned), np.sort(energies), atol=1e-8 * energies.max())


@pytest.mark.parametrize("seed", range(5))
def test_a_step_of_itq_turns_towards_the_corners_that_the_rows_are_nearest_to(seed):
    projected = np.random.default_rng(seed).standard_normal((60, 5)) * [3, 2, 2, 1, 1]
    start = random_rotation(5, projected, seed)
    corners = np.where(projected @ start > 0, 1.0, -1.0)
    (turned,) = itq_steps(projected, start, 1)
    assert np.allclose(turned, scipy.linalg.orthogonal_procrustes(projected, corners)[0])


@pytest.mark.parametrize("seed", range(5))
def test_easing_goes_a_tenth_of_the_way_to_the_next_step(seed):
    projected = np.random.default_rng(seed).standard_normal((60, 5)) * [3, 2, 2, 1, 1]
    start = itq_rotation(projected, seed, steps=3)
    (ahead,) = itq_steps(projected, start, 1)
    eased = ease(projected, start)
    assert_orthogonal(eased)
    whole = np.linalg.norm(ahead - start)
    assert whole > 1e-3
    assert np.linalg.norm(eased - start) == pytest.approx(0.1 * whole, rel=0.1)
    assert np.linalg.norm(ahead - eased) == pytest.approx(0.9 * whole, rel=0.1)


def test_extrapolated_steps_of_itq_come_as_close_to_corners_as_fifty_plain_ones():
    gains = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        projected = np.tanh(3 * rng.standard_normal((2000, 12))) @ rng.standard_normal((12, 12))
        start = random_rotation(12, projected, seed)
        *_, plain = itq_steps(projected, start, 50)
        turns = (start, itq_rotation(projected, seed), plain)
        before, *after = (quantisation_loss(projected, turn) for turn in turns)
        gains.append([before - loss for loss in after])
    extrapolated, plain = np.mean(gains, axis=0)
    assert extrapolated > 0.94 * plain


def test_few_rows_are_not_overfitted():
    """Rows without structure have no better corners; what is found for a few of them is noise."""
    rng = np.random.default_rng(0)
    few, many = rng.standard_normal((60, 16)), rng.standard_normal((4000, 16))
    turn, overfitted = itq_rotation(few, 0), itq_rotation(few, 0, steps=12)
    gains = [
        quantisation_loss(few, random_rotation(16, few, 0)) - quantisation_loss(few, each)
        for each in (turn, overfitted)
    ]
    assert gains[0] < gains[1]
    assert np.array_equal(itq_rotation(many, 0), itq_rotation(many, 0, steps=12))
