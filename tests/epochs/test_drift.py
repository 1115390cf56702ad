import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambits as sb
from streambits.epochs.detector import (
    APART,
    CHUNK,
    ERRORS,
    TOLERANCE,
    DriftMeasurement,
    EDetector,
    latest,
)
from streambits.errors import InputError, MergeError


def moving(seed=0, count=6000, columns=6):
    """A cloud that jumps away after half of the rows."""
    rng = np.random.default_rng(seed)
    rows = rng.random((count, columns), dtype=np.float32)
    rows[count // 2 :] += 3
    return rows


def learned(rows, cuts=(), **settings):
    learner = sb.ssbc(rows[:100], bits=16, **({"epochs": "auto", "seed": 0} | settings))
    for part in np.split(rows, sorted(cuts)):
        if len(part):
            learner.learn(part)
    return learner


def test_a_detector_is_quiet_on_numbers_like_the_reference_and_loud_below_them():
    rng = np.random.default_rng(0)
    reference = rng.beta(5, 2, 2000)
    detector = EDetector(float(reference.mean()), float(reference.std()))
    assert not any(detector.update(rng.beta(5, 2, 128)) for _ in range(5000))
    looks = next(i for i in range(100) if detector.update(rng.beta(4, 3, 128)))
    assert looks < 5


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated():
    """At the edge of the null hypothesis, where alarms are most likely, with a small threshold."""
    rng, apart = np.random.default_rng(0), 300
    rows = []
    for _ in range(200):
        detector = EDetector(mean=0.5 + 0.25 * 0.29, spread=0.29)  # so the bound is 0.5
        for look in range(20 * apart):
            detector.update((rng.random(1) < 0.5).astype(float))
            if detector.evidence > np.log(apart):
                rows.append(look)
                break
        else:
            rows.append(20 * apart)
    assert np.mean(rows) > apart
    assert APART >= 1e6


def test_a_stream_that_stays_keeps_its_epoch_and_one_that_moves_gets_new_ones():
    rng = np.random.default_rng(0)
    still = learned(rng.random((30000, 6), dtype=np.float32))
    assert still.epoch == 0
    moved = learned(moving())
    assert moved.epoch >= 1
    looks = [reading for reading in moved.drift if reading.rows <= 3000]
    assert {reading.epoch for reading in looks} == {0}
    assert moved.drift[-1].rows == 6000 - 6000 % CHUNK
    assert moved.seen == 6000
    assert sb.ssbc(moving()[:100], bits=16).drift == ()


@given(st.lists(st.integers(0, 6000), max_size=6))
@settings(max_examples=8)
def test_any_split_gives_the_same_epochs_and_codes(cuts):
    rows = moving()
    whole, split = learned(rows), learned(rows, cuts)
    assert split.epoch == whole.epoch
    assert np.array_equal(split.features.landmarks, whole.features.landmarks)
    assert split.coder().encode(rows) == whole.coder().encode(rows)
    assert [r[:2] for r in split.drift] == [r[:2] for r in whole.drift]


@pytest.mark.parametrize("cut", [100, 2800, 3333, 3600, 5999])
def test_saved_and_resumed_equals_never_stopped(cut, tmp_path):
    rows = moving()
    whole = learned(rows)
    sb.save(learned(rows[:cut]), tmp_path / "learner.safetensors")
    resumed = sb.load(tmp_path / "learner.safetensors").learn(rows[cut:])
    assert (resumed.epoch, resumed.seen) == (whole.epoch, whole.seen)
    assert resumed.coder().encode(rows) == whole.coder().encode(rows)
    assert repr(resumed.drift) == repr(whole.drift)


def test_renew_draws_landmarks_from_all_rows_and_stands_for_all_of_them():
    rows = moving()
    learner = sb.ssbc(rows[:100], bits=16, epochs="never", seed=0).learn(rows)
    assert learner.renew() == 1
    assert learner.seen == 6000
    far = (learner.features.landmarks[:, 0] > 1.5).mean()
    assert 0.35 < far < 0.65
    assert learner.sketch.weight == pytest.approx(6000)
    assert learner.coder().encode(rows[:2]).epoch == 1


def test_the_certificate_bounds_the_sample_and_what_follows():
    rows = moving(count=4000)
    learner = sb.ssbc(rows[:100], bits=4, epsilon=0.5, epochs="never", seed=0)
    learner._sketch = sb.sketches.FrequentDirections(100, 12, like=learner.features.like)
    learner._prior = learner._sketch.fresh()
    learner.learn(rows[:2000]).renew()
    learner.learn(rows[2000:])
    sample = learner.sample  # has room for the whole stream
    features = np.asarray(learner.features(sample), np.float64)
    features = features - features.mean(axis=0)
    sketch = learner.sketch
    error = np.linalg.eigvalsh(features.T @ features - sketch.matrix.T @ sketch.matrix)
    assert error[-1] <= learner.certificate * (1 + 1e-6) + 1e-6
    assert error[0] >= -1e-3 * np.abs(error).max() - 1e-3


def test_what_cannot_be_renewed_is_refused_and_nothing_changes():
    rows = moving()
    with pytest.raises(InputError, match=r"Linear features have no landmarks.*epochs='never'"):
        sb.methods.METHODS["itq"](rows[:100], bits=4).renew()
    learner = sb.ssbc(rows[:100], bits=16, rotation="none", epochs="never").learn(rows)
    with pytest.raises(InputError, match="too few to draw 100 landmarks"):
        learner.renew()
    assert (learner.epoch, learner.seen) == (0, 6000)
    for epochs, message in (
        ("always", "epochs is 'always'"),
        (0, "epochs is 0"),
        (511, "epochs is 511"),
        (2.5, "epochs is 2.5"),
    ):
        with pytest.raises(InputError, match=message):
            sb.ssbc(rows[:100], bits=16, epochs=epochs)
    with pytest.raises(InputError, match=r"half_life is 0\.5"):
        sb.ssbc(rows[:100], bits=16, half_life=0.5)


def test_shards_that_have_drifted_apart_do_not_merge():
    rows = moving()
    left, right = learned(rows[:2000]), learned(rows)
    with pytest.raises(MergeError, match="landmarks"):
        left.merge(right)
    assert left.seen == 2000
    same = learned(rows[:2000])
    assert same.merge(left.fresh().learn(rows[2000:2600])).seen == 2600


def test_centres_are_judged_by_rows_like_those_to_come():
    """Centres lie closer together than rows in many columns: by them every row looks strange."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12000, 40), dtype=np.float32)
    landmarks = sb.features.centres(rows[:1000], 100, seed=0).astype(np.float32)
    judged = sb.ssbc(landmarks, 16, epochs="auto", reference=rows[1000:2000]).learn(rows[2000:])
    assert judged.epoch == 0
    assert sb.ssbc(landmarks, 16, epochs="auto").learn(rows[2000:]).epoch > 0
    moved = judged.fresh().learn(rows[2000:4000] + 3)
    assert moved.epoch > 0
    assert judged.fresh().learn(rows[2000:]).epoch == 0


def test_landmarks_that_are_mostly_one_row_can_be_monitored():
    rows = np.zeros((2000, 4), np.float32)
    rows[::50] = np.random.default_rng(0).random((40, 4))
    learner = sb.ssbc(rows[:100], bits=1, bandwidth=1.0, epochs="auto", seed=0).learn(rows)
    assert learner.seen == 2000


def test_codes_stop_where_an_epoch_begins():
    rows = moving()
    learner, done, ends = sb.ssbc(rows[:100], bits=16, epochs="auto", seed=0), 0, []
    while done < len(rows):
        done += len(learner.learn_and_encode(rows[done:], learner.coder()))
        ends.append((done, learner.epoch))
    assert [epoch for _, epoch in ends][:-1] == list(range(1, len(ends)))
    assert all(end % CHUNK == 0 for end, _ in ends[:-1])
    whole = learned(rows)
    np.testing.assert_array_equal(learner.features.landmarks, whole.features.landmarks)
    np.testing.assert_array_equal(learner.sketch.matrix, whole.sketch.matrix)
    for bad, message in ((rows[:, :3], "columns"), (rows[:0], "empty")):
        with pytest.raises(InputError, match=message):
            learner.learn_and_encode(bad, learner.coder())
    assert learner.seen == 6000


def test_the_latest_reading_has_no_gaps_that_an_older_one_can_fill():
    nan = float("nan")
    older = DriftMeasurement(512, 0.5, 0.1, 0.2, 0.3, 1.0, 0.5, 0)
    newer = DriftMeasurement(1024, 0.6, nan, 0.25, nan, 2.0, 0.0, 0)
    assert latest([older, newer]) == DriftMeasurement(1024, 0.6, 0.1, 0.25, 0.3, 2.0, 0.0, 0)
    assert latest([]) is None
    assert np.isnan(latest([newer]).outside)


def test_an_alarm_is_given_as_soon_as_the_evidence_is_a_million_to_one():
    detector, alarms = EDetector(mean=0.8, spread=0.1), []
    while not alarms or detector.evidence < 20:
        alarms.append((detector.update(np.full(1, 0.6)), detector.evidence))
    assert [alarm for alarm, _ in alarms] == [e > np.log(1e6) for _, e in alarms]
    assert max(np.diff([evidence for _, evidence in alarms])) < 1


@pytest.mark.parametrize("spread", [0.0, 1e-9])
def test_numbers_that_were_all_equal_may_differ_a_little(spread):
    detector = EDetector(mean=0.8, spread=spread)
    assert not any(detector.update(np.full(50_000, 0.7998)) for _ in range(3))
    assert detector.update(np.full(64, 0.4))


def test_the_tolerance_spans_the_error_of_a_mean_of_few_numbers():
    numbers = np.random.default_rng(0).beta(5, 2, 1000)
    assert EDetector.of(numbers).tolerance == TOLERANCE
    assert EDetector.of(numbers[:100]).tolerance == TOLERANCE
    few = EDetector.of(numbers[:16])
    assert few.tolerance == ERRORS / 4
    assert (few.mean, few.spread) == (numbers[:16].mean(), numbers[:16].std())
    assert EDetector.from_state(few.state()).state() == few.state()
    assert few.fresh().state() == few.state()


@pytest.mark.parametrize("count", [10, 25, 50])
def test_few_landmarks_give_no_more_false_alarms(count):
    """By the affinities alone: what to expect is known from `count` of them."""
    rng, alarms = np.random.default_rng(count), 0
    for _ in range(100):
        detector = EDetector.of(rng.beta(5, 2, count))
        alarms += any(detector.update(rng.beta(5, 2, 64)) for _ in range(100))
    assert alarms <= 4


def test_few_landmarks_still_see_a_stream_that_moves():
    for seed in range(5):
        rows = moving(seed)
        learner = sb.ssbc(rows[:20], bits=8, epochs="auto", seed=seed)
        assert len(learner.learn_and_encode(rows, learner.coder())) in range(3001, 3001 + 3 * CHUNK)
