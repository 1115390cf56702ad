import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits import Codes, HammingIndex


def codes_of(rng, count, bits, epoch):
    return Codes.from_bits(rng.random((count, bits)) < 0.5, epoch)


def brute(held, asked, scales, k):
    """(query, [(distance, id)]) by unpacked bits, epoch after epoch."""
    found = []
    for q in range(len(next(iter(asked.values())))):
        hits = []
        for epoch, (ids, codes) in held.items():
            near = (codes.unpack() != asked[epoch].unpack()[q]).sum(axis=1)
            far = near if scales is None else scales[epoch][q][near]
            hits += zip(far.tolist(), ids.tolist(), strict=True)
        found.append(sorted(hits)[:k])
    return found


@given(
    st.integers(0, 2**32),
    st.integers(1, 12),
    st.sampled_from([1, 7, 64, 100]),
    st.integers(1, 60),
    st.booleans(),
)
def test_few_and_many_queries_find_the_same_across_epochs(seed, queries, bits, k, scaled):
    """Up to 8 queries scan all epochs at once, more of them one after another."""
    rng = np.random.default_rng(seed)
    index, held = HammingIndex(bits, strategy="scan"), {}
    ids = rng.permutation(200)
    for epoch, some in enumerate(np.split(ids, [20, 50, 170])):
        held[epoch] = some, codes_of(rng, len(some), bits, epoch)
        index.add(held[epoch][1], some)
    asked = {epoch: codes_of(rng, queries, bits, epoch) for epoch in held}
    rising = {e: np.cumsum(rng.random((queries, bits + 1)), axis=1) for e in held}
    scales = rising if scaled else None
    hits = index.search(asked, k, scales=scales)
    for q, expected in enumerate(brute(held, asked, scales, k)):
        assert hits.ids[q].tolist() == [i for _, i in expected]
        assert hits.distances[q].tolist() == pytest.approx([d for d, _ in expected])


@pytest.mark.parametrize("scaled", [False, True])
def test_dead_codes_do_not_fill_up_the_hits_across_epochs(scaled):
    rng = np.random.default_rng(0)
    index, held = HammingIndex(16), {}
    for epoch in range(2):
        ids, codes = np.arange(100) + 100 * epoch, codes_of(rng, 100, 16, epoch)
        index.add(codes, ids)
        index.remove(ids[:5])
        held[epoch] = ids[5:], codes[5:]
    asked = {epoch: codes_of(rng, 2, 16, epoch) for epoch in held}
    scales = {e: np.tile(np.arange(17.0), (2, 1)) for e in held} if scaled else None
    hits = index.search(asked, 500, scales=scales)
    assert hits.ids.shape == (2, 190)
    for q, expected in enumerate(brute(held, asked, None, 500)):
        assert list(zip(hits.distances[q].tolist(), hits.ids[q].tolist(), strict=True)) == expected
