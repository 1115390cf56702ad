import numpy as np
import pytest
from scipy.spatial.distance import cdist

from streambits.evaluation.truth import draw_queries, neighbours_within, true_neighbours

ROWS = np.random.default_rng(1).random((120, 3))


def test_queries_are_different_places_fixed_by_their_seed():
    queries = draw_queries(50, 200, seed=3)
    assert len(np.unique(queries)) == 50
    assert queries.max() < 200
    assert np.array_equal(queries, draw_queries(50, 200, seed=3))
    assert not np.array_equal(queries, draw_queries(50, 200, seed=4))


@pytest.mark.parametrize(("dtype", "offset"), [(np.float32, 0.0), (np.float64, 1e6)])
def test_neighbours_are_the_other_rows_within_the_radius(dtype, offset):
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((400, 4)) + offset).astype(dtype)
    places = rng.choice(400, 250, replace=False)
    distances = cdist(rows[places].astype(np.float64), rows.astype(np.float64))
    distances[np.arange(250), places] = np.inf  # a query is no neighbour of its own
    clear = abs(distances - 1.5) > 1e-6
    near = neighbours_within(rows, places, 1.5)
    np.testing.assert_array_equal(near[clear], (distances <= 1.5)[clear])


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
