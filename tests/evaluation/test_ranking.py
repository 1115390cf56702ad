import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_curve

from streambits.evaluation.histograms import histogram
from streambits.evaluation.ranking import RECALLS, average_precisions, precisions_at, recalls_at


def tallied(distances, near, levels):
    """(1, levels) counts of one query."""
    return histogram(distances[None], levels), histogram(distances[near][None], levels)


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


@given(small_rankings())
def test_average_precision_is_the_mean_over_all_tie_orders(ranking):
    distances, near = ranking

    def of(order):
        places = np.flatnonzero(near[order]) + 1
        return np.mean(np.arange(1, len(places) + 1) / places)

    wanted = np.mean([of(order) for order in tie_orders(distances)])
    assert average_precisions(*tallied(distances, near, 4)) == pytest.approx([wanted])


@given(small_rankings(), st.integers(1, 7))
def test_recall_is_the_mean_over_all_tie_orders(ranking, first):
    distances, near = ranking
    wanted = np.mean([near[order[:first]].sum() / near.sum() for order in tie_orders(distances)])
    assert recalls_at(*tallied(distances, near, 4), first) == pytest.approx([wanted])


@given(st.integers(0, 10**6), st.integers(2, 60))
def test_without_ties_the_curve_and_its_mean_are_scikit_learns(seed, count):
    rng = np.random.default_rng(seed)
    distances, near = rng.permutation(count), rng.random(count) < 0.4
    near[rng.integers(count)] = True
    counts, total = tallied(distances, near, count), int(near.sum())
    assert average_precisions(*counts) == pytest.approx([average_precision_score(near, -distances)])
    precision, recall, _ = precision_recall_curve(near, -distances)
    steps = [(number + 1) / total for number in range(total)]
    wanted = [precision[np.isclose(recall, step)].max() for step in steps]
    assert precisions_at(*counts, steps)[0] == pytest.approx(wanted)


def test_inside_ties_the_curve_is_that_of_rows_in_proportion():
    counts, true = np.array([[2, 8]]), np.array([[2, 4]])
    found = precisions_at(counts, true, (1 / 6, 2 / 6, 4 / 6, 1.0))
    assert found[0] == pytest.approx([1, 1, 4 / 6, 6 / 10])


def test_a_curve_has_twenty_points_from_a_twentieth_to_all():
    counts = np.ones((1, 100), int)
    true = (np.arange(100) % 5 == 0).astype(int)[None]
    curve = precisions_at(counts, true)[0]
    assert list(RECALLS) == [round(0.05 * i, 2) for i in range(1, 21)]
    assert curve == pytest.approx([i / (5 * i - 4) for i in range(1, 21)])
