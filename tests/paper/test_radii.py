import numpy as np
import pytest
from sklearn.metrics import precision_score, recall_score

from paper.radii import at_matched_radius, at_radii, matched_radius
from streambits import Codes
from streambits.evaluation.histograms import count_codes
from streambits.evaluation.truth import find

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
