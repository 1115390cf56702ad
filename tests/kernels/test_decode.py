"""Kernels that measure decoded rows, and the screen that rules most of them out."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from index.decoding import coder_of, draw, filled
from streambits.index import refine
from streambits.index.queries import rows_by_epoch
from streambits.kernels import decode
from streambits.kernels.scan import prefixes


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 60), st.booleans())
def test_prefixes_are_what_the_nearest_of_all_lists_have_of_each(seed, lists, count, real):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 40, lists)
    count = min(count, int(sizes.sum()))
    ids = np.stack([rng.permutation(500)[: sizes.sum()] for _ in range(3)])
    far = rng.integers(0, 6, ids.shape) / (1.0 if real else 1)
    far = far if real else far.astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for low, high in pairwise(starts):
        order = low + np.lexsort((ids[:, low:high], far[:, low:high]))
        ids[:, low:high] = np.take_along_axis(ids, order, 1)
        far[:, low:high] = np.take_along_axis(far, order, 1)
    taken = prefixes(ids, far, starts, count)
    owner = np.repeat(np.arange(lists), sizes)
    for q in range(3):
        nearest = owner[np.lexsort((ids[q], far[q]))[:count]]
        assert taken[:, q].tolist() == np.bincount(nearest, minlength=lists).tolist()


@pytest.mark.parametrize("bits", [5, 64, 70])
def test_a_screen_rules_out_most_codes_and_none_that_is_near(bits):
    rng, coder = np.random.default_rng(0), coder_of(bits, n_bytes=8)
    rows, queries = draw(rng, 4000), draw(rng, 20)
    index = filled(coder, rows, np.arange(4000))
    held = index.snapshot()
    asked, _ = rows_by_epoch(coder.queries(queries), bits, 8, (0,))
    (segment,), query = held._epochs[0], asked[0]
    target = refine.target_of(query, "euclidean")
    codes = refine._codes(segment, query.refinement)
    assert len(codes.screen.signs) == len(codes.decoder.signs)
    decoded, kept = coder.decode(coder.encode(rows)), []
    far = np.linalg.norm(decoded - queries[:, None], axis=2)
    for q in range(20):
        one, memory = decode._one(codes, target, q), decode._memory(codes)
        top = np.partition(far[q], 10)[10]
        for low in range(0, 4000, decode.CHUNK):
            count = min(decode.CHUNK, 4000 - low)
            memory.places[:count] = np.arange(low, low + count)
            decode._fetch(codes, count, memory)
            stay = decode._rule_out(codes, one, count, top, memory)
            near = np.flatnonzero(far[q, low : low + count] < top * (1 - 1e-12)) + low
            assert set(near) <= set(memory.places[:stay].tolist())
            kept.append(stay / count)
    assert np.mean(kept) < 0.3


@pytest.mark.parametrize("scale", [1e-100, 1e30])
def test_values_of_any_size_are_ranked(scale):
    """A screen counts in a unit of its own."""
    rows = draw(np.random.default_rng(0), 1500) * scale
    coder = sb.methods.METHODS["itq"](rows[:100], 16, refine=4).learn(rows).coder()
    codes, index = coder.encode(rows), sb.HammingIndex(16)
    index.add(codes)
    hits = index.search(coder.queries(rows[:3]), 5, candidates="all")
    for q in range(3):
        far = np.linalg.norm((coder.decode(codes) - rows[q]) / scale, axis=1)
        assert hits.distances[q] / scale == pytest.approx(np.sort(far)[:5], rel=1e-9)
