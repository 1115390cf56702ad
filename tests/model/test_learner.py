import gc
import tracemalloc
import warnings

import array_api_strict as strict
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

import streambits as sb
from streambits import Learner
from streambits.epochs.monitor import monitor_for
from streambits.errors import EpochError, InputError, RankError, ReachWarning
from streambits.evaluation.bits import bits_changed
from streambits.features import GaussianAffinity, Linear
from streambits.model.learner import BLOCK
from streambits.sketches import FrequentDirections, Gram


def affinities(rows, features):
    squared = cdist(rows.astype(np.float64), features.landmarks.astype(np.float64)) ** 2
    return np.exp(-squared / features.bandwidth)


def learned(learner, *batches):
    for batch in batches:
        learner.learn(batch)
    return learner


# Learning


def test_the_sketch_is_that_of_all_rows_pending_ones_included(train, rows):
    learner = Learner(GaussianAffinity(train), Gram(60), bits=8)
    learned(learner, rows[:100], rows[100:2500])
    expected = np.cov(affinities(rows[:2500], learner.features).T, bias=True) * 2500
    assert np.allclose(learner.sketch.matrix, expected, rtol=1e-3, atol=1e-4)
    assert np.allclose(learner.sketch.mean, affinities(rows[:2500], learner.features).mean(axis=0))


def test_the_sample_is_uniform_rows_of_the_stream_and_the_prior_fills_it_up(train, rows):
    learner = sb.ssbc(train, 8)
    assert np.array_equal(learner.sample, train)
    learner.learn(rows[:10])
    assert np.array_equal(learner.sample, np.concatenate([train, rows[:10]]))
    learner = learner.fresh().learn(np.concatenate([rows, rows + 1]))
    assert len(learner.sample) == 5000
    assert not np.isin(learner.sample[:, 0], train[:, 0]).any()


def test_bad_rows_are_refused_and_change_nothing(bad_rows, complaint, train, rows, fingerprint):
    learner = sb.ssbc(train, 12).learn(rows[:2100])
    learner.coder()
    before = fingerprint(learner)
    with pytest.raises(InputError, match=complaint):
        learner.learn(bad_rows)
    assert fingerprint(learner) == before
    assert learner.learn(rows[2100:]).seen == 5000


@pytest.mark.parametrize("count", [10, 5000])
@pytest.mark.parametrize("method", ["ssbc", "pcah"])
def test_rows_too_large_to_square_are_refused_and_change_nothing(
    count, method, build, rows, fingerprint
):
    learner = build(method, rows[:60].astype(np.float64)).learn(rows[:100])
    before = fingerprint(learner)
    huge = rows[:count].astype(np.float64)
    huge[-1] = 1e200
    with pytest.raises(InputError, match="scale"):
        learner.learn(huge)
    assert fingerprint(learner) == before
    assert learner.learn(rows).coder().bits == 6


def test_rows_may_be_lists_frames_or_other_precisions(train, rows, fingerprint):
    expected = fingerprint(sb.ssbc(train, 8).learn(rows[:50]))
    for given in (rows[:50].tolist(), rows[:50].astype(np.float64), strict.asarray(rows[:50])):
        assert fingerprint(sb.ssbc(train, 8).learn(given)) == expected


def test_rows_given_may_be_changed_afterwards(learner, train, rows, fingerprint):
    given = rows[:3000].copy()
    learner.learn(given)
    given[:] = 0
    assert fingerprint(learner) == fingerprint(sb.ssbc(train, 12).learn(rows[:3000]))


# CoderSet


def test_a_coder_is_given_out_again_until_more_is_learned(learner, rows):
    first = learner.learn(rows[:500]).coder()
    assert learner.coder() is first
    assert learner.learn(rows[500:]).coder() is not first


def test_thresholds_are_the_projected_mean_of_prior_and_stream(learner, train, rows):
    """And of the stream alone, once it weighs 16 times as much."""
    coder = learner.learn(rows[:900]).coder()
    both = affinities(np.concatenate([train, rows[:900]]), coder.features)
    expected = both.mean(axis=0) @ coder.projection.matrix
    assert np.allclose(coder.projection.thresholds, expected, atol=1e-4)
    coder = learner.learn(rows[900:]).coder()
    expected = affinities(rows, coder.features).mean(axis=0) @ coder.projection.matrix
    assert np.allclose(coder.projection.thresholds, expected, atol=1e-4)


def test_a_few_rows_that_wait_are_left_to_the_next_coder(mixture, train, fingerprint):
    stream = mixture(2048 * 20 + 4000, seed=3)
    aligned, few, many = (
        sb.ssbc(train, 12, epochs="never").learn(stream[: 2048 * 20 + waiting])
        for waiting in (0, 2000, 2048 + 1)
    )
    assert fingerprint(few.coder()) == fingerprint(aligned.coder())
    assert fingerprint(few.sketch) != fingerprint(aligned.sketch)
    assert fingerprint(many.coder()) != fingerprint(aligned.coder())


def test_a_later_coder_of_a_resumed_learner_is_that_of_one_that_went_on(
    mixture, train, fingerprint
):
    stream = mixture(9000, seed=3)
    learner = sb.ssbc(train, 12, epochs="never").learn(stream[:3000])
    learner.coder()
    resumed = sb.Learner.from_state(learner.state())
    for start in (3000, 6000):
        coders = [one.learn(stream[start : start + 3000]).coder() for one in (learner, resumed)]
        assert fingerprint(coders[0]) == fingerprint(coders[1])
    assert learner.sketch.directions_near(coders[0].projection.matrix) is not None


@pytest.mark.parametrize("rotation", ["random", "itq"])
def test_a_rotation_turns_and_does_nothing_else(train, rows, rotation):
    plain = sb.ssbc(train, 8, rotation="none").learn(rows).coder().projection.matrix
    turned = sb.ssbc(train, 8, rotation=rotation).learn(rows).coder().projection.matrix
    turn = np.linalg.lstsq(plain, turned)[0]
    assert np.allclose(plain @ turn, turned, atol=1e-8)
    assert np.allclose(turn.T @ turn, np.eye(8), atol=1e-8)
    assert not np.allclose(turn, np.eye(8), atol=0.1)


def test_steady_coders_change_few_bits(mixture, train, rows):
    learner = sb.ssbc(train, 12)
    probe, shares = mixture(2000, seed=9), []
    last = learner.coder().encode(probe)
    for start in range(0, 5000, 500):
        now = learner.learn(rows[start : start + 500]).coder().encode(probe)
        shares.append(bits_changed(last, now))
        last = now
    assert max(shares) < 0.15
    assert np.mean(shares[2:]) < 0.02


def test_coders_that_are_not_steady_are_those_of_a_learner_asked_once(train, rows, fingerprint):
    asked, once = (
        Learner(GaussianAffinity(train), Gram(60), bits=8, steady=False) for _ in range(2)
    )
    for start in range(0, 5000, 500):
        asked.learn(rows[start : start + 500]).coder()
    assert fingerprint(asked.coder()) == fingerprint(once.learn(rows).coder())


def test_a_new_epoch_has_its_number_and_is_free_to_fit_best(train, rows):
    learner = sb.ssbc(train, 12).learn(rows[:300])
    old = learner.coder()
    learner.learn(rows[300:])
    assert learner.new_epoch() == 1
    new = learner.coder()
    assert (old.epoch, new.epoch) == (0, 1)
    assert np.array_equal(
        new.projection.matrix, sb.ssbc(train, 12).learn(rows).coder().projection.matrix
    )
    with pytest.raises(EpochError, match="epochs 0 and 1"):
        old.encode(rows[:5]).hamming(new.encode(rows[:5]))


def test_more_bits_than_the_rank_are_an_error_that_changes_nothing(rows, fingerprint):
    learner = Learner(Linear(np.zeros(8, np.float32)), Gram(8), bits=6).learn(rows[:4])
    before = fingerprint(learner)
    with pytest.raises(RankError, match=r"6 bits need 6 .* have 3: ask for at most 3 bits"):
        learner.coder()
    assert fingerprint(learner) == before
    assert learner.learn(rows).coder().bits == 6


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bits": 0}, "bits is 0"),
        ({"bits": True}, "bits is True"),
        ({"bits": 4.0}, "bits is 4.0"),
        ({"bits": 4097}, "bits is 4097.*1 to 4096"),
        ({"bits": 61}, "bits is 61.*at most 60 bits, or use .* more than 61 of them"),
        ({"whitening": np.nan}, "whitening is nan"),
        ({"whitening": "half"}, "whitening is 'half'"),
        ({"rotation": "spin"}, "rotation is 'spin'; choose one of none, random, itq"),
        ({"sample": 0}, "size is 0|sample is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"seed": None}, "seed is None"),
        ({"prior": np.full((2, 8), np.nan)}, "NaN"),
        ({"prior": np.zeros((2, 7))}, "7 columns"),
        ({"sketch": Gram(59)}, "60 columns and the sketch 59"),
        ({"sketch": FrequentDirections(60, 3), "bits": 9}, "bits is 9"),
    ],
)
def test_bad_settings_are_refused_at_once(train, settings, message):
    settings = {"sketch": Gram(60), "bits": 4, **settings}
    with pytest.raises(InputError, match=message):
        Learner(GaussianAffinity(train), **settings)


# Memory


def test_bytes_count_at_least_what_a_state_holds(train, rows):
    learner = sb.ssbc(train, 8).learn(rows)
    state = learner.state()
    held = [state["prior"], *state["sample"].state().values(), *state["sketch"].state().values()]
    assert learner.nbytes >= sum(part.nbytes for part in held if hasattr(part, "nbytes"))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream(train, mixture):
    batch = mixture(3000, seed=5)
    learner = sb.ssbc(train, 12).learn(batch).learn(batch)
    learner.coder()

    def peak_of(batches):
        gc.collect()
        tracemalloc.reset_peak()
        for _ in range(batches):
            learner.learn(batch)
            learner.coder()
        return tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        with threadpool_limits(1, user_api="blas"):  # threads overlap by chance
            peak_of(3)
            early, late = peak_of(3), peak_of(30)
    finally:
        tracemalloc.stop()
    assert late - early < 0.1 * (30 - 3) * batch.nbytes


# Other libraries


@pytest.mark.parametrize(("name", "value"), [("certificate", np.inf), ("learns", False)])
def test_where_nothing_is_proven_there_is_no_certificate(train, monkeypatch, name, value):
    learner = sb.methods.linear(train, 4).learn(train)
    assert learner.certificate == 0  # exact
    monkeypatch.setattr(Gram, name, value)
    assert learner.certificate is None


@pytest.mark.parametrize("method", ["ssbc", "paper", "pcah", "itq"])
def test_a_learner_of_strict_arrays_comes_close_to_one_of_numpy(method, build, train, rows):
    here = build(method, train.astype(np.float64))
    there = build(method, strict.asarray(train.astype(np.float64)))
    for part in np.split(rows[:2600].astype(np.float64), [1000, 2500]):
        here.learn(part)
        there.learn(strict.asarray(part))
    assert there.seen == here.seen
    waiting = (there._blocks.size - 2 * BLOCK) * 8 * train.shape[1]  # on a device more rows wait
    assert there.nbytes == here.nbytes + waiting
    codes = there.coder().encode(strict.asarray(rows[:500].astype(np.float64)))
    assert isinstance(codes.packed, np.ndarray)
    assert bits_changed(codes, here.coder().encode(rows[:500])) < 0.01
    there.merge(there.fresh().learn(strict.asarray(rows[:100].astype(np.float64))))
    assert there.seen == here.seen + 100


@pytest.mark.parametrize("rotation", ["none", "itq"])
def test_a_learner_with_epochs_keeps_four_rows_for_each_landmark(train, rows, rotation):
    settings = {"bits": 8, "prior": train, "sample": 10, "rotation": rotation}
    features = GaussianAffinity(train)
    monitor = monitor_for(10**9, features)
    learner = Learner(features, Gram(60), monitor=monitor, **settings).learn(rows)
    assert learner.sample.shape == (4 * 60, 8)
    never = Learner(GaussianAffinity(train), Gram(60), **settings).learn(rows)
    assert len(never.sample) == (10 if rotation == "itq" else 1)


def test_every_epoch_draws_its_own_landmarks(train, rows):
    learner = sb.ssbc(train, 8).learn(rows)
    drawn = []
    for _ in range(3):
        learner.renew()
        drawn.append(set(learner.features.landmarks[:, 0].tolist()))
    assert len(drawn[0] & drawn[1]) < 30
    assert len(drawn[1] & drawn[2]) < 30


def test_the_prior_fades_like_the_rows_that_follow_it(train, rows):
    """A learner that has forgotten its prior is as one that had none."""
    features = GaussianAffinity(train)
    one, other = (
        Learner(features, Gram(60, half_life=100), bits=8, prior=prior, rotation="none")
        for prior in (train + 1, None)
    )
    close = [one.learn(rows[:4000]).coder(), other.learn(rows[:4000]).coder()]
    assert np.allclose(*(coder.projection.matrix for coder in close), atol=1e-8)
    assert np.allclose(*(coder.projection.thresholds for coder in close), atol=1e-8)


@pytest.mark.parametrize("before", [0, 1, 2047, 2048, 3000])
@pytest.mark.parametrize("count", [1, 47, 2048, 2500, 5000])
def test_rows_that_are_learned_and_encoded_are_learned_and_encoded(
    train, mixture, before, count, fingerprint
):
    """Wherever blocks begin and end, and whatever waits."""
    rows = mixture(before + count, seed=3)
    both, learner = (sb.ssbc(train, 8) for _ in range(2))
    for each in (both, learner):
        if before:
            each.learn(rows[:before])
    coder, same = both.coder(), learner.coder()
    codes = both.learn_and_encode(rows[before:], coder)
    assert codes == same.encode(rows[before:])
    assert fingerprint(both) == fingerprint(learner.learn(rows[before:]))


@pytest.mark.parametrize("size", [700, 1500, 2048, 3000, 5000])
def test_a_stream_is_learned_and_encoded_by_batches_while_a_block_waits(
    train, mixture, parts, size, fingerprint
):
    """Nothing is read in between; the memory of a batch is used again for others."""
    rows = mixture(13_000, seed=4)
    learner, at_once = sb.ssbc(train, 8), sb.ssbc(train, 8)
    coder, found, waited = learner.coder(), [], False
    assert at_once.coder().encode(rows) == coder.encode(rows)
    for part in parts(rows, size):
        batch = part.copy()
        found.append(learner.learn_and_encode(batch, coder))
        batch[:] = np.nan
        waited |= len(learner._full) == 1
        assert learner.seen == sum(map(len, found))
    assert waited == (size in (700, 1500, 3000))
    assert sb.Codes.concat(found) == coder.encode(rows)
    assert fingerprint(learner) == fingerprint(at_once.learn(rows))


def merged_matrix(learner):
    return learner.merge(learner.fresh().learn(np.ones((3, 8), np.float32))).sketch.matrix


READERS = {
    "seen": lambda learner: learner.seen,
    "sketch": lambda learner: learner.sketch.matrix,
    "certificate": lambda learner: learner.certificate,
    "sample": lambda learner: learner.sample,
    "coder": lambda learner: learner.coder().projection.matrix,
    "has_moved": lambda learner: learner.has_moved,
    "new landmarks": lambda learner: (learner.renew(), learner.features.landmarks)[1],
    "state": lambda learner: learner.state()["sketch"].matrix,
    "copy": lambda learner: learner.with_coder(learner.last_coder).sketch.matrix,
    "merge": merged_matrix,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_whoever_reads_what_was_learned_reads_the_block_that_waits_for_another(train, parts, read):
    rng = np.random.default_rng(6)
    places = np.concatenate([rng.integers(10, size=BLOCK), rng.integers(30, 60, size=2500)])
    rows = train[places] + rng.normal(0, 0.1, (len(places), 8)).astype(np.float32)
    first, far = rows[:BLOCK], rows[BLOCK:]
    waiting, at_once = sb.ssbc(train, 8, epochs="never"), sb.ssbc(train, 8, epochs="never")
    for learner in (waiting, at_once):
        learner.learn(first).coder()
    at_once.learn(far)
    for part in parts(far, 500):
        waiting.learn(part)
    assert len(waiting._full) == 1
    at_once._catch_up()
    assert not at_once._full
    assert at_once.has_moved
    assert np.array_equal(read(waiting), read(at_once))


def test_rows_are_encoded_by_the_coder_that_is_named(train, mixture):
    """Also if it is of other features than the learner's, as one from a file."""
    rows, learner = mixture(5000), sb.ssbc(train, 8)
    other = sb.ssbc(train[::-1].copy(), 8).learn(rows[:100]).coder()
    assert learner.learn_and_encode(rows, other) == other.encode(rows)
    assert learner.seen == 5000


def test_rows_out_of_reach_are_warned_of_unless_new_landmarks_are_drawn(train, rows):
    many = np.tile(rows, (3, 1))[:4096]
    assert len(many) == 4096
    with pytest.warns(ReachWarning, match=r"4,096 of 4,096 rows learned are out of reach, too far"):
        sb.ssbc(train, 12, epochs="never").learn(many + 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sb.ssbc(train, 12).learn(many + 30).epoch > 0
        sb.ssbc(train, 12, epochs="never").learn(many)


def test_shards_of_one_seed_draw_different_positions(train, rows):
    """Otherwise a sample of both would have the same places of each, over and over."""
    many = np.tile(rows, (6, 1))[:8000]
    places = []
    for start in (0, 1):
        shard = np.column_stack([many[start:, :-1], np.arange(len(many) - start)])
        learner = sb.ssbc(train, 4, bandwidth=1e9, epochs="never").learn(shard)
        places.append(set(learner.sample[:, -1].astype(int)))
    share = len(places[0] & places[1]) / 5000
    assert 0.5 < share < 0.75  # 5 of 8 by chance
