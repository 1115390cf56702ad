from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from streambits import Codes
from streambits.index import weighted
from streambits.kernels import weighted as kernels

LENGTHS = [*range(1, 131), 256, 512, 1000, 4096]


def brute_force(rows, alive, queries, weights, k):
    """All distances, added in the promised order, and a stable sort of those alive."""
    cost = np.where(rows != queries[:, None], weights[:, None], 0.0)
    halves = np.pad(cost, ((0, 0), (0, 0), (0, -rows.shape[1] % 8))).reshape(*cost.shape[:2], -1, 4)
    with np.errstate(over="ignore"):
        halves = np.add.accumulate(halves, axis=-1)[..., -1]
        distances = np.add.accumulate(halves[..., 0::2] + halves[..., 1::2], axis=-1)[..., -1]
    places = np.flatnonzero(alive)
    order = np.argsort(distances[:, places], axis=1, kind="stable")[:, :k]
    return places[order], np.take_along_axis(distances[:, places], order, 1)


def search(rows, alive, queries, weights, k):
    """The same by the scan; places behind the end are alive, and must not be seen."""
    words = np.ascontiguousarray(Codes.from_bits(np.concatenate([rows, queries])).words().T)
    beyond = np.concatenate([alive, np.ones(len(queries), np.bool_)])
    asked = Codes.from_bits(queries).words()
    return weighted.weighted_nearest(words, beyond, len(rows), asked, weights, k)


def check(rows, alive, queries, weights, k):
    """Both agree to the last bit."""
    found = search(rows, alive, queries, weights, k)
    assert (found[0].dtype, found[1].dtype) == (np.int64, np.float64)
    for mine, true in zip(found, brute_force(rows, alive, queries, weights, k), strict=True):
        np.testing.assert_array_equal(mine, true)


def draw_rows(rng, count, bits):
    """Random ones, or many equal codes, or few bits away from a few centres."""
    noise = rng.choice([0, 0.02, 0.5])
    few = rng.random((4, bits)) < 0.5
    return few[rng.integers(4, size=count)] ^ (rng.random((count, bits)) < noise)


WEIGHTS = {
    "whole": lambda rng, shape: rng.integers(0, 4, shape).astype(np.float64),
    "equal": lambda rng, shape: np.full(shape, rng.choice([1.0, 0.1, 1e-310, 1e305])),
    "real": lambda rng, shape: np.abs(rng.standard_normal(shape)),
    "few": lambda rng, shape: rng.random(shape) * (rng.random(shape) < 0.2),
    "heavy": lambda rng, shape: np.exp(6 * rng.standard_normal(shape)),
    "nearly equal": lambda rng, shape: 1 + 1e-13 * rng.random(shape),
    "far apart": lambda rng, shape: rng.choice([0, 1e-300, 1e-9, 1, 1e300], shape),
    "tiny": lambda rng, shape: rng.integers(0, 9, shape) * 5e-324,
    "huge": lambda rng, shape: rng.choice([1e307, 1.7e308], shape),
    "zero": lambda _, shape: np.zeros(shape),
}


@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 5, 8, 31, 63, 64, 65, 128, 130, 192, 256, 320]),
    st.sampled_from(list(WEIGHTS)),
    st.integers(1, 5000),
)
@settings(max_examples=200)
def test_any_codes_and_weights_agree_with_brute_force(seed, bits, kind, count):
    rng = np.random.default_rng(seed)
    asked = int(rng.integers(1, 4))
    rows, alive = draw_rows(rng, count, bits), rng.random(count) < rng.choice([0.1, 0.9, 1])
    alive[rng.integers(count)] = True
    queries, weights = draw_rows(rng, asked, bits), WEIGHTS[kind](rng, (asked, bits))
    k = int(rng.choice([1, 10, 100, 10**9]))
    check(rows, alive, queries, weights, min(k, np.count_nonzero(alive)))


@pytest.mark.parametrize("bits", LENGTHS)
def test_every_length(bits):
    rng = np.random.default_rng(bits)
    count = 3000 if bits < 200 else 1500
    rows, alive = rng.random((count, bits)) < 0.5, rng.random(count) < 0.9
    queries = rng.random((1, bits)) < 0.5
    for weights in (rng.integers(0, 9, (1, bits)) / 1.0, np.abs(rng.standard_normal((1, bits)))):
        check(rows, alive, queries, weights, 7)


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "count"), [(20, 70_000), (64, 70_000), (256, 20_000)])
@pytest.mark.parametrize("kind", ["whole", "real", "heavy"])
def test_masks_made_again_and_again(bits, count, kind):
    """A span of many chunks, over which the bound falls."""
    rng = np.random.default_rng(bits)
    rows, queries = rng.random((count, bits)) < 0.5, rng.random((1, bits)) < 0.5
    for k in (1, 10, 2000):
        check(rows, rows[:, 0], queries, WEIGHTS[kind](rng, (1, bits)), k)


@pytest.mark.parametrize("kind", ["whole", "real", "zero"])
@pytest.mark.parametrize("bits", [10, 64, 200])
def test_threads_groups_and_cuts_leave_no_trace(bits, kind, monkeypatch):
    rng = np.random.default_rng(0)
    rows, queries = draw_rows(rng, 9000, bits), draw_rows(rng, 5, bits)
    weights, alive = WEIGHTS[kind](rng, (5, bits)), rng.random(9000) < 0.9

    def found():
        answers = [search(rows, alive, queries, weights, k) for k in (1, 20, 3000)]
        return [part.tobytes() for answer in answers for part in answer]

    monkeypatch.setattr(weighted, "SHARE", 1)
    results = []
    for threads, group in ((1, 128), (2, 128), (2, 2), (1, 1)):
        monkeypatch.setattr(weighted, "GROUP", group)
        with threadpool_limits(threads, user_api="blas"):
            results.append(found())
    for cuts in ([0, 1, 9000], [0, 700, 701, 6000, 9000]):
        parts = list(pairwise(cuts))
        monkeypatch.setattr(weighted, "ranges", lambda *_, parts=parts, **__: parts)
        results.append(found())
    assert all(result == results[0] for result in results)


@given(st.integers(0, 2**32), st.integers(1, kernels.MOST), st.sampled_from(list(WEIGHTS)))
@settings(max_examples=200)
def test_the_bound_is_below_every_distance(seed, planes, kind):
    rng = np.random.default_rng(seed)
    weights = WEIGHTS[kind](rng, 100)
    weights /= weights.max() or 1
    levels, step = np.empty(100, np.int64), rng.choice([1, 0.3, 0.01]) * rng.random() + 1e-9
    _, excess = kernels._round(weights, 2.0 ** rng.integers(-4, 40), step, planes, levels)
    differs = rng.random((500, 100)) < rng.random((500, 1))
    sums, distances = differs @ levels, differs @ weights
    limits = [kernels._limit(distance, step, excess) for distance in distances]
    assert levels.max() < 2**planes
    assert (sums <= limits).all()


def test_real_values_rank_by_the_inner_product():
    rng = np.random.default_rng(4)
    values, rows = rng.standard_normal((6, 70)), rng.random((4000, 70)) < 0.5
    everyone = np.ones(4000, np.bool_)
    places, distances = search(rows, everyone, values > 0, np.abs(values), 4000)
    products = values @ np.where(rows, 1.0, -1.0).T
    wanted = (np.abs(values).sum(axis=1, keepdims=True) - products) / 2
    np.testing.assert_allclose(distances, np.sort(wanted, axis=1), atol=1e-12)
    np.testing.assert_allclose(distances, np.take_along_axis(wanted, places, 1), atol=1e-12)
