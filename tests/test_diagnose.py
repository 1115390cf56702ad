import numpy as np
import pytest
from scipy.spatial.distance import cdist

import streambits as sb
from streambits.diagnose import Diagnosis, diagnose
from streambits.errors import InputError

RNG = np.random.default_rng(0)
CLOUD = RNG.random((600, 3))
CENTRES = RNG.uniform(-10, 10, (4, 3))
CLUSTERS = CENTRES[RNG.integers(4, size=800)] + 0.3 * RNG.standard_normal((800, 3))
OUTLIERS = np.vstack([CLUSTERS, RNG.uniform(-100, 100, (12, 3))])
COPIES = np.vstack([CLOUD[:400], CLOUD[:100] + 1e-7])


def test_figures_are_those_of_the_whole_matrix():
    cloud = CLOUD[:400]
    found = diagnose(cloud)
    sigma = sb.bandwidth.nearest(30).distance(cloud)
    distances = cdist(cloud, cloud)
    w = np.exp(-((distances / sigma) ** 2))
    norms = (w**2).sum(axis=0)
    np.fill_diagonal(distances, np.inf)
    assert found.n == 400
    assert found.bandwidth == pytest.approx(sigma**2)
    assert found.ratio == pytest.approx(norms.max() / norms.min())
    assert found.distance == pytest.approx(0.1 * sigma / np.log(400))
    assert found.duplicates == pytest.approx((distances.min(axis=1) <= found.distance).mean())
    assert found.rank == pytest.approx(400**2 / (w**2).sum())


def test_a_uniform_cloud_needs_nothing():
    found = diagnose(CLOUD)
    assert found.ratio < 20
    assert found.duplicates == found.alone == 0
    assert "will do" in found.advice


def test_clusters_with_outliers_need_centres():
    found = diagnose(OUTLIERS)
    assert found.ratio > 120
    assert found.alone == pytest.approx(12 / 812)
    assert f"factor of {found.ratio:.0f}:" in found.advice
    assert "centres" in found.advice
    assert "duplicate" not in found.advice


def test_copies_are_named_with_their_share():
    found = diagnose(COPIES)
    assert found.duplicates == pytest.approx(200 / 500)
    assert "40% of the rows have a near-duplicate" in found.advice
    assert "factor" not in found.advice


def test_uneven_rows_with_copies_get_both_sentences():
    advice = diagnose(np.vstack([OUTLIERS, OUTLIERS[:300]])).advice
    assert "factor of" in advice
    assert "near-duplicate" in advice


@pytest.mark.parametrize(("factor", "word"), [(1e-3, "larger"), (1e5, "smaller")])
def test_a_bandwidth_that_tells_nothing_comes_first(factor, word):
    found = diagnose(OUTLIERS[:800], bandwidth=factor * sb.bandwidth.nearest(30))
    assert f"pass a {word} bandwidth" in found.advice
    assert "centres" not in found.advice


def test_a_bandwidth_is_taken_as_a_number_too():
    assert diagnose(CLOUD, bandwidth=0.2).bandwidth == 0.2
    plain, doubled = diagnose(CLOUD), diagnose(CLOUD, bandwidth=2 * sb.bandwidth.nearest(30))
    assert doubled.bandwidth == pytest.approx(2 * plain.bandwidth)


def test_the_bandwidth_is_that_of_500_landmarks_whatever_the_sample():
    rows = RNG.random((3000, 3))
    landmarks = sb.bandwidth.nearest(30).of(rows[:500])
    assert diagnose(rows).bandwidth == pytest.approx(landmarks, rel=0.1)
    assert sb.bandwidth.nearest(30).of(rows) < 0.5 * landmarks


def test_of_many_rows_some_are_drawn():
    found = diagnose(RNG.random((4100, 2), dtype=np.float32))
    assert found.n == 4000
    assert 1 < found.ratio < 20


def test_units_and_offsets_change_nothing_but_the_bandwidth():
    plain, moved = diagnose(CLOUD), diagnose(1000 * CLOUD + 1e6)
    assert moved.bandwidth == pytest.approx(1e6 * plain.bandwidth)
    assert moved.distance == pytest.approx(1000 * plain.distance)
    names = [name for name in Diagnosis._fields if name not in ("bandwidth", "distance")]
    for name in names:
        assert getattr(moved, name) == pytest.approx(getattr(plain, name))


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (CLOUD[:20], "at least 50"),
        (np.zeros((60, 2)), "equal"),
        (np.full((60, 2), np.nan), "NaN"),
        (CLOUD[:, 0], "two-dimensional"),
    ],
)
def test_bad_input(sample, message):
    with pytest.raises(InputError, match=message):
        diagnose(sample)
