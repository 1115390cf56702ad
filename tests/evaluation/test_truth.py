import numpy as np
import pytest
from scipy.spatial.distance import cdist

from streambits.evaluation.truth import draw_queries, near_blocks


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_neighbours_are_those_within_the_threshold(dtype, offset):
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((400, 4)) + offset).astype(dtype)
    queries = rng.choice(400, 250, replace=False)
    distances = cdist(rows[queries].astype(np.float64), rows.astype(np.float64))
    blocks = list(near_blocks(rows, queries, 1.5))
    assert np.array_equal(np.concatenate([block.queries for block in blocks]), queries)
    near = np.concatenate([block.near for block in blocks])
    clear = abs(distances - 1.5) > 1e-6
    assert np.array_equal(near[clear], (distances <= 1.5)[clear])
    assert near[np.arange(250), queries].all()


def test_queries_are_different_places_fixed_by_their_seed():
    queries = draw_queries(50, 200, seed=3)
    assert len(np.unique(queries)) == 50
    assert queries.max() < 200
    assert np.array_equal(queries, draw_queries(50, 200, seed=3))
    assert not np.array_equal(queries, draw_queries(50, 200, seed=4))


def test_no_more_queries_are_drawn_than_rows():
    assert sorted(draw_queries(50, 7)) == list(range(7))
