"""Rivals that learn from the stream: osh, frosh, unifdiag, semi_supervised."""

import numpy as np
import pytest

from paper import methods as rivals

WIDTH = 12


def decaying(count, seed=0):
    turn = np.linalg.qr(np.random.default_rng(99).standard_normal((WIDTH, WIDTH)))[0]
    scale = 0.75 ** np.arange(WIDTH)
    return np.random.default_rng(seed).standard_normal((count, WIDTH)) * scale @ turn + 1


def principal(rows, count):
    """Batch PCA by a singular value decomposition of all rows."""
    centred = rows - rows.mean(axis=0)
    _, values, right = np.linalg.svd(centred, full_matrices=False)
    return right[:count].T, values[:count] ** 2 / len(rows)


def captured(learner, rows):
    """Share of the variance of the best subspace that the learner's projection has."""
    matrix = learner.coder().projection.matrix
    span = np.linalg.qr(np.asarray(matrix))[0]
    centred = rows - rows.mean(axis=0)
    best = principal(rows, learner.bits)[1].sum()
    return np.sum((centred @ span) ** 2) / len(rows) / best


@pytest.mark.parametrize(("method", "least"), [("osh", 0.99), ("frosh", 0.97), ("unifdiag", 1)])
def test_the_subspace_is_nearly_that_of_batch_pca(method, least):
    rows = decaying(9000)
    learner = rivals.METHODS[method](rows[:50], 5).learn(rows[50:])
    assert captured(learner, rows) >= least - 1e-6


def test_osh_with_room_for_every_direction_is_batch_pca():
    """A sketch of more rows than columns loses nothing: the same projection up to a rotation."""
    rows = decaying(5000)
    learner = rivals.osh(rows[:50], 4, epsilon=0.25).learn(rows[50:])
    rows = rows[50:]  # without the prior, which is light beside them
    vectors, energies = principal(rows, 4)
    assert np.allclose(learner.sketch.directions(4).energies, energies, rtol=1e-6)
    projection = learner.coder().projection
    assert np.allclose(np.linalg.svd(vectors.T @ projection.matrix)[1], 1, atol=1e-6)
    middle = rows.mean(axis=0) - learner.features.centre
    assert np.allclose(projection.thresholds, middle @ projection.matrix, atol=1e-6)
