import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from streambits import Codes
from streambits.index import multi_index as tables
from streambits.index.multi_index import Tables
from streambits.index.scan import scan_nearest, scan_within
from streambits.kernels import multi_index as multi

LENGTHS = [*range(1, 131), 256, 512, 1000, 4096]


def brute_force(rows, alive, query):
    """(distance, place) of all that lives, in order."""
    distances = np.count_nonzero(rows != query, axis=1)
    return sorted((d, place) for place, d in enumerate(distances.tolist()) if alive[place])


def planes(rows):
    return np.ascontiguousarray(Codes.from_bits(rows).words().T)


def pairs(places, distances):
    assert (places.dtype, distances.dtype) == (np.int64, np.int32)
    return list(zip(distances.tolist(), places.tolist(), strict=True))


def check(made, rows, alive, queries, *, ks, radii):
    """Searches agree with brute force."""
    asked, words = Codes.from_bits(queries).words(), planes(rows)
    truth = [brute_force(rows, alive, query) for query in queries]
    for k in ks:
        found = made.nearest(words, alive, len(rows), asked, k)
        assert found[0].shape == found[1].shape == (len(queries), k)
        assert [pairs(*hits) for hits in zip(*found, strict=True)] == [all_[:k] for all_ in truth]
    for radius in radii:
        hits = made.within(words, alive, len(rows), asked, radius)
        near = [[pair for pair in all_ if pair[0] <= radius] for all_ in truth]
        assert [pairs(*its) for its in hits] == near


def truth_values(rng, count, bits, noise=None):
    """Many equal codes and many equal distances, or noise."""
    few = rng.random((4, bits)) < 0.5
    noise = rng.choice([0, 1 / bits, 0.1, 0.5]) if noise is None else noise
    return few[rng.integers(4, size=count)] ^ (rng.random((count, bits)) < noise)


def example(rng, count, bits):
    """Rows, who lives, and queries: near, and anywhere."""
    rows = truth_values(rng, count, bits)
    alive = rng.random(count) < rng.choice([0.1, 0.9, 1])
    alive[rng.integers(count)] = True
    near = rows[rng.integers(count, size=2)] ^ (rng.random((2, bits)) < 1 / bits)
    return rows, alive, np.concatenate([near, rng.random((1, bits)) < 0.5])


@pytest.fixture
def alone(monkeypatch):
    """The tables must answer themselves, whatever it costs."""
    monkeypatch.setattr(tables, "BUDGET", 1e12)
    monkeypatch.setattr(tables, "ROOM", 1)
    monkeypatch.setattr(tables, "scan_nearest", None)
    monkeypatch.setattr(tables, "scan_within", None)


@pytest.mark.parametrize("bits", LENGTHS)
def test_every_length_agrees_with_brute_force(bits, alone):
    rng = np.random.default_rng(bits)
    for count, pieces in ((1, None), (130, None), (90, int(rng.integers(1, min(bits, 70) + 1)))):
        rows, alive, queries = example(rng, count, bits)
        living = np.count_nonzero(alive)
        radii = {0, 1, 2, 3, 5, 9, bits // 4, bits // 2, bits - 1, bits}
        check(
            Tables(planes(rows), bits, pieces),
            rows,
            alive,
            queries,
            ks={1, int(rng.integers(living)) + 1, living},
            radii=[radius for radius in radii if radius <= bits],
        )


@given(st.integers(0, 2**32), st.integers(1, 24), st.integers(1, 300), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_every_k_and_every_radius(seed, bits, count, pieces):
    rng = np.random.default_rng(seed)
    rows, alive, queries = example(rng, count, bits)
    made = Tables(planes(rows), bits, pieces)
    living = np.count_nonzero(alive)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BUDGET", 1e12)
        patch.setattr(tables, "ROOM", 1)
        patch.setattr(tables, "scan_nearest", None)
        patch.setattr(tables, "scan_within", None)
        ks = range(1, living + 1, 1 + living // 40)
        check(made, rows, alive, queries, ks=ks, radii=range(bits + 1))


@given(
    st.integers(0, 2**32),
    st.sampled_from([7, 40, 64, 100, 128, 200]),
    st.sampled_from([0, 1e-4, 1, 4, 30, 1e9]),
)
@settings(max_examples=60, deadline=None)
def test_any_budget_and_room_give_what_the_scan_gives(seed, bits, budget):
    rng = np.random.default_rng(seed)
    rows, alive, _ = example(rng, int(rng.integers(1, 5000)), bits)
    words, queries = planes(rows), truth_values(rng, 40, bits)
    queries[:20] = rows[rng.integers(len(rows), size=20)]
    asked, made = Codes.from_bits(queries).words(), Tables(words, bits)
    k = int(rng.integers(1, min(np.count_nonzero(alive), 50) + 1))
    radius = int(rng.integers(0, bits // 3 + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BUDGET", budget)
        patch.setattr(tables, "ROOM", int(rng.choice([1, 16, 10_000])))
        found = made.nearest(words, alive, len(rows), asked, k)
        near = made.within(words, alive, len(rows), asked, radius)
    expected = scan_nearest(words, alive, len(rows), asked, k)
    assert all(map(np.array_equal, found, expected))
    for ours, theirs in zip(near, scan_within(words, alive, len(rows), asked, radius), strict=True):
        assert all(map(np.array_equal, ours, theirs))


@pytest.mark.parametrize("bits", [1, 33, 64, 130])
def test_codes_that_are_all_equal_or_nearly(bits, alone):
    rows = np.zeros((3000, bits), np.bool_)
    rows[1700:1710, 0] = True
    alive = np.ones(3000, np.bool_)
    alive[:1500] = alive[1705] = False
    queries = np.zeros((2, bits), np.bool_)
    queries[1, 0] = True
    ks = (1, 9, 10, 700, int(alive.sum()))
    check(Tables(planes(rows), bits), rows, alive, queries, ks=ks, radii=(0, 1))


@pytest.mark.parametrize("bits", [60, 100])
def test_equal_codes_that_the_sort_leaves_apart(bits, alone):
    rng = np.random.default_rng(0)
    rows = rng.random((4000, bits)) < 0.5
    rows[:, 36:] = rows[0, 36:]
    rows = rows[rng.integers(4000, size=12_000)]
    made, alive = Tables(planes(rows), bits), rng.random(12_000) < 0.9
    assert len(made.state()["starts"]) > len(np.unique(rows, axis=0)) + 1
    queries = rows[:3] ^ (rng.random((3, bits)) < 0.05)
    check(made, rows, alive, queries, ks=(1, 30), radii=(0, 12))


def test_threads_leave_no_trace():
    rng = np.random.default_rng(1)
    rows = truth_values(rng, 30_000, 64, 0.1)
    words, alive = planes(rows), np.ones(30_000, np.bool_)
    queries = Codes.from_bits(truth_values(rng, 200, 64, 0.1)).words()
    queries[:100] = words[0, :100, None]
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            made = Tables(words, 64)
            found = made.nearest(words, alive, len(rows), queries, 7)
            near = made.within(words, alive, len(rows), queries, 4)
        arrays = [*list(made.state().values())[2:], *found, *(side for its in near for side in its)]
        results.append([array.tobytes() for array in arrays])
    assert results[0] == results[1]


def test_pieces_never_read_past_the_words_of_a_code():
    """As Python, which checks bounds; machine code would read what is not its own."""
    words = planes(np.ones((2, 128), np.bool_))
    for start in range(105):
        assert multi.bits_of.py_func(words, 1, start, 24) == 2**24 - 1


def test_places_beyond_two_bytes(alone):
    words = np.random.default_rng(0).integers(0, 2**64, (1, 70_000), np.uint64)
    asked, alive = words[:, [3, 65_536, 69_999]].T, np.ones(70_000, np.bool_)
    made = Tables(words, 64)
    places, distances = made.nearest(words, alive, 70_000, asked, 1)
    assert (places[:, 0].tolist(), distances[:, 0].tolist()) == ([3, 65_536, 69_999], [0, 0, 0])
    near = made.within(words, alive, 70_000, asked, 0)
    assert [hits[0].tolist() for hits in near] == [[3], [65_536], [69_999]]


def test_more_places_than_four_bytes_can_number():
    words = np.zeros((1, 3), np.uint64)
    state = Tables(words, 8).state()
    wide = {
        name: value.astype(np.int64) if value.dtype == np.uint32 else value
        for name, value in state.items()
        if isinstance(value, np.ndarray)
    }
    with pytest.raises(ValueError, match=r"int64.*not uint32"):
        Tables.from_state(state | wide).check_shapes(8, 3)
    for count in (2**32 - 1, 2**32, 2**40):
        wide["members"] = np.broadcast_to(np.int64(0), (count,))
        made = Tables.from_state(state | wide)
        if count < 2**32:
            with pytest.raises(ValueError, match=r"int64.*not uint32"):
                made.check_shapes(8, count)
        else:
            made.check_shapes(8, count)
