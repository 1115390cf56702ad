import numpy as np
import pytest
from scipy.spatial.distance import cdist

from paper.truth import find

ROWS = np.random.default_rng(1).random((120, 3))
QUERIES = np.array([5, 0, 119, 60])
EXACT = cdist(ROWS[QUERIES], ROWS)
EXACT[np.arange(4), QUERIES] = np.inf


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
