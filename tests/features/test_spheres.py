import numpy as np
import pytest
from scipy.spatial.distance import cdist

from conformance import check_features
from streambits.features import Spheres


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


def test_pivots_start_apart_and_settle():
    """What the balancing is for: without it, balls share far more or fewer rows."""
    rows = np.random.default_rng(0).standard_normal((2000, 16))
    some = Spheres.balanced(rows, 24)
    start = rows[:24] - rows.mean(axis=0)
    radii = np.median(cdist(rows - rows.mean(axis=0), start), axis=0)

    def unevenness(spheres):
        inside = (spheres(rows) > 0).astype(float)
        return (inside.T @ inside / 500)[np.triu_indices(24, 1)].std()

    assert unevenness(some) < unevenness(Spheres(start, radii, rows.mean(axis=0)))


def test_the_seed_decides(train):
    first, again, other = (Spheres.balanced(train, 12, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.pivots, again.pivots)
    assert not np.array_equal(first.pivots, other.pivots)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("count", [1, 2, 40])
def test_promises_of_features(mixture, dtype, offset, count):
    rows = mixture(400, dtype=dtype) + dtype(offset)
    features = Spheres.balanced(rows[:60], count)
    skip = ["check_features_noise"] if dtype == np.float64 else []
    check_features(features, rows, skip=skip)
    check_features(features, rows * dtype(1e4), skip=skip)
    assert features(rows).dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_and_tiny_rows(dtype):
    rows = (np.random.default_rng(0).random((9, 2)) * 1e-12).astype(dtype)
    skip = ["check_features_noise"] if dtype == np.float64 else []
    check_features(Spheres.balanced(rows, 4), rows, skip=skip)


def test_an_offset_of_a_million_costs_nothing(mixture):
    far = mixture(200) + np.float32(1e6)
    near = far.astype(np.float64) - 1e6
    found = Spheres.balanced(far[:60], 12)(far)
    assert np.allclose(found, Spheres.balanced(near[:60], 12)(near), atol=1e-2)


def test_huge_rows_lie_outside_in_single_precision_too(train):
    rows = np.array([[1e30] * 8, [-1e30, *[0.0] * 7]], np.float32)
    features = Spheres.balanced(train, 6)
    assert np.all(features(rows) < 0)
    assert np.isfinite(features.noise(rows, features(rows))).all()


@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
def test_other_libraries_give_the_same_features(train, name):
    library = pytest.importorskip(name)
    moved = library.asarray(train)
    here, there = Spheres.balanced(train, 6), Spheres.balanced(library.asarray(train), 6)
    assert np.allclose(np.asarray(there(library.asarray(train))), here(train), atol=1e-3)
    assert np.array_equal(there.on(np.zeros(1)).pivots, here.pivots)
    assert np.asarray(there.noise(moved, there(moved))).shape == (60,)


def test_state_sizes_and_bytes(fingerprint, train):
    features = Spheres.balanced(train, 6)
    assert (features.inputs, features.width) == (8, 6)
    assert features.nbytes == 8 * 54 + 12 * 54 + 4 * 8
    assert fingerprint(Spheres.from_state(features.state())) == fingerprint(features)
    assert repr(features) == "Spheres(6 in 8 columns)"
