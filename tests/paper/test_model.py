"""Section 3.1, model and setup: Hamming affinity and the relaxed factorisation of W."""

import numpy as np
import pytest

import streambits as sb


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).random((200, 4))


def test_hamming_affinity(rows):
    """'||Y_i - Y_j||^2 = 2k - 2 Y_i Y_j', which is four times the Hamming distance of the codes."""
    codes = sb.ssbc(rows[:50], 20).learn(rows).coder().encode(rows)
    y = np.where(codes.unpack(), 1, -1)
    squares = ((y[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(squares, 4 * codes.hamming(codes).astype(int))
    np.testing.assert_array_equal(2 * 20 - 2 * y @ y.T, 4 * codes.hamming(codes).astype(int))


def _coordinates(rows, whitening, bits):
    features = sb.features.GaussianAffinity(rows, 0.3)
    sketch = sb.sketches.Gram(len(rows), centred=False)
    options = {"bits": bits, "whitening": whitening, "rotation": "none", "steady": False}
    return sb.Learner(features, sketch, **options).learn(rows).coder().project(rows)


def test_the_relaxation_is_the_best_factorisation_of_w(rows):
    """W = U L U': coordinates U_k L_k^(1/2) give the best rank-k factorisation of W.

    They are those of half whitening (paper-notes 4); compared with the truncated eigenproblem.
    """
    w = np.exp(-((rows[:, None] - rows) ** 2).sum(axis=2) / 0.3)
    values, vectors = np.linalg.eigh(w)
    best = (vectors[:, -12:] * values[-12:]) @ vectors[:, -12:].T
    z = _coordinates(rows, 0.5, 12)
    np.testing.assert_allclose(z @ z.T / len(rows) ** 0.5, best, atol=1e-9)


def test_the_printed_projection_keeps_w_squared_instead(rows):
    """sign(w V) without whitening rounds coordinates of W^2, not of W (paper-notes 4)."""
    w = np.exp(-((rows[:, None] - rows) ** 2).sum(axis=2) / 0.3)
    values, vectors = np.linalg.eigh(w)
    z = _coordinates(rows, 0.0, 12)
    squared = (vectors[:, -12:] * values[-12:] ** 2) @ vectors[:, -12:].T
    np.testing.assert_allclose(z @ z.T, squared, atol=1e-8)
    scale = np.vdot(z @ z.T, w) / np.vdot(z @ z.T, z @ z.T)
    assert np.linalg.norm(scale * z @ z.T - w) > 0.2 * np.linalg.norm(w)


def test_best_rank_k_approximation_is_an_argmin(rows):
    """Section 2 prints 'A_k = argmax ||A - C||_F'; it is the argmin (paper-notes 13)."""
    sketch = sb.sketches.Gram(4, centred=False)
    sketch.update(rows)
    vectors = sketch.directions(2).vectors
    loss = np.linalg.norm(rows - rows @ vectors @ vectors.T)
    rng = np.random.default_rng(1)
    for _ in range(50):
        other = np.linalg.qr(vectors + 0.1 * rng.standard_normal((4, 2)))[0]
        assert np.linalg.norm(rows - rows @ other @ other.T) >= loss
    singular = np.linalg.svd(rows, compute_uv=False)
    assert loss == pytest.approx(np.linalg.norm(singular[2:]))
