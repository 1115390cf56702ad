"""Search by what refined codes decode to, against decoding all of them."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import streambits as sb
from index.decoding import (
    BITS,
    METRICS,
    WIDTH,
    candidates_of,
    coder_of,
    decoded_distances,
    draw,
    everything,
    filled,
)
from streambits import Codes, HammingIndex
from streambits.errors import EpochError, InputError
from streambits.index import refine, scan, snapshot
from streambits.kernels.far import FAR
from streambits.model.coder import Coder

pytestmark = pytest.mark.filterwarnings("ignore::streambits.errors.ReachWarning")


class Ranking(NamedTuple):
    k: int
    metric: str = "euclidean"
    count: int | str = "all"
    real: bool = False


def brute_force(held, query, by):
    """[(distance, id)] of the k nearest; held: epoch -> (coder, ids, codes)."""
    found = []
    for one in held.values():
        few, (coder, ids, codes) = candidates_of(one, query, by.count, by.real), one
        far = decoded_distances(coder, codes[few], query, by.metric)
        found += zip(far.tolist(), ids[few].tolist(), strict=True)
    return sorted(found)[: by.k]


def check(index, queries, held, by, allow=None):
    """What is found is what brute force finds in `held`; queries: (q, d) rows."""
    asked = {epoch: coder.queries(queries, real=by.real) for epoch, (coder, *_) in held.items()}
    hits = index.search(asked, by.k, candidates=by.count, metric=by.metric, allow=allow)
    for q, query in enumerate(queries):
        expected = brute_force(held, query, by)
        assert hits.ids[q].tolist() == [i for _, i in expected]
        assert hits.distances[q] == pytest.approx([d for d, _ in expected], rel=1e-9, abs=1e-9)
    assert (hits.ids.dtype, hits.distances.dtype) == (np.int64, np.float64)


def change(rng, index, coder, held, free):
    """One change, of the index and of what it should hold."""
    count = int(rng.integers(1, 80))
    codes = coder.encode(draw(rng, count))
    match rng.integers(4) if held else 0:
        case 0:
            ids = [free.pop() for _ in range(count)]
            index.add(codes, ids)
        case 1:
            ids = [int(i) for i in rng.permutation(list(held))[:count]]
            index.update(codes[: len(ids)], np.array(ids))
        case 2:
            ids = [int(i) for i in rng.permutation([*held, *free])[:count]]
            index.upsert(codes[: len(ids)], ids)
            free[:] = [i for i in free if i not in ids]
        case 3:
            ids = [int(i) for i in rng.permutation(list(held))[: count // 2]]
            index.remove(ids)
            free.extend(ids)
            for key in ids:
                del held[key]
            return
    held.update(zip(ids, codes, strict=False))


RANKINGS = st.builds(
    Ranking,
    st.integers(1, 30),
    st.sampled_from(METRICS),
    st.sampled_from(["all", 30, 90]),
    st.booleans(),
)


@given(st.integers(0, 2**32), st.sampled_from(BITS), RANKINGS)
@settings(max_examples=60)
def test_any_mix_of_changes_agrees_with_decoding_all(seed, bits, by):
    rng, coder = np.random.default_rng(seed), coder_of(bits)
    index, held = HammingIndex(bits, refine=3), {}
    free = [-(2**63), 2**63 - 1, -1, *(int(i) for i in rng.permutation(700))]
    for _ in range(rng.integers(2, 9)):
        change(rng, index, coder, held, free)
    rows, ids = draw(rng, 3), np.array(sorted(held), np.int64)
    some = ids[ids % 3 == 0]
    for kept, allow in ((ids, None), (some, [*some, 10**6])):
        if len(kept):
            codes = Codes.concat([held[key] for key in kept.tolist()])
            assert index.get(kept) == codes
            check(index, rows, {0: (coder, kept, codes)}, by, allow)
    assert (index.refine, list(index)) == (3, ids.tolist())
    assert [batch.codes for batch in index.items(10**6)] == ([index.get(ids)] if held else [])


@given(st.integers(0, 2**32), st.sampled_from(BITS), RANKINGS)
def test_epochs_are_merged_by_their_decoded_distances(seed, bits, by):
    rng = np.random.default_rng(seed)
    index, held, ids = HammingIndex(bits, refine=3), {}, rng.permutation(400)
    for epoch, some in enumerate(np.split(ids, [20, 50, 300])):
        coder = coder_of(bits, epoch)
        codes = coder.encode(draw(rng, len(some)))
        held[epoch] = coder, some, codes
        for part in np.array_split(np.arange(len(some)), 3):
            index.add(codes[part], some[part])
    check(index, draw(rng, 4), held, by)


@everything
@pytest.mark.parametrize("metric", METRICS)
def test_rows_far_from_those_that_were_learned_are_ranked_by_what_they_decode_to(bits, metric):
    rng, coder = np.random.default_rng(0), coder_of(bits, n_bytes=8)
    rows = draw(rng, 300) * rng.choice([1, 20, 1000], (300, 1))
    codes, index = coder.encode(rows), filled(coder, rows, np.arange(300))
    assert (codes.refinement[:, 0] == FAR).any()
    queries = np.concatenate([draw(rng, 3), rows[np.abs(rows).max(axis=1) > 100][:3]])
    for count in ("all", 60):
        check(index, queries, {0: (coder, np.arange(300), codes)}, Ranking(20, metric, count))


@given(st.integers(0, 2**32), st.sampled_from(BITS), st.sampled_from([3, 8]), RANKINGS)
@settings(max_examples=50)
def test_rows_of_one_length_are_ranked_as_if_decoded_rows_had_it(seed, bits, n_bytes, by):
    """Beside rows of other lengths, and epochs of both kinds; by bits alone if there are any."""
    rng = np.random.default_rng(seed)
    index, held, ids = HammingIndex(bits, refine=n_bytes), {}, rng.permutation(300)
    for epoch, length in enumerate((5.0, None)):
        coder, own = coder_of(bits, epoch, n_bytes=n_bytes, length=length), ids[epoch::2]
        rows = draw(rng, 150, 5.0) * rng.choice([1, 1, 1, 30], (150, 1))
        codes = coder.encode(rows)
        held[epoch] = coder, own, codes
        index.add(codes, own)
        assert (coder.refinement.length == pytest.approx(5)) == bool(length)
    check(index, np.concatenate([draw(rng, 3), draw(rng, 2, 5.0)]), held, by)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0, 64])
def test_of_rows_of_one_length_more_are_found(bits):
    """Than if decoded rows were compared as they are, and as many as by angles."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3200, 48)) * 0.95 ** np.arange(48) + 0.3
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    queries, rows = rows[:200], rows[200:]
    learner = sb.methods.product(rows, refine=4) if bits == 0 else sb.ssbc(rows, bits, refine=4)
    coder = learner.learn(rows).coder()
    index = filled(coder, rows, np.arange(3000))
    true = np.argsort(-queries @ rows.T, axis=1)[:, :10]
    as_it_is = replace(coder.refinement, length=0.0)
    found = {}
    for refinement in (as_it_is, coder.refinement):
        asked = Coder(coder.features, coder.projection, 0, refinement).queries(queries)
        for metric in METRICS:
            ids = index.search(asked, 10, candidates="all", metric=metric).ids
            shared = [np.isin(one, some).mean() for one, some in zip(ids, true, strict=True)]
            found[metric, refinement.length > 0] = np.mean(shared)
    assert found["euclidean", True] > found["euclidean", False] + 0.01
    assert found["euclidean", True] == found["inner", True] == found["cosine", False]


@everything
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("length", [None, 2.0])
def test_threads_splits_and_batches_leave_no_trace(bits, metric, length, monkeypatch):
    """To the last bit of the distances."""
    rng, coder = np.random.default_rng(0), coder_of(bits, length=length)
    rows, queries = draw(rng, 3000, length), draw(rng, 9)
    order = rng.permutation(3000)
    straight = filled(coder, rows, np.arange(3000))
    mixed = filled(coder, rows[order], order, parts=7)
    results = []
    for index, threads, share, many in ((straight, 1, 10**6, 1 << 20), (mixed, 2, 1, 700)):
        for module, name in ((refine, "SHARE"), (refine, "PRODUCT_SHARE"), (scan, "SHARE")):
            monkeypatch.setattr(module, name, share)
        monkeypatch.setattr(snapshot, "RANKED_AT_ONCE", many)
        for size, count in ((9, "all"), (9, 2000), (1, "all"), (1, 2000)):
            parts = [coder.queries(queries[i : i + size]) for i in range(0, 9, size)]
            with threadpool_limits(threads, user_api="blas"):
                found = [index.search(p, 50, candidates=count, metric=metric) for p in parts]
            ids = np.concatenate([hits.ids for hits in found])
            far = np.concatenate([hits.distances for hits in found])
            results.append((ids.tolist(), far.tolist()))
    assert results[0] == results[2] == results[4] == results[6]
    assert results[1] == results[3] == results[5] == results[7]


def test_the_default_number_of_candidates_follows_k_and_the_codes(monkeypatch):
    monkeypatch.setattr(snapshot, "LEAST_CANDIDATES", 12)
    rng, coder = np.random.default_rng(0), coder_of(64)
    index, queries = filled(coder, draw(rng, 6000), np.arange(6000)), coder.queries(draw(rng, 5))
    for k, share, count in ((1, 256, 30), (10, 256, 300), (1, 10, 600)):
        monkeypatch.setattr(snapshot, "CODES_PER_CANDIDATE", share)
        ours, theirs = index.search(queries, k), index.search(queries, k, candidates=count)
        assert np.array_equal(ours.ids, theirs.ids)
        assert np.array_equal(ours.distances, theirs.distances)
    fewer = index.search(queries, 30, candidates=30)
    assert not np.array_equal(index.search(queries, 30).ids, fewer.ids)


def test_plain_queries_compare_the_sign_bits_of_refined_codes():
    rng, coder = np.random.default_rng(0), coder_of(64)
    rows = draw(rng, 500)
    codes, plain = coder.encode(rows), HammingIndex(64)
    index = filled(coder, rows, np.arange(500))
    plain.add(Codes(codes.packed, 64))
    for queries in (codes[:5], coder.project(rows[:5])):
        ours, theirs = index.search(queries, 20), plain.search(queries, 20)
        assert np.array_equal(ours.ids, theirs.ids)
        assert np.array_equal(ours.distances, theirs.distances)
    assert [h.ids.tolist() for h in index.within(codes[:3], 5)] == [
        h.ids.tolist() for h in plain.within(codes[:3], 5)
    ]


def test_a_snapshot_keeps_its_refinement():
    rng, coder = np.random.default_rng(0), coder_of(0)
    index = filled(coder, draw(rng, 600), np.arange(600))
    held = index.snapshot()
    before = held.codes(0, np.arange(600))
    index.update(coder.encode(draw(rng, 300)), np.arange(0, 600, 2))
    index.remove(np.arange(1, 300, 2))
    index.add(coder.encode(draw(rng, 50)), np.arange(50) + 600)
    assert held.codes(0, np.arange(600)) == before
    assert index.get(np.arange(0, 600, 2)) != before[::2]


def test_codes_that_were_added_may_be_overwritten():
    """The index does not write to the codes that others hold."""
    rng, coder = np.random.default_rng(0), coder_of(64)
    codes, other = coder.encode(draw(rng, 10)), coder.encode(draw(rng, 10))
    index, before = HammingIndex(64), codes.refinement.copy()
    index.add(codes)
    index.update(other, np.arange(10))
    assert np.array_equal(codes.refinement, before)
    assert index.get(np.arange(10)) == other


@everything
def test_nothing_is_found_where_nothing_is(bits):
    coder = coder_of(bits)
    index = HammingIndex(bits, refine=3)
    queries = coder.queries(np.ones((2, WIDTH)))
    assert index.search(queries, 5).distances.shape == (2, 0)
    index.add(coder.encode(np.ones((1, WIDTH))), [7])
    hits = index.search(queries, 5)
    assert hits.ids.tolist() == [[7], [7]]
    assert hits.reads is None
    assert index.search(queries, 5, allow=[8]).ids.shape == (2, 0)
    assert (index.get([]).refine, repr(index)) == (3, f"HammingIndex(1 x {bits} bits + 3 bytes)")


def test_the_first_codes_decide_the_bytes_of_refinement():
    index, coder = HammingIndex(64), coder_of(64)
    assert index.refine is None
    index.add(coder.encode(np.ones((2, WIDTH)))[:0])
    assert index.refine is None
    index.add(coder.encode(np.ones((2, WIDTH))))
    assert index.refine == 3
    index.remove([0, 1])
    assert index.refine == 3


def refined(bits=64, refine=3, epoch=0):
    packed = np.zeros((1, -(-bits // 8)), np.uint8)
    return Codes(packed, bits, epoch, np.zeros((1, refine), np.uint8))


ROWS = np.ones((2, WIDTH))
PLAIN = Codes(np.zeros((1, 8), np.uint8), 64)


@pytest.mark.parametrize(
    ("action", "kind", "complaint"),
    [
        (lambda i: i.add(PLAIN), InputError, "0 bytes of refinement, and those of this index 3"),
        (lambda i: i.add(refined(refine=4)), InputError, "4 bytes of refinement.*do not mix"),
        (lambda i: i.upsert(PLAIN, [0]), InputError, "0 bytes of refinement"),
        (lambda i: i.upsert(refined(refine=1), [77]), InputError, "1 bytes of refinement"),
        (lambda i: i.update(refined(refine=2), [0]), InputError, "2 bytes of refinement"),
        (lambda i: i.search(PLAIN, 1, candidates=3), InputError, "coder.queries"),
        (lambda i: i.search(PLAIN, 1, metric="inner"), InputError, "coder.queries"),
        (lambda i: i.search(PLAIN, 1, exact=ROWS), InputError, "coder.queries"),
        (lambda i: ask(i, metric="manhattan"), InputError, "choose one of euclidean"),
        (lambda i: ask(i, candidates="some"), InputError, "whole number or 'all'"),
        (lambda i: ask(i, candidates=2.5), InputError, "whole number"),
        (lambda i: ask(i, candidates=2), InputError, "candidates is 2, and k is 3"),
        (lambda i: ask(i, scales={}), InputError, "one scale"),
        (
            lambda i: ask(i, coder_of(64, n_bytes=5)),
            InputError,
            "5 bytes of refinement.*codes of 3",
        ),
        (lambda i: ask(i, coder_of(70)), InputError, "coder of 70 bits"),
        (lambda i: ask(i, coder_of(64, 1)), EpochError, "epoch 1, and the index holds epoch 0"),
        (lambda i: ask(i, exact=ROWS), InputError, "certified=True"),
        (
            lambda i: i.search({0: coder_of(64, 1).queries(ROWS)}, 3),
            EpochError,
            "passed for epoch 0 are of epoch 1",
        ),
        (
            lambda i: i.search({0: coder_of(64).queries(ROWS), 1: PLAIN}, 3),
            InputError,
            "for epoch 1 a Codes",
        ),
        (lambda _: HammingIndex(0, refine=0), InputError, "bits is 0"),
        (lambda _: HammingIndex(64, refine=-1), InputError, "refine is -1"),
        (lambda _: HammingIndex(64, refine=258), InputError, "refine is 258"),
        (lambda _: HammingIndex(64, refine=0).add(refined()), InputError, "3 bytes"),
        (
            lambda _: HammingIndex(64, refine=0).search(coder_of(64).queries(ROWS)),
            InputError,
            "plain",
        ),
        (lambda _: HammingIndex(0, refine=3).search(refined(0)), InputError, "no sign bits"),
        (lambda _: HammingIndex(0, refine=3).within(refined(0), 1), InputError, "no sign bits"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(action, kind, complaint):
    coder = coder_of(64)
    index = filled(coder, draw(np.random.default_rng(0), 20), np.arange(20))
    before = index.get(np.arange(20))
    with pytest.raises(kind, match=complaint):
        action(index)
    assert index.get(np.arange(20)) == before
    assert (len(index), index.refine) == (20, 3)


def ask(index, coder=None, **options):
    return index.search((coder or coder_of(64)).queries(ROWS), 3, **options)


def test_epochs_must_be_asked_for_as_many_rows():
    index = HammingIndex(0, refine=3)
    for epoch in range(2):
        index.add(coder_of(0, epoch).encode(ROWS))
    asked = {0: coder_of(0).queries(ROWS), 1: coder_of(0, 1).queries(ROWS[:1])}
    with pytest.raises(InputError, match="same rows to each coder"):
        index.search(asked)
    with pytest.raises(EpochError, match="also holds epoch 1"):
        index.search(asked[0])
