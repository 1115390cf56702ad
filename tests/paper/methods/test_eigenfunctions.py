import numpy as np
import scipy.linalg

import streambits as sb
from paper.methods.features import Eigenfunctions, class_functions
from paper.methods.features.eigenfunctions import modes_of

# One-dimensional densities


def test_modes_solve_the_equation_of_the_paper():
    """(Dt - P W P) g = eigenvalue P Dh g, written out with loops and solved by SciPy."""
    values = np.random.default_rng(1).exponential(size=300)
    modes = modes_of(values, 0.7)
    low, high = np.percentile(values, [2.5, 97.5])
    edges = np.linspace(low, high, 31)
    share = np.zeros(30)
    for value in np.clip(values, low, high):
        share[min(np.searchsorted(edges, value, side="right") - 1, 29)] += 1 / 300
    share = (share + 0.1) / (share + 0.1).sum()
    centres = (edges[1:] + edges[:-1]) / 2
    affinity = np.array([[np.exp(-((a - b) ** 2) / 0.7) for a in centres] for b in centres])
    joint = np.diag(share) @ affinity @ np.diag(share)
    left = np.diag(joint.sum(axis=1)) - joint
    right = np.diag(share) @ np.diag((np.diag(share) @ affinity).sum(axis=0))
    expected, vectors = scipy.linalg.eigh(left, right)
    assert np.allclose(modes.eigenvalues[:8], expected[1:9], atol=1e-9)
    for i in range(5):
        assert abs(np.corrcoef(modes.values[:, i], vectors[:, i + 1])[0, 1]) > 1 - 1e-6
    assert np.allclose(share @ modes.values**2, 1)


# The features


def test_tables_are_interpolated_along_their_directions():
    rng = np.random.default_rng(0)
    vectors, shifts, tables = rng.random((3, 5)) * 4, rng.random(5), rng.random((6, 5))
    centre, rows = rng.random(3), rng.uniform(-1, 2, (200, 3))
    places = (rows - centre) @ vectors + shifts
    found = Eigenfunctions(vectors, shifts, tables, centre)(rows)
    for j in range(5):
        assert np.allclose(found[:, j], np.interp(places[:, j], np.arange(6), tables[:, j]))
    assert places.min() < 0
    assert places.max() > 5


def test_smoothest_functions_are_those_of_the_smallest_eigenvalues(mixture):
    train = mixture(500, dtype=np.float64)
    bandwidth = sb.bandwidth.nearest(30).of(train)
    centred = train - train.mean(axis=0)
    components = np.linalg.svd(centred, full_matrices=False)[2]
    all_modes = [modes_of(centred @ axis, bandwidth) for axis in components]
    every = [(v, d, i) for d, m in enumerate(all_modes) for i, v in enumerate(m.eigenvalues)]
    features = Eigenfunctions.smoothest(train, 20)
    assert np.allclose(features.weights, [1 - v for v, *_ in sorted(every)[:20]])
    assert features.groups.tolist() == [d for _, d, _ in sorted(every)[:20]]
    for j, (_, d, i) in enumerate(sorted(every)[:20]):
        modes = all_modes[d]
        places = modes.low + modes.step * np.arange(50)
        expected = np.interp(centred @ components[d], places, modes.values[:, i])
        assert abs(np.corrcoef(features(train)[:, j], expected)[0, 1]) > 0.99


def test_heaviest_functions_have_normalised_weights_and_median_zero(mixture):
    train = mixture(500, width=30, dtype=np.float64)
    wide = sb.bandwidth.nearest(30) / 8
    plain = Eigenfunctions.smoothest(train, 24, wide)
    features = Eigenfunctions.heaviest(train, 24, wide)
    assert np.allclose(features.weights, plain.weights / plain.weights[0])
    assert features.weights.min() > 0.1
    assert np.array_equal(features.groups, plain.groups)
    assert np.allclose(np.median(features(train), axis=0), 0, atol=1e-9)
    moved = plain(train) - features(train)
    assert np.allclose(moved, moved[0])


# Labels


def test_class_functions_solve_the_normal_equations():
    rng = np.random.default_rng(0)
    values, eigenvalues = rng.standard_normal((40, 6)), rng.random(6)
    labels = np.array([0, 1, 2, -1] * 10)
    found = class_functions(values, eigenvalues, labels, trust=5.0)
    for wanted in range(3):
        y = np.where(labels == wanted, 1.0, -1.0)
        weight = np.diag(np.select([labels < 0, labels == wanted], [0, 0.25], 0.125))
        left = np.diag(eigenvalues) + values.T @ weight @ values
        assert np.allclose(left @ found[:, wanted], values.T @ weight @ y)
