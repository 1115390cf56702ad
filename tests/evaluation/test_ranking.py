import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import average_precision_score

from streambits import Codes
from streambits.evaluation.ranking import (
    average_precisions,
    counts_by_level,
    hamming_counts,
    mean_average_precision,
    recalls_at,
)
from streambits.evaluation.truth import neighbours_within


def counted(distances, near, levels):
    """Counts of queries that are all one block."""
    [counts] = counts_by_level([distances], near, levels)
    return counts


def precision_of_order(near):
    """Average precision of one ranking, by its definition."""
    places = np.flatnonzero(near) + 1
    return np.mean(np.arange(1, len(places) + 1) / places)


def tie_orders(distances):
    """Every order of the rows by distance."""
    return [
        list(order)
        for order in itertools.permutations(range(len(distances)))
        if all(distances[a] <= distances[b] for a, b in itertools.pairwise(order))
    ]


@st.composite
def small_rankings(draw):
    count = draw(st.integers(1, 6))
    near = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count).filter(any)))
    return np.array(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))), near


@given(small_rankings(), st.integers(1, 7))
def test_ties_count_by_their_mean_over_all_orders(ranking, first):
    distances, near = ranking
    orders, counts = tie_orders(distances), counted(distances[None], near[None], 4)
    precision = np.mean([precision_of_order(near[order]) for order in orders])
    assert average_precisions(*counts) == pytest.approx([precision])
    recall = np.mean([near[order[:first]].sum() / near.sum() for order in orders])
    assert recalls_at(*counts, first) == pytest.approx([recall])


@given(st.integers(0, 10**6), st.integers(2, 60))
def test_without_ties_average_precision_is_that_of_scikit_learn(seed, count):
    rng = np.random.default_rng(seed)
    distances, near = rng.permutation(count), rng.random(count) < 0.4
    near[rng.integers(count)] = True
    expected = average_precision_score(near, -distances)
    found = average_precisions(*counted(distances[None], near[None], count))
    assert found == pytest.approx([expected])


def test_a_query_with_nothing_to_find_is_nan_and_leaves_the_others():
    distances = np.array([[0, 1, 2], [0, 1, 2]])
    near = np.array([[False] * 3, [True, False, False]])
    found = average_precisions(*counted(distances, near, 3))
    assert np.isnan(found[0])
    assert found[1] == mean_average_precision(counts_by_level([distances], near, 3)) == 1


def test_small_types_of_distance_do_not_overflow():
    distances = np.array([[200, 255, 0]], np.uint8).repeat(9, axis=0)
    near = np.array([[True, False, False]]).repeat(9, axis=0)
    assert average_precisions(*counted(distances, near, 256))[8] == pytest.approx(0.5)


def naive_map(codes, rows, queries, radius):
    bits, scores = codes.unpack(), []
    for query in queries:
        others = np.arange(len(rows)) != query
        near = cdist(rows[[query]], rows)[0][others] <= radius
        distances = (bits[query] != bits).sum(axis=1)[others]
        if near.any():
            counts = counted(distances[None], near[None], codes.bits + 1)
            scores.append(average_precisions(*counts)[0])
    return np.mean(scores)


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_the_mean_leaves_out_each_query_itself_and_queries_without_neighbours(radius):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3))
    codes = Codes.from_bits(rng.random((300, 10)) > 0.5)
    queries = rng.choice(300, 150, replace=False)
    near = neighbours_within(rows, queries, radius)
    found = mean_average_precision(hamming_counts(codes, codes[queries], near, queries))
    assert found == pytest.approx(naive_map(codes, rows, queries, radius))


def test_codes_that_rank_perfectly_have_a_mean_of_one():
    rows, queries = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0), np.arange(40)
    codes, near = Codes.from_bits(rows > 5), neighbours_within(rows, queries, 1.0)
    assert mean_average_precision(hamming_counts(codes, codes, near, queries)) == 1
