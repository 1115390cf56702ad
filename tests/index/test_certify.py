"""Certified codes: answers that are those of all raw rows, proven."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from index.decoding import BITS, METRICS, WIDTH, coder_of, distances, draw, everything, filled
from streambits import HammingIndex
from streambits.errors import InputError
from streambits.index.certify import lower_bounds
from streambits.index.queries import rows_by_epoch
from streambits.index.rerank import true_distances

pytestmark = pytest.mark.filterwarnings("ignore::streambits.errors.ReachWarning")


def brute_force(rows, ids, query, k, metric):
    """Ids and distances of the k nearest rows, equal ones by id."""
    far = true_distances(rows, query, metric)
    order = np.lexsort((ids, far))[:k]
    return ids[order].tolist(), far[order].tolist()


@given(
    st.integers(0, 2**32),
    st.sampled_from(BITS),
    st.sampled_from(METRICS),
    st.integers(1, 40),
    st.sampled_from([np.float32, np.float64]),
)
def test_proven_answers_are_those_of_all_rows(seed, bits, metric, k, kind):
    """With equal rows, rows of zeros, queries of zeros, and rows far from what was learned.

    Coders of single precision encode rows that are not quite the raw ones.
    """
    rng, length = np.random.default_rng(seed), 3.0 if seed % 3 == 0 else None
    rows = draw(rng, 500, length)
    rows[:3], rows[3:9], rows[9:12] = 0, 50 * rows[3:9], 1e4 * rows[9:12]
    ids, index = rng.permutation(1000)[:500], HammingIndex(bits, refine=7)
    asked = np.concatenate([draw(rng, 3), rows[8:10], 2 * rows[12:14], np.zeros((1, WIDTH))])
    asked = asked.astype(np.float32).astype(np.float64)
    queries, place = {}, np.full(1000, -1)
    place[ids] = np.arange(500)
    for epoch, some in enumerate(np.array_split(np.arange(500), 3)):
        coder = coder_of(bits, epoch, certified=True, n_bytes=6, kind=kind, length=length)
        index.add(coder.encode(rows[some]), ids[some])
        queries[epoch] = coder.queries(asked)
    index.remove(ids[20:30])
    left = np.delete(np.arange(500), np.arange(20, 30))
    hits = index.search(queries, k, metric=metric, exact=lambda some: rows[place[some]])
    for q, query in enumerate(asked):
        expected = brute_force(rows[left], ids[left], query, k, metric)
        assert (hits.ids[q].tolist(), hits.distances[q].tolist()) == expected
    assert (hits.reads >= min(k, len(left))).all()
    assert (hits.reads <= len(left)).all()


@everything
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("length", [None, 3.0])
def test_no_row_is_nearer_than_its_bound_and_bounds_tell_rows_apart(bits, metric, length):
    rng, coder = np.random.default_rng(0), coder_of(bits, certified=True, n_bytes=6, length=length)
    rows = np.concatenate([draw(rng, 800, length), 30 * draw(rng, 5), np.zeros((1, WIDTH))])
    queries = coder.queries(np.concatenate([draw(rng, 4), rows[:2], np.zeros((1, WIDTH))]))
    asked, _ = rows_by_epoch(queries, bits, 7, (0,))
    bounds = lower_bounds(asked[0], coder.encode(rows), metric)
    for low, query in zip(bounds, queries.rows, strict=True):
        true = distances(rows, query, metric)
        assert (low <= true + 1e-12).all()
    near = distances(rows, queries.rows[0], metric)
    assert np.median(near - bounds[0]) < np.ptp(near)


def test_rows_are_read_from_arrays_maps_and_functions_and_few_of_them(tmp_path):
    rng, coder = np.random.default_rng(0), coder_of(64, certified=True, n_bytes=12)
    rows = draw(rng, 5000)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    index = filled(coder, rows, np.arange(5000))
    queries, seen = coder.queries(draw(rng, 20)), []

    def look_up(ids):
        seen.append(len(ids))
        return mapped[ids]

    found = [index.search(queries, 10, exact=raw) for raw in (rows, mapped, look_up)]
    for hits in found:
        assert np.array_equal(hits.ids, found[0].ids)
        assert np.array_equal(hits.reads, found[0].reads)
    assert sum(seen) == found[0].reads.sum()
    assert found[0].reads.dtype == np.int64
    assert np.median(found[0].reads) < 200


def test_allowed_ids_are_all_that_is_read():
    rng, coder = np.random.default_rng(0), coder_of(64, certified=True)
    rows, queries = draw(rng, 1000), draw(rng, 4)
    index, some = filled(coder, rows, np.arange(1000)), np.arange(0, 1000, 7)

    def look_up(ids):
        assert (ids % 7 == 0).all()
        return rows[ids]

    hits = index.search(coder.queries(queries), 5, exact=look_up, allow=some)
    for q, query in enumerate(queries):
        expected = brute_force(rows[some], some, query, 5, "euclidean")
        assert (hits.ids[q].tolist(), hits.distances[q].tolist()) == expected


def test_no_codes_are_proven_without_reading():
    coder = coder_of(64, certified=True)
    index = HammingIndex(64, refine=4)
    hits = index.search(coder.queries(np.ones((2, WIDTH))), 3, exact=np.ones((1, WIDTH)))
    assert (hits.ids.shape, hits.reads.tolist()) == ((2, 0), [0, 0])


@pytest.mark.parametrize(
    ("exact", "options", "complaint"),
    [
        (np.ones(3), {}, r"exact must be an \(n, d\) array"),
        (np.ones((3, WIDTH)), {}, "has no row: there are 3"),
        (np.ones((50, WIDTH + 1)), {}, f"{WIDTH + 1} columns"),
        (lambda _: np.ones((1, WIDTH)), {}, "gave 1 rows for"),
        (np.ones((50, WIDTH)), {"candidates": 20}, "candidates is 20: leave out"),
    ],
)
def test_raw_rows_that_do_not_fit_are_refused(exact, options, complaint):
    coder, rows = coder_of(64, certified=True), draw(np.random.default_rng(0), 50)
    index = filled(coder, rows, np.arange(50))
    with pytest.raises(InputError, match=complaint):
        index.search(coder.queries(rows[:2]), 3, exact=exact, **options)


def test_a_saved_index_proves_the_same(tmp_path):
    coder, rows = coder_of(0, certified=True), draw(np.random.default_rng(0), 300)
    index, queries = filled(coder, rows, np.arange(300), parts=3), coder.queries(rows[:5] + 0.1)
    sb.save(index, tmp_path / "index.safetensors")
    loaded = sb.load(tmp_path / "index.safetensors")
    ours, theirs = (one.search(queries, 7, exact=rows) for one in (index, loaded))
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.reads, theirs.reads)
