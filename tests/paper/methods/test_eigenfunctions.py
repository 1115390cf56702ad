import numpy as np
import pytest
import scipy.linalg

import streambits as sb
from paper.methods.features import Eigenfunctions, class_functions
from paper.methods.features.eigenfunctions import modes_of
from streambits.errors import InputError

UNIFORM = np.linspace(0, 1, 5001)


# One-dimensional densities


def test_eigenfunctions_of_a_uniform_density_are_cosines():
    modes = modes_of(UNIFORM, 0.01)
    places = modes.low + modes.step * np.arange(50)
    assert (modes.low, modes.step) == pytest.approx((0.025 + 0.95 / 100, 0.95 / 50))
    for number in range(4):
        expected = np.cos(np.pi * (number + 1) * (places - 0.025) / 0.95)
        assert abs(np.corrcoef(modes.values[:, number], expected)[0, 1]) > 0.99


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


def test_few_heavy_functions_are_cut_at_several_percentiles():
    train = np.stack([UNIFORM, 0.01 * np.sin(1e4 * UNIFORM)], axis=1)
    plain = Eigenfunctions.smoothest(train, 3, 1.0)
    heavy = int(np.sum(plain.weights / plain.weights[0] > 0.1))
    assert heavy < 3
    features = Eigenfunctions.heaviest(train, 7, 1.0)
    shares = (features(train) < 0).mean(axis=0)
    counts = [7] if heavy == 1 else [4, 3]
    expected = np.concatenate([np.arange(1, n + 1) / (n + 1) for n in counts])
    assert np.allclose(shares, expected, atol=0.002)
    assert features.weights[0] == pytest.approx(1 / counts[0])
    assert features.groups.tolist() == [0] * 7


def test_more_functions_than_there_are_is_an_error_that_says_what_to_do(train):
    most = 5 * 8  # 6 bins
    assert Eigenfunctions.smoothest(train, 10, most=most + 1).width == most
    with pytest.raises(InputError, match=r"40 eigenfunctions, and 41.*more rows"):
        Eigenfunctions.smoothest(train, most + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tables": np.ones((1, 2))}, "1 entry"),
        ({"tables": np.ones((3, 3))}, "tables"),
        ({"shifts": np.ones(3)}, "shifts"),
        ({"weights": np.ones(3)}, "2 numbers"),
        ({"groups": np.ones(1, int)}, "2 numbers"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, message):
    good = {"vectors": np.ones((4, 2)), "shifts": np.ones(2), "tables": np.ones((3, 2))}
    Eigenfunctions(**good)
    with pytest.raises(InputError, match=message):
        Eigenfunctions(**(good | change))


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


def test_two_classes_take_one_function():
    values = np.stack([np.ones(6), np.array([-1.0, -1, -1, 1, 1, 1])], axis=1)
    found = class_functions(values, np.array([0, 0.1]), [0, -1, 0, -1, 1, 1])
    assert found.shape == (2, 1)
    assert np.array_equal((values @ found > 0)[:, 0], values[:, 1] > 0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "shape"),
        ([0.0, 1.0, 0.0, 1.0], "float"),
        ([0, 0, -1, -1], "1 class"),
        ([-1, -1, -1, -1], "0 class"),
        ([0, 1, -2, 1], "-2"),
        ("abcd", "labels"),
    ],
)
def test_bad_labels_are_refused(labels, message):
    with pytest.raises(InputError, match=message):
        class_functions(np.ones((4, 2)), np.ones(2), labels)
