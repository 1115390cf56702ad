"""What a watch reads in a stream, when an epoch is due, and which rows a change has brought."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import streambits as sb
from streambits.epochs.detector import CHUNK, WIDER
from streambits.epochs.monitor import DriftMonitor
from streambits.model.projection import Projection

MARKS = 300  # landmarks: four times as many rows are kept, more than two looks bring


def cloud(count, shift=0.0, seed=0):
    return np.random.default_rng(seed).random((count, 4), dtype=np.float32) + np.float32(shift)


def features_of(count=MARKS):
    return sb.features.GaussianAffinity(cloud(count))


def projection_of(features, bits=6):
    rng = np.random.default_rng(1)
    values = features(features.landmarks).astype(np.float64)
    matrix = rng.standard_normal((features.width, bits))
    return Projection(
        matrix,
        np.quantile(values @ matrix, [0.1, 0.3, 0.5, 0.6, 0.8, 1], axis=0)[
            np.arange(bits), np.arange(bits)
        ],
    )


def test_every_product_of_a_measurement_is_computed_by_one_thread_of_blas():
    """Threads of BLAS spin for a while after a product, and take a core from the next blocks."""
    threads = []

    class Spied(sb.features.GaussianAffinity):
        def __call__(self, rows):
            blas = threadpool_info()
            threads.extend(lib["num_threads"] for lib in blas if lib["user_api"] == "blas")
            return super().__call__(rows)

    features = Spied(cloud(MARKS))
    watch, projection = DriftMonitor("auto", features), projection_of(features)
    threads.clear()
    with threadpool_limits(2):
        watch.until(cloud(2 * CHUNK), projection, epoch=0)
    assert threads
    assert set(threads) == {1}


def test_a_reading_is_what_its_rows_say_of_the_coder():
    features, rows = features_of(), cloud(CHUNK, 0.1, seed=5)
    projection, watch = projection_of(features), DriftMonitor("auto", features)
    assert watch.until(rows, projection, epoch=3) is None
    (reading,) = watch.measurements
    values = features(rows[::8][:32]).astype(np.float64)
    centred = values - features(features.landmarks).astype(np.float64).mean(axis=0)
    basis = np.linalg.qr(projection.matrix)[0]
    left = centred - centred @ basis @ basis.T
    assert reading.outside == pytest.approx((left**2).sum() / (centred**2).sum(), rel=1e-5)
    lengths = np.sqrt((centred**2).sum(axis=1).mean())
    shift = np.linalg.norm(centred.mean(axis=0)) / lengths
    assert reading.shift == pytest.approx(shift, rel=1e-5)
    ones = (values @ projection.matrix > projection.thresholds).mean(axis=0)
    assert ones.min() < 0.4
    assert ones.max() > 0.6
    assert reading.balance == pytest.approx(np.abs(2 * ones - 1).mean())
    assert (reading.rows, reading.epoch) == (CHUNK, 3)


def test_codes_are_read_at_every_8th_of_the_first_64_looks_and_every_32nd_after():
    features = features_of(20)
    watch = DriftMonitor(10**9, features)
    watch.until(cloud(170 * CHUNK, seed=2), projection_of(features), epoch=0)
    looks = [i for i, reading in enumerate(watch.measurements) if np.isfinite(reading.balance)]
    assert looks == [*range(0, 64, 8), 64, 96, 128, 160]


def jumping(shift, before=12, after=12):
    return np.concatenate([cloud(before * CHUNK, seed=7), cloud(after * CHUNK, shift, seed=8)])


@pytest.mark.parametrize("shift", [0.12, 0.2, 2.0])
def test_a_change_is_dated_to_where_evidence_began_and_settles_once(shift):
    features, rows = features_of(), jumping(shift)
    watch = DriftMonitor("auto", features)
    due = watch.until(rows, None, epoch=0)
    evidence = [reading.evidence for reading in watch.measurements]
    quiet = max(i for i, some in enumerate(evidence) if some <= 0)
    assert due == CHUNK * len(evidence) > 12 * CHUNK
    count = min(due - CHUNK * (quiet + 1), 4 * MARKS)
    assert watch.widening == WIDER
    assert np.array_equal(watch.since(), rows[due - count : due])
    watch.begin(
        sb.features.GaussianAffinity(cloud(MARKS, shift, seed=9)), cloud(MARKS, shift, seed=9)
    )
    if count == 4 * MARKS:
        assert watch.widening == 1
        return
    assert watch.widening == WIDER
    settled = due + watch.until(rows[due:], None, epoch=1)
    assert settled - due + count == -(-4 * MARKS // CHUNK) * CHUNK
    assert np.array_equal(watch.since(), rows[settled - 4 * MARKS : settled])
    assert watch.widening == 1
    assert watch.until(rows[settled:], None, epoch=2) is None


def test_a_watch_goes_on_from_its_state_in_the_middle_of_a_change(fingerprint):
    features, rows = features_of(), jumping(2.0)
    reference = cloud(200, 0.02, seed=4)
    watch, projection = DriftMonitor("auto", features, reference), projection_of(features)
    done = watch.until(rows, projection, epoch=0)
    done += watch.until(rows[done : done + 100], projection, epoch=1) or 100
    again = DriftMonitor.from_state(watch.state())
    again.attach(features)
    assert again.widening == WIDER
    assert fingerprint(again) == fingerprint(watch)
    for some in (watch, again):
        some.until(rows[done:], projection, epoch=1)
    assert again.widening == watch.widening
    assert repr(again.measurements) == repr(watch.measurements)
    assert np.array_equal(again.since(), watch.since())


def test_landmarks_are_wider_while_a_change_goes_on_and_then_no_more():
    rows = jumping(2.0)
    learner, done, epochs = sb.ssbc(cloud(MARKS), bits=8, epochs="auto"), 0, []
    while done < len(rows):
        done += len(learner.learn_and_encode(rows[done:], learner.coder()))
        landmarks = learner.features.landmarks
        wide = learner.features.bandwidth / sb.bandwidth.nearest(30).of(landmarks)
        epochs.append((learner.epoch, round(wide, 6), int((landmarks.mean(axis=1) > 1.5).sum())))
    new = int(0.75 * MARKS)
    assert [epoch[:2] for epoch in epochs] == [(1, WIDER), (2, 1.0), (2, 1.0)]
    assert epochs[0][2] >= new
    assert WIDER == 4


def test_a_watch_expects_rows_like_the_new_landmarks():
    rows = jumping(2.0)
    learner = sb.ssbc(cloud(MARKS), bits=8, epochs="auto")
    learner.learn_and_encode(rows, learner.coder())
    landmarks = learner.features.landmarks
    new = landmarks[: int(0.75 * MARKS)]
    assert (new.mean(axis=1) > 1.5).all()
    expected = learner.features(new).astype(np.float64).mean(axis=0)
    assert np.allclose(learner.state()["monitor"].state()["mean"], expected, rtol=1e-6)
