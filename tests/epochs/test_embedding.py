"""The test of proportions: quiet without a change, and aware of one that brings no new rows."""

import numpy as np
import pytest

import streambits as sb
from streambits.epochs.detector import ALARM, CHUNK, SAMPLED, TOLERANCE
from streambits.epochs.embedding import (
    COMPONENTS,
    PLAN,
    ProportionDetector,
    principal_components,
)
from streambits.epochs.monitor import DriftMonitor

BURN_IN = PLAN.burn_in * CHUNK
CENTRES = 4 * np.random.default_rng(1).standard_normal((2, 6))


def mixture(count, share, seed=0):
    """Two clusters, of which the first has a share of the rows.

    The other is the denser one: its rows find a landmark nearby although it has few of them.
    """
    rng = np.random.default_rng(seed)
    chosen = (rng.random(count) >= share).astype(int)
    spread = np.array([1.0, 0.3])[chosen, None]
    return (CENTRES[chosen] + spread * rng.standard_normal((count, 6))).astype(np.float32)


def turning(before=BURN_IN + 8 * CHUNK, after=20_000, seed=0):
    """9 of 10 rows from the first cluster, then from the other."""
    return np.concatenate([mixture(before, 0.9, seed), mixture(after, 0.1, seed + 1)])


def detector_of(width):
    return ProportionDetector(np.eye(width, dtype=np.float32))


SAMPLERS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "skewed": lambda rng, shape: rng.exponential(size=shape) - 1,
    "rare": lambda rng, shape: 10.0 * (rng.random(shape) < 0.01),
    "heavy": lambda rng, shape: rng.standard_cauchy(shape),
    "constant": lambda _rng, shape: np.full(shape, 0.3),
}


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("width", [1, 5, 32])
def test_without_a_change_the_mean_e_value_is_at_most_1_and_there_is_no_alarm(kind, width):
    rng = np.random.default_rng(width)
    factors = []
    for _ in range(10):
        detector = detector_of(width)
        gains = detector.gains(SAMPLERS[kind](rng, (200, width, SAMPLED)))
        factors.append(np.exp(gains[PLAN.burn_in :]))
        assert max(detector.add(gain) for gain in gains) < ALARM / 2
    means = np.mean(factors, axis=1)  # of independent streams
    assert means.mean() <= 1 + 3 * means.std() / np.sqrt(len(means))


def test_at_the_edge_of_the_tolerance_the_mean_e_value_is_1():
    """The mean of the reference is known exactly here: half of its scores are 1, half are -1."""
    rng, factors = np.random.default_rng(0), []
    burn_in = np.tile([1.0, -1.0], (PLAN.burn_in, 1, SAMPLED // 2))
    for _ in range(300):
        detector = detector_of(1)
        detector.gains(burn_in)
        later = np.where(rng.random((40, 1, SAMPLED)) < 0.5 + TOLERANCE / 2, 1.0, -1.0)
        factors.append(np.exp(detector.gains(later)[PLAN.stretch :]).mean())
    error = np.std(factors) / np.sqrt(len(factors))
    assert np.mean(factors) <= 1 + 3 * error
    assert np.mean(factors) >= 1 - 6 * error


def test_a_change_of_the_mean_is_noticed_in_any_direction():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        detector, direction = detector_of(32), rng.standard_normal((32, 1))
        direction /= np.linalg.norm(direction)
        for _ in range(100):
            (gain,) = detector.gains(rng.standard_normal((1, 32, SAMPLED)))
            assert detector.add(gain) < ALARM
        moved = (rng.standard_normal((1, 32, SAMPLED)) + 0.7 * direction for _ in range(40))
        assert any(detector.add(detector.gains(some)[0]) > ALARM for some in moved)
        assert detector.alarm
        assert detector.changed >= detector.since + PLAN.stretch


def test_components_have_unit_variance_and_are_no_more_than_the_rows_support():
    rng = np.random.default_rng(0)
    affinities = rng.random((400, 60)) @ rng.random((60, 60))
    components = principal_components(affinities)
    assert components.shape == (60, COMPONENTS)
    np.testing.assert_allclose(
        np.cov((affinities @ components).T, bias=True), np.eye(32), atol=1e-3
    )
    assert principal_components(affinities[:40]).shape == (60, 10)
    assert principal_components(affinities[:3]).shape == (60, 1)
    assert not principal_components(np.ones((40, 5))).any()


def test_a_detector_goes_on_from_its_state_and_the_state_is_a_copy():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((120, 6, SAMPLED)) + np.linspace(0, 2, 120)[:, None, None]
    whole = detector_of(6).gains(values)
    for cut in (0, 5, PLAN.burn_in, 61, 119):
        first = detector_of(6)
        before = first.gains(values[:cut])
        state = first.state()
        again = ProportionDetector.from_state(first.state())
        np.testing.assert_array_equal([*before, *again.gains(values[cut:])], whole)
        for name, array in state["host"].items():
            np.testing.assert_array_equal(first.state()["host"][name], array)
    assert whole[: PLAN.burn_in + PLAN.stretch].any() == np.False_
    assert again.fresh().state()["count"] == 0


def test_a_state_that_a_kernel_could_not_use_is_refused():
    state = detector_of(6).state()
    with pytest.raises(ValueError, match="seen -1 measurements"):
        ProportionDetector.from_state(state | {"count": -1})
    with pytest.raises(ValueError, match=r"line of a detector is \(7,\), not \(8,\)"):
        ProportionDetector.from_state(state | {"host": state["host"] | {"line": np.zeros(7)}})


def test_the_closest_affinity_does_not_see_what_the_mean_embedding_does():
    rows = turning()
    monitor = DriftMonitor(10**9, sb.features.GaussianAffinity(rows[:300]))
    monitor.until(rows, None, epoch=0)
    change = BURN_IN + 8 * CHUNK
    assert max(one.evidence for one in monitor.measurements) < ALARM
    alarms = [one.rows for one in monitor.measurements if one.proportion_evidence > ALARM]
    assert change < alarms[0] <= change + 20_000
    quiet = [one.proportion_evidence for one in monitor.measurements if one.rows <= change]
    assert max(quiet) < ALARM / 2
    assert set(quiet[: PLAN.burn_in]) == {0.0}


def test_an_alarm_begins_an_epoch_with_landmarks_like_the_new_mixture_and_of_the_usual_width():
    rows = turning()
    learner, done = sb.ssbc(rows[:300], bits=16, epochs="auto", seed=0), 0
    while not learner.epoch:
        done += len(learner.learn_and_encode(rows[done:], learner.coder()))
    landmarks = learner.features.landmarks
    second = ((landmarks - CENTRES[1]) ** 2).sum(axis=1) < ((landmarks - CENTRES[0]) ** 2).sum(
        axis=1
    )
    assert 0.6 < second.mean() < 0.95
    usual = sb.bandwidth.nearest(30).of(landmarks)
    assert learner.features.bandwidth == pytest.approx(usual)
    assert learner.learn(rows[done:]).epoch == 1


def test_a_shard_starts_anew_with_the_same_components_and_merges():
    rows = turning()
    learner = sb.ssbc(rows[:100], bits=16, epochs="auto", seed=0).learn(rows[:20_000])
    shard = learner.fresh()
    monitors = [one.state()["monitor"] for one in (learner, shard)]
    held = [one.proportions.components for one in monitors]
    assert np.array_equal(*held)
    assert [one.proportions.count for one in monitors] == [39, 0]
    assert learner.merge(shard.learn(rows[:600])).seen == 20_600


def alarm_of(rows, batch):
    """After how many rows an epoch is due, and the evidence then."""
    monitor = DriftMonitor("auto", sb.features.GaussianAffinity(rows[:100]))
    for start in range(0, len(rows), batch):
        due = monitor.until(rows[start : start + batch], None, epoch=0)
        if due is not None:
            return start + due, monitor.measurements[-1].proportion_evidence
    raise AssertionError("no epoch is due")


def test_rows_on_a_device_give_the_same_alarm():
    torch = pytest.importorskip("torch")
    rows = turning()
    due, evidence = alarm_of(rows, len(rows))
    there = torch.asarray(rows)
    assert alarm_of(there, 3333) == alarm_of(there, len(rows))
    assert alarm_of(there, len(rows)) == (due, pytest.approx(evidence, rel=1e-3))
