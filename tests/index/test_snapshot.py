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
    st.integers(1, 300),
    st.booleans(),
)
def test_few_and_many_queries_find_the_same_across_epochs(seed, queries, bits, k, scaled):
    """Up to 8 queries scan all epochs at once, more of them one after another.

    Removed codes take no place of a hit, also where k is above the number of codes.
    """
    rng = np.random.default_rng(seed)
    index, held = HammingIndex(bits), {}
    ids = rng.permutation(200)
    for epoch, some in enumerate(np.split(ids, [20, 50, 170])):
        codes = codes_of(rng, len(some), bits, epoch)
        index.add(codes, some)
        index.remove(some[: len(some) // 20])
        held[epoch] = some[len(some) // 20 :], codes[len(some) // 20 :]
    asked = {epoch: codes_of(rng, queries, bits, epoch) for epoch in held}
    rising = {e: np.cumsum(rng.random((queries, bits + 1)), axis=1) for e in held}
    scales = rising if scaled else None
    hits = index.search(asked, k, scales=scales)
    for q, expected in enumerate(brute(held, asked, scales, k)):
        assert hits.ids[q].tolist() == [i for _, i in expected]
        assert hits.distances[q].tolist() == pytest.approx([d for d, _ in expected])
