import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import average_precision_score

from streambits import Codes
from streambits.evaluation.quality import average_precision, mean_average_precision


def precision_of_order(near):
    """Average precision of one ranking, by its definition."""
    places = np.flatnonzero(near) + 1
    return np.mean(np.arange(1, len(places) + 1) / places)


def over_all_tie_orders(distances, near):
    orders = [
        order
        for order in itertools.permutations(range(len(near)))
        if all(distances[a] <= distances[b] for a, b in itertools.pairwise(order))
    ]
    return np.mean([precision_of_order(near[list(order)]) for order in orders])


@given(st.data(), st.integers(1, 6))
def test_ties_count_by_their_mean_over_all_orders(data, count):
    sides = st.lists(st.booleans(), min_size=count, max_size=count).filter(any)
    near = np.array(data.draw(sides))
    distances = np.array(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    found = average_precision(distances[None], near[None], 4)
    assert found == pytest.approx([over_all_tie_orders(distances, near)])


@given(st.integers(0, 10**6), st.integers(2, 60))
def test_without_ties_it_is_that_of_scikit_learn(seed, count):
    rng = np.random.default_rng(seed)
    distances = rng.permutation(count)
    near = rng.random(count) < 0.4
    near[rng.integers(count)] = True
    expected = average_precision_score(near, -distances)
    assert average_precision(distances[None], near[None], count) == pytest.approx([expected])


def test_a_query_with_nothing_to_find_is_nan_and_leaves_the_others():
    distances = np.array([[0, 1, 2], [0, 1, 2]])
    near = np.array([[False] * 3, [True, False, False]])
    found = average_precision(distances, near, 3)
    assert np.isnan(found[0])
    assert found[1] == 1


def test_small_types_of_distance_do_not_overflow():
    distances = np.array([[200, 255, 0]], np.uint8)
    near = np.array([[True, False, False]])
    assert average_precision(np.repeat(distances, 9, axis=0), near.repeat(9, axis=0), 256)[
        8
    ] == pytest.approx(0.5)


def naive_map(codes, rows, queries, threshold):
    bits, scores = codes.unpack(), []
    for query in queries:
        others = np.arange(len(rows)) != query
        near = cdist(rows[[query]], rows)[0][others] <= threshold
        distances = (bits[query] != bits).sum(axis=1)[others]
        if near.any():
            scores.append(average_precision(distances[None], near[None], codes.bits + 1)[0])
    return np.mean(scores)


@pytest.mark.parametrize("threshold", [0.5, 1.0, 3.0])
def test_the_mean_leaves_out_each_query_itself_and_queries_without_neighbours(threshold):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3))
    codes = Codes.from_bits(rng.random((300, 10)) > 0.5)
    queries = rng.choice(300, 150, replace=False)
    found = mean_average_precision(codes, rows, queries, threshold)
    assert found == pytest.approx(naive_map(codes, rows, queries, threshold))


def test_codes_that_rank_perfectly_have_a_mean_of_one():
    rows = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0)
    codes = Codes.from_bits(rows > 5)
    assert mean_average_precision(codes, rows, np.arange(40), 1.0) == 1
