"""Many nearest codes: gathered below a likely distance, the same as counted one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.index import scan, weighted


@pytest.fixture(autouse=True)
def _always_many(monkeypatch):
    for module in (scan, weighted):
        monkeypatch.setattr(module, "GATHER_K", 1)
        monkeypatch.setattr(module, "SPARSE", 1)


def planes(rng, kind, count, width):
    """Codes of several orders: likely distances are wrong where like codes lie together."""
    if kind == "random":
        return rng.integers(0, 2**64, (width, count), np.uint64)
    few = rng.integers(0, 2**64, (width, 5), np.uint64)
    which = rng.integers(5, size=count)
    if kind == "sorted":
        which.sort()
    flips = np.uint64(1) << rng.integers(0, 64, (width, count)).astype(np.uint64)
    return few[:, which] ^ (flips if kind != "equal" else np.zeros_like(flips))


cases = given(
    st.integers(0, 2**32),
    st.sampled_from(["random", "mixed", "sorted", "equal"]),
    st.integers(1, 6000),
    st.sampled_from([1, 2, 5]),
)


def case(seed, kind, count, width):
    rng = np.random.default_rng(seed)
    words, alive = planes(rng, kind, count, width), rng.random(count) < 0.9
    alive[0] = True
    queries = np.concatenate([words[:, :2].T, rng.integers(0, 2**64, (1, width), np.uint64)])
    return words, alive, queries, int(rng.integers(1, np.count_nonzero(alive) + 1))


@cases
def test_the_nearest_are_those_of_sorting_all(seed, kind, count, width):
    words, alive, queries, k = case(seed, kind, count, width)
    places, distances = scan.scan_nearest(words, alive, count, queries, k)
    living = np.flatnonzero(alive)
    for q, query in enumerate(queries):
        far = np.bitwise_count(words[:, living] ^ query[:, None]).sum(axis=0, dtype=np.int64)
        order = np.argsort(far, kind="stable")[:k]
        assert places[q].tolist() == living[order].tolist()
        assert distances[q].tolist() == far[order].tolist()


@cases
def test_the_nearest_by_weights_are_those_of_sorting_all(seed, kind, count, width):
    words, alive, queries, k = case(seed, kind, count, width)
    weights = np.random.default_rng(seed).integers(0, 9, (len(queries), 64 * width)).astype(float)
    found = weighted.weighted_nearest(words, alive, count, queries, weights, k)
    living, shifts = np.flatnonzero(alive), np.arange(64, dtype=np.uint64)
    for q, query in enumerate(queries):
        differ = (words[:, living] ^ query[:, None])[:, None] >> shifts[:, None] & np.uint64(1)
        far = weights[q] @ differ.reshape(64 * width, -1)
        order = np.argsort(far, kind="stable")[:k]
        assert found[0][q].tolist() == living[order].tolist()
        assert found[1][q].tolist() == far[order].tolist()
