import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from streambits import Hits
from streambits.errors import InputError


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_hits_come_in_the_order_of_true_distances_and_ties_by_id(seed, k):
    rng = np.random.default_rng(seed)
    rows, queries = rng.integers(0, 3, (40, 2)).astype(float), rng.integers(0, 3, (3, 2))
    ids = np.stack([rng.permutation(40)[:20] for _ in queries])
    hits = sb.rerank(Hits(ids, np.zeros(ids.shape)), queries, rows, k)
    for query, found, distances, asked in zip(queries, hits.ids, hits.distances, ids, strict=True):
        pairs = sorted((np.linalg.norm(rows[i] - query), i) for i in asked)[:k]
        assert list(zip(distances, found, strict=True)) == pairs


def test_rows_may_be_mapped_from_a_file_or_come_from_a_function(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.random((500, 8), dtype=np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    coder = sb.ssbc(rows[:100], bits=16, seed=0).learn(rows).coder()
    index = sb.HammingIndex(16)
    index.add(coder.encode(rows), np.arange(500) + 1000)
    hits = index.search(coder.encode(rows[:5]), 50)
    found = sb.rerank(hits, rows[:5], lambda ids: mapped[ids - 1000], 10)
    assert found.ids[:, 0].tolist() == [1000, 1001, 1002, 1003, 1004]
    assert (found.distances[:, 0] == 0).all()
    assert (np.diff(found.distances, axis=1) >= 0).all()
    same = sb.rerank(Hits(hits.ids - 1000, hits.distances), rows[:5], mapped, 10)
    assert np.array_equal(same.ids + 1000, found.ids)


ROWS = np.zeros((4, 2))
HITS = Hits(np.array([[0, 3]]), np.array([[0, 1]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sb.rerank(HITS, [[0.0, 0.0]] * 2, ROWS, 1), "2 queries for hits of shape"),
        (lambda: sb.rerank(HITS, [[0.0, 0.0]], ROWS[:3], 1), "id 3 has no row: there are 3"),
        (lambda: sb.rerank(HITS, [[0.0, 0.0]], ROWS[:, :1], 1), "column"),
        (lambda: sb.rerank(HITS, [[0.0, 0.0]], [1, 2], 1), "a function from ids to rows"),
        (lambda: sb.rerank(HITS, [[0.0, 0.0]], lambda _: ROWS, 1), "gave 4 rows for 2 ids"),
        (lambda: sb.rerank(HITS, [[0.0, 0.0]], ROWS, 0), "k is 0"),
        (lambda: sb.rerank(Hits(HITS.ids[0], HITS.distances[0]), [[0.0, 0.0]], ROWS, 1), "shape"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_no_hits_give_no_hits():
    empty = Hits(np.empty((1, 0), np.int64), np.empty((1, 0)))
    assert sb.rerank(empty, [[0.0, 0.0]], ROWS, 3).ids.shape == (1, 0)
