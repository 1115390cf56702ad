import array_api_strict as strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from streambits import reservoir
from streambits.errors import InputError
from streambits.model.batches import RowBatch
from streambits.model.sampling import Reservoir

NUMBERED = np.arange(500.0)[:, None] * [1.0, -1.0]


def cut(rows, places):
    return [part for part in np.split(rows, sorted(places)) if len(part)]


def sample_of(rows, size, seed=0):
    sample = Reservoir(size, rows, inputs=rows.shape[1], seed=seed)
    sample.update(rows)
    return sample


@given(st.lists(st.integers(0, 500)), st.integers(1, 500), st.integers(0, 1000))
def test_any_split_gives_the_same_sample(places, size, seed):
    whole = reservoir([NUMBERED], size, seed=seed)
    assert np.array_equal(reservoir(cut(NUMBERED, places), size, seed=seed), whole)
    assert len(np.unique(whole[:, 0])) == size
    assert np.isin(whole[:, 0], NUMBERED[:, 0]).all()


def test_every_row_has_the_same_chance():
    drawn = [reservoir([NUMBERED[:20]], 5, seed=seed)[:, 0].astype(int) for seed in range(4000)]
    counts = np.bincount(np.concatenate(drawn), minlength=20)
    expected = 4000 * 5 / 20  # standard deviation about 27
    assert np.all(abs(counts - expected) < 5 * np.sqrt(expected * 0.75))


@given(st.integers(1, 80), st.integers(0, 500), st.integers(0, 1000))
def test_a_merged_sample_holds_the_smallest_keys_of_both(size, place, seed):
    left, right = (
        Reservoir(size, NUMBERED, inputs=2, seed=seed),
        Reservoir(size, NUMBERED, inputs=2, seed=seed + 1),
    )
    left.update(NUMBERED[:place])
    right.update(NUMBERED[place:])
    keys = np.concatenate(
        [
            np.random.default_rng(seed).random(place),
            np.random.default_rng(seed + 1).random(500 - place),
        ]
    )
    left.merge(right)
    assert left.seen == 500
    expected = NUMBERED[np.argsort(keys)[:size], 0]
    assert np.array_equal(np.sort(left.rows[:, 0]), np.sort(expected))


def test_a_copy_goes_its_own_way_and_a_restored_sample_goes_on_the_same(fingerprint):
    sample = sample_of(NUMBERED[:100], 10)
    copied, before = sample.copy(), fingerprint(sample)
    copied.update(NUMBERED[100:])
    assert fingerprint(sample) == before
    sample.update(NUMBERED[100:])
    assert fingerprint(sample) == fingerprint(copied)
    assert np.array_equal(sample.rows, reservoir([NUMBERED], 10))


@pytest.mark.parametrize("stream", [[], [NUMBERED[:3]]])
def test_a_stream_that_is_too_short_is_an_error(stream):
    with pytest.raises(InputError, match=r"has [03] rows, and 5 were asked for: ask for fewer"):
        reservoir(stream, 5)


@pytest.mark.parametrize(
    ("stream", "size", "seed", "message"),
    [
        ([NUMBERED], 0, 0, "size is 0"),
        ([NUMBERED], True, 0, "size is True"),
        ([NUMBERED], 5, -1, "seed is -1"),
        ([NUMBERED, NUMBERED[:, :1]], 5, 0, "1 columns.*built for 2"),
        ([NUMBERED * np.nan], 5, 0, r"batch\[0, 0\] is NaN"),
        ([NUMBERED[0]], 5, 0, "Reshape"),
    ],
)
def test_bad_streams_and_settings_are_refused(stream, size, seed, message):
    with pytest.raises(InputError, match=message):
        reservoir(stream, size, seed=seed)


def faded(rows, half_life, seed, size=60):
    sample = Reservoir(size, rows, inputs=rows.shape[1], half_life=half_life, seed=seed)
    sample.update(rows)
    return sample


def test_samples_that_forget_are_of_the_same_age_when_merged():
    """A row counts by its age in its own shard, however many rows that shard has seen."""
    long, short = np.arange(2000.0)[:, None], -np.arange(1.0, 201)[:, None]
    expected = (1 - 0.5**2) / (1 - 0.5**20 + 1 - 0.5**2)  # of the weights, by geometric series
    for first, second in ((long, short), (short, long)):
        shares = []
        for seed in range(20):
            left, right = faded(first, 100, 2 * seed), faded(second, 100, 2 * seed + 1)
            left.merge(right)
            shares.append((left.rows < 0).mean())
        assert np.mean(shares) == pytest.approx(expected, abs=0.05)


def test_a_stream_of_several_libraries_and_precisions_becomes_that_of_its_first_batch():
    first, *rest = cut(NUMBERED, [60, 150, 300])
    rest = [rest[0].astype(np.float32), strict.asarray(rest[1]), rest[2]]
    found = reservoir([strict.asarray(first), *rest], 20)
    assert isinstance(found, type(strict.asarray(first)))
    assert found.dtype == strict.float64
    assert np.array_equal(np.asarray(found), reservoir([NUMBERED], 20))


def test_rows_with_ids_are_drawn_as_rows_alone(rows):
    alone = reservoir([rows[:70], rows[70:]], 30, seed=1)
    pairs = [(np.arange(70), rows[:70]), RowBatch(np.arange(len(rows) - 70), rows[70:])]
    np.testing.assert_array_equal(reservoir(pairs, 30, seed=1), alone)


@given(st.lists(st.integers(0, 500)), st.integers(1, 60), st.integers(0, 1000))
def test_a_part_of_a_sample_is_the_sample_of_that_size(places, count, seed):
    """Of the rows with the smallest keys, and the same for any split."""
    sample = Reservoir(50, NUMBERED, inputs=2, seed=seed)
    for rows in cut(NUMBERED, places):
        sample.update(rows)
    expected = reservoir([NUMBERED], min(count, 50), seed=seed)
    assert np.array_equal(np.sort(sample.part(count)[:, 0]), np.sort(expected[:, 0]))
    assert np.array_equal(sample.part(count), sample_of(NUMBERED, 50, seed).part(count))


def test_one_array_or_frame_is_a_stream_of_one_batch():
    rows = np.random.default_rng(0).random((60, 3))
    expected = reservoir([rows], 30, seed=1)
    for whole in (rows, pd.DataFrame(rows, columns=["a", "b", "c"])):
        assert np.array_equal(reservoir(whole, 30, seed=1), expected)
    learners = [sb.Settings(bits=4, n_landmarks=20).learner(some) for some in (rows, [rows])]
    first, second = (learner.learn(rows).coder().encode(rows) for learner in learners)
    assert first == second
    [batch] = sb.encode_online(learners[0], rows)
    assert batch.ids.tolist() == list(range(60))
