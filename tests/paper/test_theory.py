import itertools

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from paper.theory import lemmas
from paper.theory.columns import columns

RNG = np.random.default_rng(0)
POINTS = RNG.random((240, 3))
SIGMA = 0.3
W = lemmas.affinities(POINTS, SIGMA**2)


def spectral(matrix):
    return np.linalg.norm(matrix, 2)


def energy(matrix):
    return np.sum(matrix**2)


# Lemma 1


@pytest.mark.parametrize("block", [7, 1024])
def test_columns_are_those_of_the_whole_matrix(block, monkeypatch):
    monkeypatch.setitem(columns.__globals__, "BLOCK", block)
    points = np.vstack([POINTS, POINTS[:12] + 1e-6, [[50.0, 0, 0]]])
    found, w, n = columns(points, SIGMA**2), lemmas.affinities(points, SIGMA**2), 253
    c = (w**2).sum(axis=0)
    assert found.n == n
    assert found.bandwidth == SIGMA**2
    assert found.ratio == pytest.approx(c.max() / c.min())
    assert found.coherence == pytest.approx(n * c.max() / energy(w))
    assert found.rank == pytest.approx(n**2 / energy(w))
    assert found.alone == pytest.approx(1 / n)
    assert found.distance == pytest.approx(0.1 * SIGMA / np.log(n))
    close = squareform(pdist(points)) + np.diag(np.full(n, np.inf))
    assert found.duplicates == pytest.approx((close.min(axis=0) <= found.distance).mean())
    assert found.duplicates >= 24 / n


# Lemma 2


def test_a_sample_is_scaled_columns():
    hat = lemmas.sample(W, 30, np.random.default_rng(1))
    chosen = np.random.default_rng(1).integers(240, size=30)
    np.testing.assert_allclose(hat, (240 / 30) ** 0.5 * W[:, chosen])
    assert lemmas.sampling_error(W, hat) == pytest.approx(
        spectral(W @ W - hat @ hat.T) / energy(W), rel=1e-3
    )


def test_the_error_of_a_sample_falls_and_stays_below_its_bound():
    found = list(lemmas.sampling(W, (10, 40, 160, 640), draws=8))
    for few, more in itertools.pairwise(found):
        assert more.error < 0.75 * few.error  # a half is 1 / sqrt(m)
        assert more.error > 0.25 * few.error  # a quarter would be the paper's 1 / m
        assert more.bound < few.bound
    for at in found:
        assert at.error <= at.worst < at.bound
        assert at.nothing == pytest.approx(spectral(W) ** 2 / energy(W), rel=1e-3)


# Lemma 3


@pytest.mark.parametrize("spare", [1, None])
def test_the_sketch_stays_below_its_certificate_and_that_below_the_bounds(spare):
    rows = W[:, ::6]
    for at in lemmas.sketching(rows, (2, 5, 12, 30), spare=spare):
        assert 0 < at.error <= at.certificate
        assert at.certificate <= at.tail * (1 + 1e-9) + 1e-12
        assert at.tail <= at.flat


# Theorem 1


@pytest.fixture(scope="module")
def parts():
    """What the theorem speaks of, by the definitions: What, B and the pseudoinverse."""
    hat = lemmas.sample(W, 25, np.random.default_rng(0))
    sketch = lemmas.FrequentDirections(25, 6, centred=False)
    sketch.update(hat)
    return hat, sketch.matrix.T @ sketch.matrix, np.linalg.pinv(hat, rcond=1e-12), sketch


def test_the_theorem_is_measured_as_printed(parts):
    hat, kept, inverse, _ = parts
    found = lemmas.theorem(W, 25, 6)
    assert found.condition == pytest.approx(spectral(hat) * spectral(inverse), rel=1e-6)
    assert found.rank == np.linalg.matrix_rank(hat)
    lost = hat.T @ hat - kept
    assert found.factor == pytest.approx(spectral(hat @ lost @ inverse) / spectral(lost), rel=1e-6)
    printed = spectral(W @ W - hat @ kept @ inverse) / energy(W)
    assert found.printed == pytest.approx(printed, rel=1e-3)
