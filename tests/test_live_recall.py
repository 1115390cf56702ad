"""Live recall: a sample of what is there, and recall as it would be measured from outside."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from streambits import live_recall
from streambits.errors import InputError
from streambits.live_recall import LiveSample, hashed

steps = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 300), max_size=60)), max_size=15)


@given(steps=steps)
def test_the_sample_has_the_live_rows_of_the_smallest_hashes(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_recall, "MIN_SAMPLE_ROWS", 64)
        patch.setattr(live_recall, "BYTES", 0)
        check_sample(steps)


def check_sample(steps):
    sample, live, rng, limit = LiveSample(2, np.float32), {}, np.random.default_rng(0), None
    assert sample.size == 64
    for removes, ids in steps:
        numbers = np.array(ids, np.int64)
        if removes:
            sample.remove(numbers)
            live = {key: row for key, row in live.items() if key not in ids}
            continue
        rows = rng.random((len(ids), 2), np.float32)
        sample.put(numbers, rows)
        for key, row in zip(ids, rows):
            if limit is None or hashed(np.array([key]))[0] < limit:
                live[key] = row
        keys = sorted(live, key=lambda key: int(hashed(np.array([key]))[0]))
        if len(keys) > 64:
            limit = hashed(np.array([keys[64]]))[0]
            live = {key: live[key] for key in keys[:64]}
    assert sorted(sample.numbers.tolist()) == sorted(live)
    for key, row in zip(sample.numbers.tolist(), sample.rows):
        assert (row == live[key]).all()
    again = LiveSample.from_state(sample.state())
    again.put(np.arange(10), np.ones((10, 2), np.float32))
    sample.put(np.arange(10), np.ones((10, 2), np.float32))
    assert (again.numbers == sample.numbers).all()
    assert (again.rows == sample.rows).all()


def outside(index, rows, ids, queries, k=10):
    """Recall of rows that are not in the index, by brute force."""
    far = np.linalg.norm(queries[:, None].astype(float) - rows.astype(float), axis=2)
    radius = np.sort(far, axis=1)[:, k - 1 : k] + 1e-9
    found = index.search(queries, k).ids
    order = np.argsort(ids)
    places = order[np.searchsorted(ids, found, sorter=order)]
    return (np.take_along_axis(far, places, axis=1) <= radius).mean()


@pytest.mark.parametrize("keep_rows", [False, True])
@pytest.mark.parametrize(
    "settings", [{"bits": 32}, {"bits": 32, "refine": 4}, {"method": "product", "refine": 6}]
)
def test_recall_is_that_of_queries_from_outside(settings, keep_rows):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6000, 12)).astype(np.float32)
    index = sb.StreamIndex(**settings, n_landmarks=100, keep_rows=keep_rows)
    index.add(rows[:5000])
    index.remove(np.arange(0, 5000, 3))
    ids = np.setdiff1d(np.arange(5000), np.arange(0, 5000, 3))
    true = outside(index, rows[ids], ids, rows[5000:5800])
    found = index.recall(queries=800)
    assert found.mean == pytest.approx(true, abs=0.03)
    assert found.low < found.mean < found.high
    assert (found.rows, found.measured, found.k, found.queries) == (3333, 3333, 10, 800)
    index.renew()
    index.add(rows[5000:], np.arange(5000, 6000))
    found = index.recall()
    assert set(found.epochs) == {one.epoch for one in index.epochs if one.rows}
    assert sum(one.queries for one in found.epochs.values()) == found.queries == 500


def test_recall_of_more_rows_than_the_sample_holds_is_extrapolated(monkeypatch):
    monkeypatch.setattr(live_recall, "BYTES", 3000 * 48)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12_500, 12)).astype(np.float32)
    index = sb.StreamIndex(bits=32, refine=4, n_landmarks=100)
    index.add(rows[:12_000])
    found = index.recall()
    assert (found.rows, found.measured) == (12_000, 3000)
    true = outside(index, rows[:12_000], np.arange(12_000), rows[12_000:])
    assert found.mean == pytest.approx(true, abs=0.05)


@pytest.mark.parametrize("k", [30, 100])
@pytest.mark.parametrize("settings", [{"refine": 8}, {}])
def test_recall_of_many_answers_is_that_of_the_same_search(settings, k, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((9000, 6)) @ rng.standard_normal((6, 16))
    rows = (rows + 0.3 * rng.standard_normal(rows.shape)).astype(np.float32)
    true, found = (
        sb.StreamIndex(bits=16, n_landmarks=50, method="ssbc", keep_rows=keep, **settings)
        for keep in (True, False)
    )
    true.add(rows)
    monkeypatch.setattr(live_recall, "BYTES", 4000 * 64)
    found.add(rows)
    exact, sampled = true.recall(k, queries=200), found.recall(k, queries=200)
    assert (exact.measured, sampled.measured) == (9000, 4000)
    assert sampled.mean == pytest.approx(exact.mean, abs=0.04)


def test_recall_needs_codes(mixture):
    index = sb.StreamIndex(bits=8, n_landmarks=30)
    index.add(mixture(100))
    with pytest.raises(InputError, match="recall needs 20 or more"):
        index.recall()
    index.add(mixture(300), np.arange(300))
    index.remove(np.arange(290))
    with pytest.raises(InputError, match="there are 10 codes"):
        index.recall()
