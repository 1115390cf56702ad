import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError
from streambits.model.renewal import drawn, is_row_in, rebuilt, renewable


def cloud(count, seed=0, shift=0.0):
    rows = np.random.default_rng(seed).random((count, 3), dtype=np.float32)
    return rows + np.float32(shift)


def test_landmarks_come_from_the_rows_since_a_change_and_then_from_the_sample():
    since, sample = cloud(500, 1, 5.0), cloud(400, 2)
    landmarks, new = drawn(since, sample, 100, np.random.default_rng(0))
    assert (landmarks.shape, new) == ((100, 3), 75)
    assert is_row_in(landmarks, since).tolist() == [True] * 75 + [False] * 25
    assert is_row_in(landmarks, sample).tolist() == [False] * 75 + [True] * 25
    few, new = drawn(since[:10], sample, 100, np.random.default_rng(0))
    assert (new, int(is_row_in(few, sample).sum())) == (10, 90)
    _, new = drawn(since[:0], sample, 100, np.random.default_rng(0))
    assert new == 0


def test_no_landmark_is_drawn_twice_while_there_are_others():
    rows = cloud(130, 1)
    landmarks, _ = drawn(rows[:100], rows, 100, np.random.default_rng(0))
    assert len(np.unique(landmarks, axis=0)) == 100


def test_a_rebuilt_sketch_stands_for_all_rows_seen():
    learner = sb.ssbc(cloud(50), bits=8, seed=0).learn(cloud(3000, 1))
    sketch, features = learner.sketch, sb.features.GaussianAffinity(cloud(50, 3))
    sample, none = cloud(500, 2), cloud(0)
    new = rebuilt(sketch, features, sample, none)
    assert (new.seen, new.weight) == (3000, pytest.approx(3000))
    assert np.allclose(new.mean, np.asarray(features(sample), np.float64).mean(axis=0), atol=1e-6)
    changed = rebuilt(sketch, features, sample, cloud(200, 4, 1.0))
    assert (changed.seen, changed.weight) == (3000, pytest.approx(700))
    assert sketch.weight == pytest.approx(3000)


def test_only_landmarks_can_be_drawn_again():
    assert renewable(sb.features.GaussianAffinity(cloud(5))).width == 5
    with pytest.raises(InputError, match="Linear features have no landmarks"):
        renewable(sb.methods.METHODS["itq"](cloud(50), bits=2).features)
