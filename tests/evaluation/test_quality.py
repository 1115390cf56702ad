import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits import Codes
from streambits.evaluation import quality, truth

RNG = np.random.default_rng(1)
ROWS = RNG.random((300, 5))
QUERIES = truth.draw_queries(40, 300, seed=0)
TRUTH = truth.find(ROWS, QUERIES, 0.4, closest=10)
EXACT = np.linalg.norm(ROWS[:, None] - ROWS, axis=2)


def test_truth_is_brute_force_without_the_query_itself():
    for row, place in enumerate(QUERIES):
        others = np.delete(np.arange(300), place)
        assert set(np.flatnonzero(TRUTH.near[row])) == set(others[EXACT[place, others] <= 0.4])
        assert set(TRUTH.closest[row]) == set(others[np.argsort(EXACT[place, others])[:10]])


def test_true_distances_are_a_perfect_ranking():
    found = quality.quality(TRUTH, lambda some: EXACT[some], first=20)
    assert found.map == pytest.approx(1, abs=0.01)  # real distances are sorted into levels
    assert found.recall == 1


@given(
    st.lists(st.integers(0, 3), min_size=5, max_size=6),
    st.sets(st.integers(0, 4), min_size=1, max_size=3),
    st.integers(1, 4),
)
def test_expected_recall_is_the_mean_over_all_tie_orders(distances, closest, first):
    """Brute force: every order of the rows, stably sorted by distance."""
    n, wanted = len(distances), sorted(closest)
    hits = [
        len(set(sorted(order, key=lambda i: distances[i])[:first]) & closest) / len(closest)
        for order in itertools.permutations(range(n))
    ]
    found = quality.expected_recall(np.array([distances]), np.array([wanted]), first, 4)
    assert found == pytest.approx(np.mean(hits))


def test_hamming_quality_agrees_with_mean_average_precision():
    codes = Codes.from_bits(ROWS > 0.5)
    found = quality.quality(TRUTH, lambda some: codes[some].hamming(codes))
    expected = quality.mean_average_precision(codes, ROWS, QUERIES, 0.4)
    assert found.map == pytest.approx(expected)


@pytest.mark.parametrize("first", [1, 5, 10])
def test_quality_is_of_the_first_threshold_and_of_as_many_places_as_asked(first):
    found = truth.find(ROWS, QUERIES, (0.4, 0.1, 0.8), closest=10)
    codes = Codes.from_bits(ROWS > 0.5)

    def distances(some):
        return codes[some].hamming(codes)

    got = quality.quality(found, distances, first=first)
    assert got.map == pytest.approx(quality.mean_average_precision(codes, ROWS, QUERIES, 0.4))
    ranked = quality.quality(found, lambda some: EXACT[some], first=first)
    assert ranked.recall == pytest.approx(first / 10)
