"""Shards: learners that merge."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import streambits as sb
from streambits import Learner
from streambits.errors import MergeError
from streambits.evaluation.bits import bits_changed
from streambits.features import GaussianAffinity, Linear
from streambits.sketches import FrequentDirections, Gram


def affinities(rows, features):
    squared = cdist(rows.astype(np.float64), features.landmarks.astype(np.float64)) ** 2
    return np.exp(-squared / features.bandwidth)


@pytest.mark.parametrize("cuts", [[2500], [1, 2, 3], [100, 2148, 4000], [4999]])
def test_any_tree_of_shards_comes_close_to_one_pass(train, rows, cuts):
    whole = sb.ssbc(train, 8, rotation="none").learn(rows)
    shards = [whole.fresh().learn(part) for part in np.split(rows, cuts)]
    while len(shards) > 1:
        shards.append(shards.pop(0).merge(shards.pop(0)))
    assert shards[0].seen == whole.seen
    assert np.allclose(shards[0].sketch.matrix, whole.sketch.matrix, rtol=1e-4, atol=1e-3)
    assert np.allclose(shards[0].sketch.mean, whole.sketch.mean, atol=1e-6)
    assert bits_changed(shards[0].coder().encode(rows), whole.coder().encode(rows)) < 0.002


def test_the_prior_counts_once_however_many_shards_are_merged(train, rows):
    first = sb.ssbc(train.astype(np.float64), 8)
    shards = [first.fresh().learn(part) for part in np.split(rows[:200], [50, 100, 150])]
    for shard in shards:
        first.merge(shard)
    coder = first.coder()
    everything = affinities(np.concatenate([train, rows[:200]]), coder.features)
    assert first.seen == 200
    expected = everything.mean(axis=0) @ coder.projection.matrix
    assert np.allclose(coder.projection.thresholds, expected, rtol=1e-9)


def test_merging_leaves_the_other_learner_alone_and_keeps_the_epoch(train, rows, fingerprint):
    left, right = sb.ssbc(train, 8).learn(rows[:3000]), sb.ssbc(train, 8).learn(rows[3000:])
    left.new_epoch()
    before, last = fingerprint(right), left.coder()
    assert left.merge(right) is left
    assert fingerprint(right) == before
    assert left.epoch == 1
    assert bits_changed(last.encode(rows), left.coder().encode(rows)) < 0.05


def refusals(train):
    features = GaussianAffinity(train)
    prior = train[:30]
    return {
        "landmarks": (sb.ssbc(train + 1, 8), "landmarks"),
        "fewer landmarks": (sb.ssbc(train[:50], 8), "landmarks"),
        "bandwidth": (sb.ssbc(train, 8, bandwidth=1.0), "bandwidth"),
        "bits": (sb.ssbc(train, 9), "bits is 8 here and 9 there"),
        "whitening": (sb.ssbc(train, 8, whitening=0), "whitening"),
        "rotation": (sb.ssbc(train, 8, rotation="none"), "rotation"),
        "steady": (Learner(features, Gram(60, precision="single"), bits=8, steady=False), "steady"),
        "features": (Learner(Linear(train[0]), Gram(8), bits=8, prior=train), "different features"),
        "sketch": (Learner(features, FrequentDirections(60, 9), bits=8, prior=train), "Gram"),
        "sample": (
            Learner(features, Gram(60, precision="single"), bits=8, prior=train, sample=7),
            "7",
        ),
        "prior": (Learner(features, Gram(60, precision="single"), bits=8, prior=prior), "prior"),
        "something else": ("a learner", "str"),
    }


@pytest.mark.parametrize("name", list(refusals(np.eye(60, 8))))
def test_shards_of_other_settings_are_refused_and_change_nothing(name, train, rows, fingerprint):
    left = sb.ssbc(train, 8).learn(rows[:3000])
    right, word = refusals(train)[name]
    if isinstance(right, Learner):
        right.learn(rows)
    before = fingerprint(left)
    with pytest.raises(MergeError, match=word):
        left.merge(right)
    assert fingerprint(left) == before


def copy_of(learner):
    return Learner.from_state(learner.state())


def test_a_learner_does_not_merge_with_its_copy(method, build, train, rows, fingerprint):
    for count in (10, 2048, 3000):
        learner = build(method, train).learn(rows[:count])
        before, seen = fingerprint(learner), learner.seen
        for other in (learner, copy_of(learner)):
            with pytest.raises(MergeError, match=f"the same {seen} rows"):
                learner.merge(other)
        assert fingerprint(learner) == before
        learner.merge(copy_of(learner).learn(rows[count : count + 1]))
        assert learner.seen == 2 * seen + 1


def test_a_merged_sample_has_rows_of_both_shards(train, rows):
    left, right = (Learner(GaussianAffinity(train), Gram(60), bits=8, sample=s) for s in (400,) * 2)
    left.learn(rows[:2500])
    right = left.fresh().learn(rows[2500:])
    left.merge(right)
    share = np.isin(left.sample[:, 0], rows[2500:, 0]).mean()
    assert left.sample.shape == (400, 8)
    assert 0.4 < share < 0.6
    few = left.fresh().merge(left.fresh().learn(rows[:10]))
    assert few.sample.shape == (10, 8)
