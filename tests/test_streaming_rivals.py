"""Rivals that learn from the stream: frosh, osh, unifdiag, rff_fd, semi_supervised, robust FD."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import streambits as sb
from streambits.errors import InputError, MergeError
from streambits.evaluation.quality import mean_average_precision

WIDTH = 12


def decaying(count, seed=0):
    turn = np.linalg.qr(np.random.default_rng(99).standard_normal((WIDTH, WIDTH)))[0]
    scale = 0.75 ** np.arange(WIDTH)
    return np.random.default_rng(seed).standard_normal((count, WIDTH)) * scale @ turn + 1


def principal(rows, count):
    """Batch PCA by a singular value decomposition of all rows."""
    centred = rows - rows.mean(axis=0)
    _, values, right = np.linalg.svd(centred, full_matrices=False)
    return right[:count].T, values[:count] ** 2 / len(rows)


def captured(learner, rows):
    """Share of the variance of the best subspace that the learner's projection has."""
    matrix = learner.coder().projection.matrix
    span = np.linalg.qr(np.asarray(matrix))[0]
    centred = rows - rows.mean(axis=0)
    best = principal(rows, learner.bits)[1].sum()
    return np.sum((centred @ span) ** 2) / len(rows) / best


@pytest.mark.parametrize(("method", "least"), [("osh", 0.99), ("frosh", 0.97), ("unifdiag", 1)])
def test_the_subspace_is_nearly_that_of_batch_pca(method, least):
    rows = decaying(9000)
    learner = sb.methods.METHODS[method](rows[:50], 5).learn(rows[50:])
    assert captured(learner, rows) >= least - 1e-6


def test_osh_with_room_for_every_direction_is_batch_pca():
    """A sketch of more rows than columns loses nothing: the same projection up to a rotation."""
    rows = decaying(5000)
    learner = sb.methods.osh(rows[:50], 4, epsilon=0.25).learn(rows[50:])
    rows = rows[50:]  # without the prior, which is light beside them
    vectors, energies = principal(rows, 4)
    assert np.allclose(learner.sketch.directions(4).energies, energies, rtol=1e-6)
    projection = learner.coder().projection
    assert np.allclose(np.linalg.svd(vectors.T @ projection.matrix)[1], 1, atol=1e-6)
    middle = rows.mean(axis=0) - learner.features.centre
    assert np.allclose(projection.thresholds, middle @ projection.matrix, atol=1e-6)


@pytest.mark.parametrize("sizes", [[1, 2047, 5], [3000], [700] * 6])
def test_frosh_is_the_same_for_any_split(sizes, fingerprint):
    rows = decaying(7000).astype(np.float32)
    whole = sb.methods.frosh(rows[:50], 5, seed=3).learn(rows)
    split = sb.methods.frosh(rows[:50], 5, seed=3)
    for part in np.split(rows, np.cumsum(sizes)):
        split.learn(part)
    assert fingerprint(split.sketch) == fingerprint(whole.sketch)
    assert split.coder().encode(rows) == whole.coder().encode(rows)


def test_frosh_follows_its_seed_and_claims_no_certificate():
    rows = decaying(5000)
    one, again, other = (sb.methods.frosh(rows[:50], 5, seed=s).learn(rows) for s in (1, 1, 2))
    first = one.sketch.directions(3).energies
    assert np.array_equal(first, again.sketch.directions(3).energies)
    assert not np.array_equal(first, other.sketch.directions(3).energies)
    assert one.certificate == math.inf


def test_unifdiag_gives_every_bit_the_same_variance():
    rows = decaying(6000)
    values = sb.methods.unifdiag(rows[:50], 8).learn(rows[50:]).coder().project(rows[50:])
    plain = sb.methods.pcah(rows[:50], 8).learn(rows[50:]).coder().project(rows[50:])
    spread = values.var(axis=0)
    assert np.allclose(spread, spread.mean(), rtol=1e-4)
    assert plain.var(axis=0).max() > 10 * plain.var(axis=0).min()
    assert np.isclose(spread.sum(), plain.var(axis=0).sum(), rtol=1e-4)


def test_uniform_bits_also_after_whitening():
    rows = decaying(6000)
    features = sb.features.Linear.around(rows)
    learner = sb.Learner(
        features, sb.sketches.Gram(WIDTH), bits=6, whitening=0.5, rotation="uniform", prior=rows
    )
    spread = learner.coder().project(rows).var(axis=0)
    assert np.allclose(spread, spread.mean(), rtol=1e-4)


def labelled(count, seed=0):
    """Two classes apart by 1 along a column of spread 0.1, among eleven columns of spread 1.

    Class means of n rows err by 1 / sqrt(n) in each of these, so n must be some hundreds.
    """
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((count, WIDTH)), rng.integers(2, size=count)
    rows[:, 7] = labels - 0.5 + 0.1 * rng.standard_normal(count)
    return rows, labels


def share_right(learner, rows, labels):
    share = np.mean(learner.coder().encode(rows).unpack()[:, 0] == labels)
    return max(share, 1 - share)


def test_labels_reveal_a_direction_hidden_in_low_variance():
    rows, labels = labelled(6000)
    guided = sb.methods.semi_supervised(rows[:2000], 1, labels=labels[:2000]).learn(rows[2000:])
    blind = sb.methods.pcah(rows[:2000], 1).learn(rows[2000:])
    assert share_right(guided, rows[2000:], labels[2000:]) > 0.95
    assert share_right(blind, rows[2000:], labels[2000:]) < 0.6


def test_a_few_labels_help_and_none_are_pcah():
    rows, labels = labelled(3000)
    few = np.where(np.arange(1500) < 500, labels[:1500], -1)
    learner = sb.methods.semi_supervised(rows[:1500], 1, labels=few).learn(rows[1500:])
    assert abs(learner.coder().projection.matrix[7, 0]) > 0.8
    blind, plain = (
        method(rows[:300], 4).learn(rows).coder().encode(rows)
        for method in (sb.methods.semi_supervised, sb.methods.pcah)
    )
    assert blind == plain


def test_a_large_eta_is_pcah_and_wrong_labels_are_refused():
    rows, labels = labelled(3000)
    huge = sb.methods.semi_supervised(rows[:300], 4, labels=labels[:300], eta=1e9).learn(rows)
    plain = sb.methods.pcah(rows[:300], 4).learn(rows)
    assert captured(huge, rows) == pytest.approx(captured(plain, rows), abs=1e-6)
    with pytest.raises(InputError, match="299 labels for 300 rows"):
        sb.methods.semi_supervised(rows[:300], 4, labels=labels[:299])


def test_shards_with_other_labels_do_not_merge():
    rows, labels = labelled(300)
    left = sb.methods.semi_supervised(rows, 2, labels=labels)
    with pytest.raises(MergeError, match="guides differ"):
        left.merge(sb.methods.semi_supervised(rows, 2, labels=1 - labels * (rows[:, 0] > 0)))


def test_random_fourier_features_have_the_kernel_as_their_products():
    rows = decaying(60)
    features = sb.methods.rff_fd(rows, 8, bandwidth=9.0, count=20000).features
    values = features(rows)
    kernel = np.exp(-(cdist(rows, rows) ** 2) / 9.0)
    assert np.abs(2 * values @ values.T / 20000 - kernel).max() < 0.06


def test_rff_fd_ranks_better_than_lsh_on_uniform():
    drawn = np.random.default_rng(0).random((4300, 50)) / np.arange(1, 51) ** 2
    train, rows = np.split(drawn.astype(np.float32), [300])
    sigma = sb.bandwidth.nearest(30).distance(train)
    learned, planes = (
        mean_average_precision(
            method(train, 32).learn(rows).coder().encode(rows), rows, np.arange(200), sigma
        )
        for method in (sb.methods.rff_fd, sb.methods.lsh)
    )
    assert learned > planes + 0.1


def test_rff_fd_shards_of_one_seed_share_their_features(train, rows):
    left, right = (sb.methods.rff_fd(train, 6, seed=5).learn(part) for part in np.split(rows, 2))
    left.merge(right)
    assert left.seen == len(rows)
    with pytest.raises(MergeError, match="differ"):
        left.merge(sb.methods.rff_fd(train, 6, seed=6))
    assert sb.methods.rff_fd(train, 6).features.width == 500
    assert sb.methods.rff_fd(train, 300).features.width == 600


def test_robust_energies_give_half_of_the_shrinkage_back():
    rows = decaying(3000)
    robust, plain = (
        sb.sketches.FrequentDirections(WIDTH, 5, robust=choice) for choice in (True, False)
    )
    for sketch in (robust, plain):
        sketch.update(rows)
    assert robust.shrinkage == plain.shrinkage > 0
    assert np.array_equal(robust.matrix, plain.matrix)
    assert robust.certificate == plain.certificate
    more = robust.directions(3).energies - plain.directions(3).energies
    assert np.allclose(more, robust.shrinkage / 2 / 3000)


def test_robust_energies_are_closer_to_the_truth():
    rows = decaying(3000)
    true = principal(rows, 3)[1]
    errors = []
    for choice in (True, False):
        sketch = sb.sketches.FrequentDirections(WIDTH, 5, robust=choice)
        sketch.update(rows)
        errors.append(np.abs(sketch.directions(3).energies - true).max())
    assert errors[0] < 0.75 * errors[1]


def test_robust_is_kept_by_copies_and_shards_and_must_agree():
    plain = sb.sketches.FrequentDirections(WIDTH, 5, robust=False)
    assert not plain.fresh().robust
    assert not plain.copy().robust
    with pytest.raises(MergeError, match="robust"):
        plain.merge(sb.sketches.FrequentDirections(WIDTH, 5))
