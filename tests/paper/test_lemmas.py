"""Sections 3.2 and 4: what can be checked of Lemmas 1 to 3, the corollary and Theorem 1.

W is always computed by `GaussianAffinity` with every point a landmark; bandwidth is sigma as
printed in these sections, the denominator itself.
"""

import itertools
import math

import numpy as np
import pytest

import streambits as sb

SIGMA = 0.5


def affinity(points, sigma=SIGMA):
    return sb.features.GaussianAffinity(points, sigma)(points)


def spectral(matrix):
    return np.linalg.norm(matrix, 2)


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(0).random((300, 2)) * 3


@pytest.fixture(scope="module")
def w(points):
    return affinity(points)


# Lemma 1 and its corollary


def test_lemma_1_smallest_column(w):
    """'it is trivially true that C_min >= 1, since W_ii = 1'."""
    assert (w**2).sum(axis=0).min() >= 1


@pytest.mark.parametrize("side", [8, 16, 24])
@pytest.mark.parametrize("spacing", [0.1, 0.3])
def test_lemma_1_column_norms_of_sparse_data(side, spacing):
    """C_max / C_min <= 1 + |P_c|: only points within sqrt(sigma ln n) count, and sparse data of
    doubling dimension 2 have at most (1 + 2 r / spacing)^2 of them, whatever n is.
    """
    axis = spacing * np.arange(side)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    squares = (affinity(grid) ** 2).sum(axis=0)
    radius = math.sqrt(SIGMA * math.log(len(grid)))
    assert squares.max() / squares.min() <= 1 + (1 + 2 * radius / spacing) ** 2
    assert squares.max() / squares.min() > 1.5  # a border: the columns do differ


def test_lemma_1_needs_sparsity():
    """Near-duplicates break it: n - 1 equal points and one far away have ratio n - 1."""
    rows = np.zeros((100, 2))
    rows[-1] = 50
    squares = (affinity(rows) ** 2).sum(axis=0)
    assert squares.max() / squares.min() == pytest.approx(99)


def test_corollary_1(w):
    """Every C_i is within C_max / C_min of ||W||_F^2 / n, on both sides."""
    squares, mean = (w**2).sum(axis=0), np.sum(w**2) / len(w)
    ratio = squares.max() / squares.min()
    assert (squares <= ratio * mean).all()
    assert (squares >= mean / ratio).all()


# Lemma 2: a uniform column sample


def sampled(points, chosen, scale):
    """What: affinities of all points to the chosen ones, rescaled."""
    return scale * sb.features.GaussianAffinity(points[list(chosen)], SIGMA)(points)


def test_lemma_2_expectation(points):
    """'E[What What'] = W^2', averaged over all ordered samples of m = 2 columns.

    It needs the scale sqrt(n / m). The paper prints sqrt(n) / m, which gives W^2 / m: its proof
    takes m / n for the chance that a given column is the i-th one drawn; it is 1 / n.
    """
    few, m = points[:9], 2
    n = len(few)
    w = affinity(few)
    samples = list(itertools.permutations(range(n), m))
    for scale, wanted in ((math.sqrt(n / m), w @ w), (math.sqrt(n) / m, w @ w / m)):
        hats = [sampled(few, chosen, scale) for chosen in samples]
        np.testing.assert_allclose(sum(h @ h.T for h in hats) / len(hats), wanted, rtol=1e-10)


# Lemma 3 (FD) and Theorem 1


@pytest.fixture(scope="module")
def hat(points):
    """What for 20 landmarks, rows in a sorted order; a wide kernel, as sigma_30 often is."""
    ordered = points[np.argsort(points[:, 0])] / 3
    return math.sqrt(300 / 20) * sb.features.GaussianAffinity(ordered[::15], 1.0)(ordered)


def test_lemma_3_false_step_is_the_condition_number(hat):
    """'||W|| ||B'B - W'W|| ||W^+|| = ||B'B - W'W||' takes ||W|| ||W^+|| for 1 (paper-notes 10).

    That product is the condition number.
    """
    product = spectral(hat) * spectral(np.linalg.pinv(hat, rcond=1e-12))
    assert product == pytest.approx(np.linalg.cond(hat), rel=1e-3)
    assert product > 100


def test_lemma_3_the_step_is_not_saved_by_the_matrices_at_hand(hat):
    """||W (B'B - W'W) W^+|| does exceed ||B'B - W'W|| for a sketch of real affinities."""
    sketch = sb.sketches.FrequentDirections(20, 4, 1, centred=False)
    sketch.update(hat)
    difference = sketch.matrix.T @ sketch.matrix - hat.T @ hat
    conjugated = hat @ difference @ np.linalg.pinv(hat, rcond=1e-12)
    assert spectral(conjugated) > 1.1 * spectral(difference)


def test_theorem_1_intuition(points, w):
    """'The right singular space of B captures most of the spectrum of W': projecting the
    columns of W on the sketch's span of affinity rows keeps nearly all of W.
    """
    learner = sb.ssbc(points[::6], 20, bandwidth=SIGMA, epsilon=1.0, paper=True).learn(points)
    basis = np.linalg.qr(learner.coder().project(points))[0]
    values = np.linalg.svd(w, compute_uv=False)
    left = np.linalg.norm(w - basis @ (basis.T @ w))
    assert left < 0.2 * np.linalg.norm(w)
    assert left < 3 * np.linalg.norm(values[20:]) + 1e-9  # against the best rank-20 projection
