import numpy as np
import pytest
from scipy.spatial.distance import cdist

from streambits.evaluation.truth import draw_queries, find, nearest_radii, true_neighbours


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_neighbours_are_those_within_the_threshold(dtype, offset):
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((400, 4)) + offset).astype(dtype)
    queries = rng.choice(400, 250, replace=False)
    distances = cdist(rows[queries].astype(np.float64), rows.astype(np.float64))
    distances[np.arange(250), queries] = np.inf  # a query is no neighbour of its own
    truth = find(rows, queries, 1.5, closest=3)
    assert np.array_equal(truth.queries, queries)
    clear = abs(distances - 1.5) > 1e-6
    assert np.array_equal(truth.near[clear], (distances <= 1.5)[clear])
    assert not truth.near[np.arange(250), queries].any()
    found = np.sort(np.take_along_axis(distances, truth.closest, axis=1))  # places may tie
    np.testing.assert_allclose(found, np.sort(distances)[:, :3], atol=1e-6)


def test_queries_are_different_places_fixed_by_their_seed():
    queries = draw_queries(50, 200, seed=3)
    assert len(np.unique(queries)) == 50
    assert queries.max() < 200
    assert np.array_equal(queries, draw_queries(50, 200, seed=3))
    assert not np.array_equal(queries, draw_queries(50, 200, seed=4))


ROWS = np.random.default_rng(1).random((120, 3))
QUERIES = np.array([5, 0, 119, 60])
EXACT = cdist(ROWS[QUERIES], ROWS)
EXACT[np.arange(4), QUERIES] = np.inf


@pytest.mark.parametrize(
    "thresholds", [(0.3, 0.1, 0.7), (0.1, 0.3, 0.7), (0.3, 0.3), (0.0, np.inf)]
)
def test_several_thresholds_in_any_order_are_as_one_at_a_time(thresholds):
    truth = find(ROWS, QUERIES, thresholds)
    assert truth.thresholds == thresholds
    assert truth.level.dtype == np.uint8
    for which, threshold in enumerate(thresholds):
        alone = find(ROWS, QUERIES, threshold)
        np.testing.assert_array_equal(truth.within(which), alone.near)
        assert not truth.within(which)[np.arange(4), QUERIES].any()
        if np.isfinite(threshold):
            np.testing.assert_array_equal(alone.near, threshold >= EXACT)


def test_the_nearest_come_nearest_first():
    truth = find(ROWS, QUERIES, 0.3, closest=7)
    np.testing.assert_array_equal(truth.closest, np.argsort(EXACT, axis=1)[:, :7])


def test_one_threshold_unpacks_as_queries_near_and_closest():
    queries, near, closest = truth = find(ROWS, QUERIES, 0.3)
    assert queries is truth.queries
    assert closest is truth.closest
    np.testing.assert_array_equal(near, truth.level == 1)


def test_true_neighbours_are_the_k_nearest_of_queries_from_elsewhere():
    queries = np.random.default_rng(9).random((130, ROWS.shape[1])).astype(np.float32)
    near = true_neighbours(ROWS, queries, 7)
    nearest = np.argsort(cdist(queries.astype(np.float64), ROWS), axis=1)[:, :7]
    assert (near.sum(axis=1) == 7).all()
    assert np.take_along_axis(near, nearest, axis=1).all()


def test_rows_as_near_as_the_kth_are_true_neighbours_too():
    rows = np.repeat(np.random.default_rng(8).random((40, 6)) + 1000, 3, axis=0)
    near = true_neighbours(rows, rows[:3] + 1e-3, 2)
    assert (near.sum(axis=1) == 3).all()


def test_rows_of_the_database_are_not_their_own_neighbours():
    near = true_neighbours(ROWS, None, 4)
    far = cdist(ROWS, ROWS)
    np.fill_diagonal(far, np.inf)
    expected = far <= np.sort(far, axis=1)[:, 3:4]
    np.testing.assert_array_equal(near, expected)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_radii_are_those_of_the_kth_nearest_of_each_subset(offset):
    rng = np.random.default_rng(0)
    rows, queries = rng.random((300, 4)) + offset, rng.random((150, 4)) + offset
    subsets = [np.arange(300), np.arange(0, 300, 7), np.array([4, 9]), np.array([], int)]
    found = nearest_radii(rows, queries, 5, lambda: subsets)
    far = np.sort(cdist(queries, rows) ** 2, axis=1)
    np.testing.assert_allclose(found[0], far[:, 4], rtol=1e-9)
    assert (found[0] >= far[:, 4]).all()
    some = cdist(queries, rows[subsets[2]]) ** 2
    np.testing.assert_allclose(found[2], some.max(axis=1), rtol=1e-9)
    assert (found[3] < 0).all()
