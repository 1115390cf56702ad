import numpy as np
import pytest
import scipy.linalg

import streambits as sb
from conformance import check_features
from streambits.errors import InputError
from streambits.features import Eigenfunctions, class_functions
from streambits.features.eigenfunctions import modes_of

UNIFORM = np.linspace(0, 1, 5001)
NORMAL = np.random.default_rng(0).standard_normal(20000)


def sign_changes(values):
    return int(np.sum(np.diff(np.sign(values)) != 0))


# One-dimensional densities


def test_eigenfunctions_of_a_uniform_density_are_cosines():
    modes = modes_of(UNIFORM, 0.01)
    places = modes.low + modes.step * np.arange(50)
    assert (modes.low, modes.step) == pytest.approx((0.025 + 0.95 / 100, 0.95 / 50))
    for number in range(4):
        expected = np.cos(np.pi * (number + 1) * (places - 0.025) / 0.95)
        assert abs(np.corrcoef(modes.values[:, number], expected)[0, 1]) > 0.99


def test_eigenvalues_of_a_uniform_density_grow_like_squares():
    """A small bandwidth b makes 1 - eigenvalue the transform of the kernel, exp(-b w^2 / 4)."""
    modes = modes_of(UNIFORM, 0.003)
    expected = 1 - np.exp(-0.003 * (np.pi * np.arange(1, 5) / 0.95) ** 2 / 4)
    assert np.allclose(modes.eigenvalues[:4], expected, rtol=0.15)


def test_eigenfunctions_of_a_normal_density_change_sign_like_hermite_polynomials():
    modes = modes_of(NORMAL, 1.0)
    assert np.all(np.diff(modes.values[:, 0]) > 0)
    assert [sign_changes(modes.values[:, i]) for i in range(4)] == [1, 2, 3, 4]
    middle = modes.low + modes.step * np.interp(0, modes.values[:, 0], np.arange(50))
    assert abs(middle) < 0.05


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


@pytest.mark.parametrize(("count", "bins"), [(15, 2), (95, 9), (500, 50), (5000, 50)])
def test_bins_are_a_tenth_of_the_values_up_to_fifty(count, bins):
    assert modes_of(np.linspace(0, 1, count), 0.1).values.shape[0] == bins


def test_values_nearly_all_equal_have_no_functions():
    assert modes_of(np.array([0.0] * 99 + [1.0]), 1.0).values.shape[1] == 0


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


def test_a_constant_can_come_first(train):
    features = Eigenfunctions.smoothest(train, 5, constant=True)
    assert features.width == 6
    assert np.all(features(train)[:, 0] == 1)
    rest = Eigenfunctions.smoothest(train, 5)
    assert np.allclose(features(train)[:, 1:], rest(train), atol=1e-5)
    assert features.weights[0] == 1


def test_more_functions_than_there_are_is_an_error_that_says_what_to_do(train):
    most = 5 * 8  # 6 bins
    assert Eigenfunctions.smoothest(train, 10, most=most + 1).width == most
    with pytest.raises(InputError, match=r"40 eigenfunctions, and 41.*more rows"):
        Eigenfunctions.smoothest(train, most + 1)


MAKERS = {
    "smoothest": lambda train: Eigenfunctions.smoothest(train, 30),
    "heaviest": lambda train: Eigenfunctions.heaviest(train, 30),
    "constant": lambda train: Eigenfunctions.smoothest(train, 3, constant=True),
    "one": lambda train: Eigenfunctions.heaviest(train, 1),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("maker", MAKERS)
def test_every_kind_keeps_the_promises_of_features(mixture, maker, dtype, offset):
    rows = mixture(400, dtype=dtype) + dtype(offset)
    features = MAKERS[maker](rows[:100])
    check_features(features, rows, skip=["check_features_noise"] if dtype == np.float64 else [])
    assert features(rows).dtype == dtype


def test_an_offset_of_a_million_costs_nothing(mixture):
    far = mixture(200) + np.float32(1e6)
    near = far.astype(np.float64) - 1e6
    for maker in MAKERS.values():
        assert np.allclose(maker(far[:60])(far), maker(near[:60])(near), atol=1e-3)


def test_huge_rows_in_single_precision_lie_at_an_end(train):
    rows = np.array([[3e38] * 8, [-3e38, *[3e38] * 7]], np.float32)
    features = Eigenfunctions.smoothest(train, 10)
    ends = features.tables[[0, -1]]
    assert np.all(np.isclose(features(rows)[:, None], ends).any(axis=1))
    assert np.isfinite(features.noise(rows, features(rows))).all()


@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
@pytest.mark.parametrize("maker", MAKERS)
def test_other_libraries_give_the_same_features(train, maker, name):
    library = pytest.importorskip(name)
    moved = library.asarray(train)
    here, there = MAKERS[maker](train), MAKERS[maker](library.asarray(train))
    assert np.allclose(np.asarray(there(library.asarray(train))), here(train), atol=1e-4)
    assert np.array_equal(there.on(np.zeros(1)).tables, here.tables)
    assert np.asarray(there.noise(moved, there(moved))).shape == (60,)


def test_state_sizes_and_bytes(fingerprint, train):
    features = Eigenfunctions.heaviest(train, 6)
    assert (features.inputs, features.width, features.bins) == (8, 6, 6)
    assert features.nbytes == 12 * 54 + 4 * 8 + 8 * 36 + 12 * 36 + 3 * 8 * 6
    assert fingerprint(Eigenfunctions.from_state(features.state())) == fingerprint(features)
    assert repr(features) == "Eigenfunctions(6 of 8 columns, 6 bins)"


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
