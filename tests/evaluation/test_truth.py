import numpy as np
import pytest
from scipy.spatial.distance import cdist

from streambits.evaluation.truth import draw_queries, find


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


def test_no_more_queries_are_drawn_than_rows():
    assert sorted(draw_queries(50, 7)) == list(range(7))
