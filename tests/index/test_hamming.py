from hashlib import blake2b
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from streambits import Codes, HammingIndex
from streambits._arrays import TEXT, as_ids
from streambits.errors import EpochError, InputError
from streambits.index import keys, scan

LENGTHS = [1, 2, 7, 8, 9, 31, 63, 64, 65, 100, 127, 128, 129, 130, 256, 320, 512, 1000, 4096]
SMALLEST, LARGEST = -(2**63), 2**63 - 1


def number(key):
    """What ids are ordered by: themselves, or the hash of a text."""
    if isinstance(key, str):
        digest = blake2b(key.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little", signed=True)
    return key


def as_text(key):
    """A text for every number; some take several bytes for a character, some have a zero."""
    return f"{'ä€😀'[key % 3] * (key % 5)}{key}" + "\0" * (key % 7 == 0)


NAMES = {"numbers": int, "texts": as_text}


def brute_force(held, queries):
    """For every query (distance, id) of all that is held, in order; held: id -> truth values."""
    numbers = {key: number(key) for key in held}
    return [
        sorted(
            ((np.count_nonzero(query != bits), key) for key, bits in held.items()),
            key=lambda pair: (pair[0], numbers[pair[1]]),
        )
        for query in queries
    ]


def check(index, held, queries, k, radius):
    """Searches, filtered ones and radius searches agree with brute force; so does what is held."""
    assert (len(index), list(index)) == (len(held), sorted(held, key=number))
    codes = Codes.from_bits(queries)
    some = {key: bits for key, bits in held.items() if number(key) % 3 == 0}
    texts = held and isinstance(next(iter(held)), str)
    unknown = "unknown" if texts else 12345
    for hits, among in (
        (index.search(codes, k), held),
        (index.search(codes, k, allow=[*some, unknown, *some]), some),
    ):
        found = [
            list(zip(d, i, strict=True))
            for d, i in zip(hits.distances.tolist(), hits.ids.tolist(), strict=True)
        ]
        assert found == [pairs[:k] for pairs in brute_force(among, queries)]
        assert hits.ids.dtype == (TEXT if texts else np.int64)
        assert hits.distances.dtype == np.int32
        assert hits.ids.shape == hits.distances.shape == (len(queries), min(k, len(among)))
    near = [
        list(zip(hits.distances.tolist(), hits.ids.tolist(), strict=True))
        for hits in index.within(codes, radius)
    ]
    assert near == [[p for p in pairs if p[0] <= radius] for pairs in brute_force(held, queries)]


def truth_values(rng, count, bits):
    """Many equal codes and many equal distances."""
    few = rng.random((4, bits)) < 0.5
    return few[rng.integers(4, size=count)] ^ (
        rng.random((count, bits)) < rng.choice([0, 1 / bits])
    )


def step(rng, index, held, free):
    """One change, of the index and of what it should hold."""
    keys = list(held)
    some = [keys[i] for i in rng.permutation(len(keys))]
    bits, count = index.bits, int(rng.integers(0, 60))
    rows = truth_values(rng, count, bits)
    match rng.integers(3) if held else 0:
        case 0:
            ids = [free.pop() for _ in range(count)]
            index.add(Codes.from_bits(rows), ids)
            held.update(zip(ids, rows, strict=True))
        case 1:
            ids = some[:count]
            index.update(Codes.from_bits(rows[: len(ids)]), as_ids(ids))
            held.update(zip(ids, rows, strict=False))
        case 2:
            ids = some[: count // 2]
            index.remove(ids)
            for key in ids:
                del held[key]
            free.extend(ids)


@pytest.mark.parametrize("name", NAMES)
@given(st.integers(0, 2**32), st.sampled_from(LENGTHS))
@settings(max_examples=60)
def test_any_mix_of_changes_agrees_with_brute_force(name, seed, bits):
    mix(seed, bits, NAMES[name])


@pytest.mark.parametrize("bits", [*range(1, 131), 256, 512, 1000, 4096])
def test_a_mix_of_changes_of_every_length_agrees_with_brute_force(bits):
    mix(bits, bits)


def mix(seed, bits, name=int):
    rng = np.random.default_rng(seed)
    index, held = HammingIndex(bits), {}
    free = [SMALLEST, LARGEST, -1, *(int(i) for i in rng.integers(SMALLEST, LARGEST, 300))]
    free += [int(i) for i in rng.permutation(300)]
    free = list(map(name, dict.fromkeys(free)))
    for _ in range(rng.integers(2, 9)):
        step(rng, index, held, free)
    queries = truth_values(rng, int(rng.integers(1, 4)), bits)
    check(index, held, queries, int(rng.integers(1, 80)), int(rng.integers(0, bits + 1)))


@pytest.mark.parametrize("bits", LENGTHS)
def test_every_kind_of_length_over_several_chunks_and_ties(bits):
    rng = np.random.default_rng(bits)
    rows, queries = truth_values(rng, 2500, bits), truth_values(rng, 2, bits)
    index, held = HammingIndex(bits), dict(enumerate(rows))
    index.add(Codes.from_bits(rows))
    index.remove(np.arange(0, 2500, 20))
    held = {key: bits for key, bits in held.items() if key % 20}
    for k in (1, 10, 700, 3000):
        check(index, held, queries, k, min(3, bits))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bits", [3, 64, 200])
def test_threads_insertion_order_and_groups_leave_no_trace(bits, name, monkeypatch):
    ids = as_ids([NAMES[name](i) for i in range(3000)])
    rng = np.random.default_rng(0)
    codes = Codes.from_bits(truth_values(rng, 3000, bits))
    queries = Codes.from_bits(truth_values(rng, 9, bits))
    order = rng.permutation(3000)
    straight, mixed = HammingIndex(bits), HammingIndex(bits)
    straight.add(codes, ids)
    for part in np.array_split(order, 5):
        mixed.add(codes[part], ids[part])
    results = []
    for index, threads, share, group in ((straight, 1, 1, 128), (mixed, 2, 1, 4), (mixed, 2, 1, 1)):
        monkeypatch.setattr(scan, "SHARE", share)
        monkeypatch.setattr(scan, "GROUP", group)
        with threadpool_limits(threads, user_api="blas"):
            found = [index.search(queries, k) for k in (1, 50, 2000)] + index.within(queries, 2)
        results.append([(hits.ids.tolist(), hits.distances.tolist()) for hits in found])
    assert results[0] == results[1] == results[2]


def test_default_ids_go_on_where_they_stopped():
    index, one = HammingIndex(2), Codes.from_bits([[0, 1], [1, 1]])
    index.add(one)
    index.add(one, [70, -5])
    index.remove([1])
    index.add(one)
    assert list(index) == [-5, 0, 2, 3, 70]
    assert 2 in index
    assert np.int64(70) in index
    index.add(one, [SMALLEST, LARGEST])
    assert SMALLEST in index
    assert LARGEST in index
    assert not any(value in index for value in (1, True, 2.0, "2", 2**64, None))


def test_an_epoch_without_codes_is_gone():
    index = HammingIndex(2)
    old, new = (Codes.from_bits([[0, 1]], epoch) for epoch in (0, 4))
    assert index.epochs == ()
    assert index.search(new, 3).ids.shape == (1, 0)
    assert index.search([[0.5, -1]], 3).distances.dtype == np.float64
    assert index.within(new, 1)[0].ids.shape == (0,)
    index.add(old)
    assert index.epochs == (0,)
    index.remove(0)
    index.add(new)
    assert (index.epochs, repr(index), repr(index.search(new, 3))) == (
        (4,),
        "HammingIndex(1 x 2 bits)",
        "Hits(1 x 1)",
    )


@pytest.mark.parametrize("name", NAMES)
@given(st.integers(0, 2**32), st.sampled_from([1, 9, 64, 100]))
@settings(max_examples=30)
def test_codes_of_several_epochs_are_searched_together(name, seed, bits):
    name = NAMES[name]
    rng = np.random.default_rng(seed)
    index, held = HammingIndex(bits), {}
    for _ in range(6):
        epoch, count = int(rng.integers(3)), int(rng.integers(1, 40))
        rows, ids = truth_values(rng, count, bits), rng.integers(0, 90, count)
        ids = [name(int(i)) for i in np.unique(ids)]
        old = [i for i in ids if i in held]
        new = [i for i in ids if i not in held]
        index.update(Codes.from_bits(rows[: len(old)], epoch), old)  # may move them to this epoch
        index.add(Codes.from_bits(rows[len(old) : len(ids)], epoch), new)
        held.update({i: (epoch, row) for i, row in zip([*old, *new], rows, strict=False)})
        gone = [list(held)[i] for i in rng.permutation(len(held))[:3]]
        index.remove(gone)
        for key in gone:
            del held[key]
    queries = {epoch: truth_values(rng, 2, bits) for epoch in index.epochs}
    pairs = [
        sorted(
            ((np.count_nonzero(queries[e][q] != row), key) for key, (e, row) in held.items()),
            key=lambda pair: (pair[0], number(pair[1])),
        )
        for q in range(2)
    ]
    assert index.epochs == tuple(sorted({epoch for epoch, _ in held.values()}))
    asked = {epoch: Codes.from_bits(part, epoch) for epoch, part in queries.items()}
    hits, near = index.search(asked, 20), index.within(asked, bits // 4)
    for q in range(2):
        found = list(zip(hits.distances[q].tolist(), hits.ids[q].tolist(), strict=True))
        assert found == pairs[q][:20]
        found = list(zip(near[q].distances.tolist(), near[q].ids.tolist(), strict=True))
        assert found == [pair for pair in pairs[q] if pair[0] <= bits // 4]
    for ids, codes in index.items(size=7):
        for key, row in zip(ids.tolist(), codes.unpack(), strict=True):
            epoch, bits_held = held.pop(key)
            assert (epoch, row.tolist()) == (codes.epoch, bits_held.tolist())
    assert not held


def test_a_query_must_cover_the_epochs_of_the_index():
    index = HammingIndex(2)
    old, new = (Codes.from_bits([[0, 1], [1, 1]], epoch) for epoch in (0, 3))
    index.add(old)
    index.add(new)
    values = [[0.5, -1.0], [2.0, 1.0]]
    assert index.search({0: values, 3: new}, 2).ids.shape == (2, 2)
    for queries, message in (
        (new, "also holds epoch 0.*mapping"),
        (values, "holds epochs 0, 3.*mapping"),
        ({0: old, 3: new, 4: values}, "of epoch 4.*holds epoch 0, 3"),
        ({0: new, 3: new}, "passed for epoch 0 are of epoch 3"),
    ):
        with pytest.raises(EpochError, match=message):
            index.search(queries, 1)
    with pytest.raises(InputError, match=r"the epochs got \[1, 2\] queries"):
        index.search({0: old[:1], 3: new}, 1)
    with pytest.raises(InputError, match="radius counts bits"):
        index.within({0: values, 3: new}, 1)
    with pytest.raises(EpochError, match="id 0 is of epoch 0 and the id 2 of another"):
        index.get([0, 2])
    assert index.get([3, 2]) == new[[1, 0]]


def test_real_values_cost_their_size():
    index = HammingIndex(3)
    index.add(Codes.from_bits([[0, 0, 0], [0, 1, 1], [1, 1, 1]]), [10, 20, 30])
    hits = index.search([[-0.5, -1.0, 4.0]], 3)
    assert hits.ids.tolist() == [[20, 30, 10]]
    assert hits.distances.tolist() == [[1.0, 1.5, 4.0]]
    hits = index.search([[-0.5, -1.0, 4.0]], 3, allow=[10, 30, 99])
    assert hits.ids.tolist() == [[30, 10]]


def test_small_adds_in_any_order_make_few_segments():
    index, rng = HammingIndex(8), np.random.default_rng(0)
    for key in rng.permutation(3000):
        index.add(Codes.from_bits([[0] * 8]), [key])
    assert list(index) == list(range(3000))
    assert len(index._held._epochs[0]) <= 6
    assert index.nbytes <= 20 * len(index)


def test_no_codes_and_no_ids_change_nothing():
    index, none = HammingIndex(2), Codes(np.empty((0, 1), np.uint8), 2)
    index.add(Codes.from_bits([[0, 1]]), [3])
    index.add(none)
    index.add(none, [])
    index.update(none, [])
    index.remove([])
    assert list(index) == [3]
    assert index.search(none, 2).ids.shape == (0, 1)
    assert index.within(none, 2) == []
    assert index.search(Codes.from_bits([[0, 1]]), 2, allow=[]).ids.shape == (1, 0)


@pytest.mark.parametrize(
    ("name", "size"), [(int, 20), (lambda i: f"document {i:08d}", 20 + 1.13 * (17 + 8))]
)
def test_a_64_bit_code_and_its_id_take_few_bytes_while_codes_come_and_go(name, size):
    index, rng = HammingIndex(64), np.random.default_rng(0)
    for start in range(0, 60_000, 700):
        ids = [name(i) for i in range(start, start + 700)]
        index.add(Codes(rng.integers(0, 256, (700, 8), np.uint8), 64), ids)
        index.remove(ids[:400])
        assert start < 30_000 or index.nbytes <= size * len(index)


TWO = Codes.from_bits([[0, 0, 1], [1, 1, 1]])
LATER = Codes.from_bits([[0, 0, 1], [1, 1, 1]], epoch=1)
LONGER = Codes.from_bits([[0, 0, 1, 1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.add(TWO, [5, 5]), "has 5 more than once"),
        (lambda index: index.upsert(LONGER, [1]), "4 bits"),
        (lambda index: index.upsert(TWO, [7]), "1 ids for 2 codes"),
        (lambda index: index.upsert(TWO, [0.5, 7]), "float64"),
        (lambda index: index.upsert([[0, 1, 1]], [7]), "pass streambits.Codes"),
        (lambda index: index.add(TWO, [1, 7]), "id 7 is in the index already: upsert"),
        (lambda index: index.add(TWO), "id 0 is in the index already: pass ids"),
        (lambda index: index.add(TWO, [1]), "1 ids for 2 codes"),
        (lambda index: index.add(TWO, [1.0, 2.0]), "float64.*astype"),
        (lambda index: index.add(TWO, np.array([True, False])), "bool.*astype"),
        (lambda index: index.add(TWO, [True, 2]), "truth values"),
        (lambda index: index.add(TWO, ["a", "b"]), "whole numbers"),
        (
            lambda index: index.add(TWO, np.array([1, 2**63], np.uint64)),
            "above 9223372036854775807",
        ),
        (lambda index: index.add(TWO, [1, 2**64]), "whole numbers"),
        (lambda index: index.add(TWO, [[1, 2]]), r"shape \(1, 2\)"),
        (lambda index: index.add(TWO, [[1], [2, 3]]), "cannot be read"),
        (lambda index: index.add(LONGER), "4 bits.*of 3"),
        (lambda index: index.add([[0, 0, 1]]), "codes is a list.*coder.encode"),
        (lambda index: index.remove([7, 8]), "id 8 is not in the index"),
        (lambda index: index.remove([7, 7]), "has 7 more than once"),
        (lambda index: index.remove([7.0]), "float64"),
        (lambda index: index.update(TWO, [7, 8]), "id 8 is not in the index"),
        (lambda index: index.update(TWO, [7, 7]), "has 7 more than once"),
        (lambda index: index.update(TWO, [7]), "1 ids for 2 codes"),
        (lambda index: index.update(LATER, [0, 8]), "id 8 is not in the index"),
        (lambda index: index.get([7, 8]), "id 8 is not in the index"),
        (lambda index: list(index.items(0)), "size is 0"),
        (lambda index: index.search([[1.0, 2.0]], 1), "2 columns"),
        (lambda index: index.search([[1.0, 2.0, np.nan]], 1), "NaN"),
        (lambda index: index.search(TWO, 0), "k is 0"),
        (lambda index: index.search(TWO, 1.5), "k is 1.5"),
        (lambda index: index.search(LONGER, 1), "4 bits"),
        (lambda index: index.search(LATER, 1), "epoch 1"),
        (lambda index: index.search(TWO, 1, allow=[0.5]), "allow have the type float64"),
        (lambda index: index.within(TWO, -1), "radius is -1"),
        (lambda index: index.within(LATER, 1), "epoch 1"),
        (lambda _: HammingIndex(-1), "bits is -1"),
        (lambda _: HammingIndex(4097), "bits is 4097"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(call, message):
    index = HammingIndex(3)
    index.add(TWO, [7, 0])
    with pytest.raises((InputError, EpochError), match=message):
        call(index)
    assert (list(index), index.epochs) == ([0, 7], (0,))
    assert index.search(TWO, 2).ids.tolist() == [[7, 0], [0, 7]]
    assert index.search(TWO, 2).distances.tolist() == [[0, 2], [0, 2]]
    index.remove([0, 7])
    index.add(TWO)
    assert list(index) == [0, 1]


def test_ids_by_default_end_where_numbers_do():
    index = HammingIndex(3)
    index._next = 2**63 - 1
    with pytest.raises(InputError, match="used up: pass ids of your own"):
        index.add(TWO)
    index.add(TWO[:1])
    assert list(index) == [2**63 - 1]
    with pytest.raises(InputError, match="used up"):
        index.add(TWO[:1])


TEXTS = ["here", "there"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.add(TWO, ["new", "new"]), "has 'new' more than once"),
        (lambda index: index.add(TWO, ["new", "here"]), "id 'here' is in the index already"),
        (lambda index: index.add(TWO), "ids of this index are texts, and 0 is not: pass texts"),
        (lambda index: index.add(TWO, [5, 6]), "ids of this index are texts, and 5 is not"),
        (lambda index: index.upsert(TWO, [5, 6]), "ids of this index are texts, and 5 is not"),
        (lambda index: index.update(TWO, [5, 6]), "ids of this index are texts, and 5 is not"),
        (lambda index: index.remove([5]), "ids of this index are texts, and 5 is not"),
        (lambda index: index.get([5]), "ids of this index are texts, and 5 is not"),
        (lambda index: index.has([5]), "ids of this index are texts, and 5 is not"),
        (lambda index: index.search(TWO, 1, allow=[5]), "ids of this index are texts"),
        (lambda index: index.add(TWO, ["", "new"]), "'' among texts"),
        (lambda index: index.add(TWO, ["new", 5]), "5 among texts"),
        (lambda index: index.remove(["here", "nowhere"]), "id 'nowhere' is not in the index"),
        (lambda index: index.remove(["here", "here"]), "has 'here' more than once"),
        (lambda index: index.update(TWO, ["here", "nowhere"]), "id 'nowhere' is not in the index"),
        (lambda index: index.get(["nowhere"]), "id 'nowhere' is not in the index"),
        (lambda index: index.upsert(LONGER, ["here"]), "4 bits"),
        (lambda index: index.upsert(TWO, ["here"]), "1 ids for 2 codes"),
    ],
)
def test_bad_input_to_an_index_of_texts_is_refused_and_changes_nothing(call, message):
    index = HammingIndex(3)
    index.add(TWO, TEXTS)
    with pytest.raises(InputError, match=message):
        call(index)
    assert sorted(index) == TEXTS
    assert index.get(TEXTS) == TWO


def test_an_index_has_ids_of_one_kind_until_it_is_empty():
    index = HammingIndex(3)
    assert index.has(["here"]).tolist() == index.has([3]).tolist() == [False]
    index.add(TWO, [3, 4])
    assert "3" not in index
    for call in (
        lambda: index.add(TWO, TEXTS),
        lambda: index.upsert(TWO, TEXTS),
        lambda: index.remove(TEXTS),
        lambda: index.has(TEXTS),
        lambda: index.search(TWO, 1, allow=TEXTS),
    ):
        with pytest.raises(InputError, match="are whole numbers, and 'here' is not: pass whole"):
            call()
    index.remove([3, 4])
    index.add(TWO, TEXTS)
    assert sorted(index) == TEXTS
    assert 3 not in index
    index.remove([])
    index.add(TWO[:0], [])
    for allow in ([], ["nowhere"]):
        hits = index.search(TWO, 1, allow=allow)
        assert (hits.ids.shape, hits.ids.dtype) == ((2, 0), TEXT)
    index.remove(TEXTS)
    index.add(TWO, [3, 4])
    assert list(index) == [3, 4]


def test_uuids_are_texts():
    index, own = HammingIndex(3), [UUID(int=5), UUID(int=7)]
    index.add(TWO, own)
    assert own[0] in index
    assert str(own[1]) in index
    assert not any(value in index for value in (UUID(int=6), "", "\ud800", 5, None, b"here"))
    assert index.search(TWO, 1).ids.tolist() == [[str(one)] for one in own]


def test_texts_of_one_hash_are_refused_and_never_taken_for_each_other(monkeypatch):
    """With a hash of one byte instead of eight."""
    monkeypatch.setattr(
        keys, "_hashes", lambda parts: np.array([len(part) for part in parts], np.int64)
    )
    index = HammingIndex(3)
    index.add(TWO, ["a", "bb"])
    for call in (
        lambda: index.add(TWO, ["ccc", "b"]),
        lambda: index.upsert(TWO, ["a", "cc"]),
        lambda: index.upsert(TWO, ["ccc", "ddd"]),
        lambda: index.add(TWO, ["ccc", "ddd"]),
    ):
        with pytest.raises(InputError, match="' have the same hash"):
            call()
    for call in (
        lambda: index.update(TWO, ["a", "cc"]),
        lambda: index.remove(["a", "cc"]),
        lambda: index.get(["cc"]),
    ):
        with pytest.raises(InputError, match="id 'cc' is not in the index"):
            call()
    assert index.has(["a", "b", "bb", "cc"]).tolist() == [True, False, True, False]
    assert index.search(TWO, 2, allow=["b", "bb"]).ids.tolist() == [["bb"], ["bb"]]
    assert index.get(["a", "bb"]) == TWO
    index.remove(["a"])
    index.add(TWO[:1], ["b"])
    assert list(index) == ["b", "bb"]


def test_the_text_of_an_older_snapshot_stays_while_another_takes_its_place():
    index = HammingIndex(3)
    index.add(TWO, TEXTS)
    snapshot = index.snapshot()
    numbers = snapshot.numbers(0)
    index.remove(TEXTS)
    index.add(TWO, [1, 2])
    assert sorted(snapshot.named(numbers).tolist()) == TEXTS
    assert list(index) == [1, 2]


def at_distances(distances, bits):
    """Codes that differ from the code of zeros in so many bits."""
    return np.arange(bits) < np.asarray(distances)[:, None]


@pytest.mark.parametrize("closer", [1, 2, 500, 1024])
def test_queries_that_come_closer_chunk_by_chunk_keep_apart(closer):
    """Each chunk of 1024 codes is closer than all before to one query, and farther from another."""
    distances = np.repeat([50, 40, 30, 20, 10, 0], 1024)
    distances[2 * 1024 + closer : 3 * 1024] = 60
    rows = at_distances(distances, 64)
    index = HammingIndex(64)
    index.add(Codes.from_bits(rows))
    queries = at_distances([0, 50], 64)
    hits = index.search(Codes.from_bits(queries), 1024)
    for q, expected in enumerate(brute_force(dict(enumerate(rows)), queries)):
        found = zip(hits.distances[q].tolist(), hits.ids[q].tolist(), strict=True)
        assert list(found) == expected[:1024]


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_upsert_leaves_the_last_code_of_every_id(reading, name):
    """Also of an id that comes twice in one call, or changes its epoch, or is being read."""
    rng = np.random.default_rng(0)
    index, held = HammingIndex(20), {}
    for turn in range(30):
        ids = as_ids([NAMES[name](int(i)) for i in rng.integers(0, 200, rng.integers(0, 60))])
        codes = Codes.from_bits(truth_values(rng, len(ids), 20), epoch=turn % 3)
        pages = index.items(size=1)
        before = next(pages, None) if reading else None
        index.upsert(codes, ids)
        assert before is None or len([before, *pages]) == len(held)  # what was there then
        pairs = zip(ids.tolist(), codes.packed.tolist(), strict=True)
        held.update((key, (turn % 3, code)) for key, code in pairs)
    found = {
        key: (codes.epoch, code)
        for ids, codes in index.items()
        for key, code in zip(ids.tolist(), codes.packed.tolist(), strict=True)
    }
    assert found == held
    assert len(index) == len(held)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int64, list])
def test_bits_are_not_taken_for_real_values(kind):
    index, bits = HammingIndex(3), TWO.unpack()
    index.add(TWO, [7, 0])
    queries = bits.astype(int).tolist() if kind is list else bits.astype(kind)
    for ask in (lambda q: index.search(q, 1), lambda q: index.within(q, 1)):
        for asked in (queries, {0: queries}):
            with pytest.raises(InputError, match=r"queries has the type .*Codes\.from_bits"):
                ask(asked)
    assert index.search(bits.astype(np.float32), 1).distances.dtype == np.float64
