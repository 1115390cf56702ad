import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve, precision_score, recall_score

from paper.histograms import count_codes
from paper.radii import RECALLS, at_matched_radius, at_radii, matched_radius, precisions_at
from paper.truth import find
from streambits import Codes

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((150, 2))
CODES = Codes.from_bits(ROWS @ RNG.standard_normal((2, 9)) + RNG.standard_normal(9) > 0)
TRUTH = find(ROWS, np.arange(0, 150, 2), (0.15, 0.6))
DISTANCES = CODES[TRUTH.queries].hamming(CODES).astype(int)
DISTANCES[np.arange(75), TRUTH.queries] = 99  # never returned
TALLY = count_codes(TRUTH, CODES)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("radius", range(10))
def test_means_over_queries_are_those_of_scikit_learn(which, radius):
    """Over queries with something true; precision over those that return something."""
    near, returned = TRUTH.within(which), radius >= DISTANCES
    sought = [q for q in range(75) if near[q].any()]
    assert which == 1 or len(sought) < 75
    answered = [q for q in sought if returned[q].any()]
    found = at_radii(TALLY.rows, TALLY.true[which]).at(radius)
    precision = [precision_score(near[q], returned[q]) for q in answered]
    recall = [recall_score(near[q], returned[q], zero_division=0.0) for q in sought]
    assert found.precision == pytest.approx(np.mean(precision))
    assert found.recall == pytest.approx(np.mean(recall))
    assert found.answered == pytest.approx(len(answered) / len(sought))
    assert found.returned == pytest.approx(returned.sum() / 75)


@pytest.mark.parametrize("radius", range(10))
def test_pooled_figures_are_those_of_all_pairs(radius):
    near, returned = TRUTH.near.ravel(), (radius >= DISTANCES).ravel()
    found = at_radii(TALLY.rows, TALLY.true[0]).at(radius)
    assert found.pooled_precision == pytest.approx(precision_score(near, returned))
    assert found.pooled_recall == pytest.approx(recall_score(near, returned))


@pytest.mark.parametrize("which", [0, 1])
def test_the_matched_radius_returns_about_as_many_as_are_true(which):
    true = TALLY.true[which]
    returned = [(radius >= DISTANCES).sum() for radius in range(10)]
    gaps = [abs(int(number) - int(true.sum())) for number in returned]
    radius = matched_radius(TALLY.rows, true)
    assert gaps[radius] == min(gaps)
    assert radius == gaps.index(min(gaps))  # the smaller of two
    assert at_matched_radius(TALLY.rows, true) == at_radii(TALLY.rows, true).at(radius)


def test_nothing_true_anywhere():
    found = at_matched_radius(np.array([[2, 2]]), np.array([[0, 0]]))
    assert found.radius == 0
    assert found.pooled_precision == 0
    assert np.isnan([found.precision, found.recall, found.answered, found.pooled_recall]).all()


@pytest.mark.parametrize("count", [2, 17, 60])
def test_without_ties_the_curve_is_scikit_learns(count):
    distances, near = RNG.permutation(count), RNG.random(count) < 0.4
    near[RNG.integers(count)] = True
    order, total = np.argsort(distances), int(near.sum())
    precision, recall, _ = precision_recall_curve(near, -distances)
    steps = [(number + 1) / total for number in range(total)]
    wanted = [precision[np.isclose(recall, step)].max() for step in steps]
    found = precisions_at(np.ones((1, count), int), near[order][None].astype(int), steps)
    assert found[0] == pytest.approx(wanted)


def test_inside_ties_the_curve_is_that_of_rows_in_proportion():
    counts, true = np.array([[2, 8]]), np.array([[2, 4]])
    found = precisions_at(counts, true, (1 / 6, 2 / 6, 4 / 6, 1.0))
    assert found[0] == pytest.approx([1, 1, 4 / 6, 6 / 10])


def test_a_curve_has_twenty_points_from_a_twentieth_to_all():
    counts = np.ones((1, 100), int)
    true = (np.arange(100) % 5 == 0).astype(int)[None]
    assert list(RECALLS) == [round(0.05 * i, 2) for i in range(1, 21)]
    wanted = [i / (5 * i - 4) for i in range(1, 21)]
    assert precisions_at(counts, true)[0] == pytest.approx(wanted)
