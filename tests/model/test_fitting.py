"""From a sketch to a projection; later ones of an epoch stay close to the last."""

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from streambits.model.projection import Fitting, Projection
from streambits.model.rotations import ROTATIONS
from streambits.sketches import Gram


def sketched(rows):
    sketch = Gram(rows.shape[1])
    sketch.update(rows)
    return sketch


def fitted(rows, last=None, *, bits=4, whitening=0.5, rotation="none"):
    fit = Fitting(bits, whitening, rotation, seed=0)
    return fit(sketched(rows), lambda matrix: rows @ matrix, last).projection


def along_axes(energies):
    """Centred rows whose directions are the axes, with these energies."""
    rows = np.diag(np.sqrt(np.asarray(energies) * len(energies)))
    return np.concatenate([rows, -rows])


def span(matrix):
    basis = np.linalg.qr(matrix)[0]
    return basis @ basis.T


@pytest.mark.parametrize(("energy", "stays"), [(1.05, True), (1.5, False)])
@pytest.mark.parametrize("rotation", ["none", "random", "uniform"])
def test_only_a_clearly_stronger_direction_replaces_one_of_the_last_projection(
    energy, stays, rotation
):
    axes = np.eye(5)
    last = Projection(axes[:, [0, 1]], np.zeros(2))
    rows = along_axes([2.0, 1.0, energy, 0.1, 0.05])
    now = fitted(rows, last, bits=2, rotation=rotation)
    assert now.matrix.shape == (5, 2)
    assert np.allclose(span(now.matrix), span(axes[:, [0, 1] if stays else [0, 2]]))


def drifting(seed):
    """Rows of as many columns as there are bits, and rows that have moved on."""
    rng = np.random.default_rng(seed)
    before = rng.standard_normal((400, 4)) * 0.6 ** np.arange(4)
    turn = np.linalg.qr(np.eye(4) + 0.2 * rng.standard_normal((4, 4)))[0]
    return before, before[:300] @ turn * np.linspace(1.5, 0.7, 4) + 0.3


@pytest.mark.parametrize("rotation", ROTATIONS)
@pytest.mark.parametrize("whitening", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_values_come_as_close_to_the_last_ones_as_a_rotation_can_bring_them(
    seed, whitening, rotation
):
    """No other turn brings them closer; with 'itq' they ease towards corners instead."""
    before, rows = drifting(seed)
    last = fitted(before, whitening=whitening, rotation=rotation)
    now = fitted(rows, last, whitening=whitening, rotation=rotation)
    centred = rows - rows.mean(axis=0)
    values, aim = centred @ now.matrix, centred @ last.matrix
    turn, _ = orthogonal_procrustes(values, aim)
    if rotation != "itq":
        assert np.allclose(turn, np.eye(4), atol=1e-8)
        return
    unmoved = values @ turn
    assert 1e-4 < np.linalg.norm(turn - np.eye(4)) < 0.5
    losses = [np.linalg.norm(np.sign(some) - some) for some in (values, unmoved)]
    assert losses[0] < losses[1]
