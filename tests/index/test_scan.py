"""Many nearest codes: gathered below a likely distance, the same as counted one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.index import scan


@pytest.fixture(autouse=True)
def _always_many(monkeypatch):
    monkeypatch.setattr(scan, "MANY", 1)
    monkeypatch.setattr(scan, "SPARSE", 1)


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


@given(
    st.integers(0, 2**32),
    st.sampled_from(["random", "mixed", "sorted", "equal"]),
    st.integers(1, 6000),
    st.sampled_from([1, 2, 5]),
)
def test_the_nearest_are_those_of_sorting_all(seed, kind, count, width):
    rng = np.random.default_rng(seed)
    words, alive = planes(rng, kind, count, width), rng.random(count) < 0.9
    alive[0] = True
    queries = np.concatenate([words[:, :2].T, rng.integers(0, 2**64, (1, width), np.uint64)])
    k = int(rng.integers(1, np.count_nonzero(alive) + 1))
    places, distances = scan.scan_nearest(words, alive, count, queries, k)
    living = np.flatnonzero(alive)
    for q, query in enumerate(queries):
        far = np.bitwise_count(words[:, living] ^ query[:, None]).sum(axis=0, dtype=np.int64)
        order = np.argsort(far, kind="stable")[:k]
        assert places[q].tolist() == living[order].tolist()
        assert distances[q].tolist() == far[order].tolist()
