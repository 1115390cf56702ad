import numpy as np
from scipy.spatial.distance import cdist

from paper.methods.features import Spheres


def test_features_are_positive_inside_a_ball():
    rng = np.random.default_rng(0)
    pivots, radii, centre = rng.random((5, 3)), rng.random(5) + 0.3, rng.random(3)
    rows = rng.random((50, 3))
    expected = radii**2 - cdist(rows - centre, pivots) ** 2
    assert np.allclose(Spheres(pivots, radii, centre)(rows), expected)


def test_balls_are_half_full_and_every_two_share_a_quarter():
    rows = np.random.default_rng(0).standard_normal((2000, 16))
    inside = Spheres.balanced(rows, 24)(rows) > 0
    assert np.allclose(inside.mean(axis=0), 0.5, atol=0.001)
    shared = (inside.T @ inside.astype(float) / 2000)[np.triu_indices(24, 1)] / 0.25
    assert np.abs(shared - 1).mean() <= 0.101
    assert shared.std() <= 0.151
