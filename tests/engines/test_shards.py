"""Shards: merged in one order, counted once, encoded and searched as one index would be."""

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from streambits._arrays import as_ids
from streambits.engines.partitions import ArrayPartition, partition_files
from streambits.engines.shards import (
    MergeTree,
    encode_partition,
    finished,
    learn_partition,
    merge_hits,
    merge_order,
    part_file,
    search_shard,
)
from streambits.errors import InputError, MergeError, StorageError
from streambits.io.codes import open_sink
from streambits.io.codes.parquet import part_facts, read_codes
from streambits.storage import from_bytes, to_bytes


class Order:
    """Remembers how it was merged."""

    def __init__(self, number):
        self.tree = number

    def merge(self, other):
        self.tree = (self.tree, other.tree)
        return self


def tree_of(count):
    """The tree by its definition: neighbours are paired, level after level."""
    level = list(range(count))
    while len(level) > 1:
        pairs = [(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]


@given(order=st.integers(1, 70).flatmap(lambda n: st.permutations(range(n))))
def test_any_order_of_arrival_gives_one_tree(order):
    tree = MergeTree(len(order))
    for number in order:
        assert tree.add(number, Order(number))
        assert not tree.add(number, Order(number))
    assert tree.missing == []
    assert tree.result().tree == tree_of(len(order))


@given(count=st.integers(1, 200))
def test_merges_in_order_need_few_shards_at_a_time(count):
    held, most, merges = set(), 0, list(merge_order(count))
    assert len(merges) == count - 1
    waiting = iter(range(count))
    for left, right, _ in merges:
        while right not in held:
            held.add(next(waiting))
        assert left in held
        most = max(most, len(held))
        held.remove(right)
    assert held <= {0}
    assert most <= count.bit_length() + 1


def test_a_tree_says_what_is_missing():
    tree = MergeTree(3)
    tree.add(1, Order(1))
    with pytest.raises(MergeError, match="missing: 0, 2"):
        tree.result()
    with pytest.raises(MergeError, match="partition 3 is not one of 3"):
        tree.add(3, Order(3))


@pytest.fixture(scope="module")
def shards(mixture, arrays):
    """A learner, and the bytes of its shards of 5 partitions of different sizes."""
    rows = mixture(9000)
    learner = sb.ssbc(rows[:40], 8, epochs="never")
    parts = arrays(rows, [10, 3000, 3000, 8500])
    return learner, rows, [to_bytes(learn_partition(learner, one)) for one in parts]


def merged(shards, order):
    tree = MergeTree(len(shards))
    for number in order:
        tree.add(number, from_bytes(shards[number]))
    return tree.result()


@given(order=st.lists(st.integers(0, 4), max_size=12), end=st.permutations(range(5)))
def test_shards_give_the_same_bits_in_any_order_and_with_repetitions(shards, order, end):
    _, rows, parts = shards
    found = merged(parts, [*order, *end])
    assert to_bytes(found) == to_bytes(merged(parts, range(5)))
    assert found.learner.seen == len(rows)
    assert [one.rows for one in found.reports.values()] == [10, 2990, 0, 5500, 500]


def test_a_gram_sketch_equals_that_of_one_pass(shards):
    learner, rows, parts = shards
    whole = finished(learner, merged(parts, range(5)))
    alone = learner.fresh().learn(rows)
    mine, theirs = whole.sketch, alone.sketch
    assert mine.seen == theirs.seen == len(rows)
    np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-7)  # single precision
    for name, value in mine.state().items():
        if hasattr(value, "shape"):
            np.testing.assert_allclose(value, theirs.state()[name], rtol=1e-5, atol=1e-6)
    assert learner.seen == 0


def test_shards_of_equal_rows_draw_different_positions_and_are_no_copies(mixture):
    rows = mixture(12_000)
    learner = sb.ssbc(rows[:40], 8)
    first, second = (learn_partition(learner, ArrayPartition(n, rows)) for n in (0, 1))
    drawn = [{row.tobytes() for row in shard.learner.sample} for shard in (first, second)]
    assert len(drawn[0] & drawn[1]) < 0.55 * len(drawn[0])  # 5,000 of 12,000: 0.42 by chance
    assert first.merge(second).learner.seen == 24_000


def test_a_shard_that_is_learned_again_is_the_same(mixture):
    learner = sb.ssbc(mixture(40), 8, refine=2)
    parts = [ArrayPartition(7, mixture(5000)), ArrayPartition(7, mixture(5000))]
    first, second = (to_bytes(learn_partition(learner, one)) for one in parts)
    assert first == second
    other = to_bytes(learn_partition(learner, ArrayPartition(8, mixture(5000))))
    assert other != first


def test_a_shard_counts_once(shards):
    _, _, parts = shards
    one, two, three = (from_bytes(parts[n]) for n in (0, 1, 3))
    both = one.merge(two)
    assert both.merge(from_bytes(parts[1])) is both
    assert both.learner.seen == 3000
    with pytest.raises(MergeError, match="partition 1 is in both shards, and partition 3 in one"):
        both.merge(from_bytes(parts[1]).merge(three))
    assert both.parts == {0, 1}


@pytest.mark.filterwarnings("ignore:2,048")  # of the learner, block by block
def test_no_shard_begins_an_epoch_and_the_coordinator_gets_the_evidence(mixture):
    rows = mixture(4000)
    learner = sb.ssbc(rows[:100], 8, epochs="auto")
    far = rows + 1000
    shard = learn_partition(learner, ArrayPartition(0, far))
    assert (shard.learner.epoch, shard.learner.epochs) == (0, "never")
    assert shard.reports[0].out_of_reach == 1.0
    near = learn_partition(learner, ArrayPartition(1, rows))
    assert near.reports[1].out_of_reach == 0.0
    with pytest.warns(sb.errors.ReachWarning, match="4,000 of 8,000 rows learned"):
        whole = finished(learner, near.merge(shard))
    assert (whole.epoch, whole.epochs, whole.seen) == (0, "auto", 8000)


def test_rows_of_another_width_name_the_partition(mixture):
    learner = sb.ssbc(mixture(40), 8)
    with pytest.raises(InputError, match=r"partition 2 .*rows have 5 numbers.* rows of 8"):
        learn_partition(learner, ArrayPartition(2, np.ones((10, 5))))


@pytest.mark.parametrize("method", ["linear", "product"])
def test_every_kind_of_sketch_is_learned_by_partitions(mixture, arrays, learn_here, method):
    settings = sb.Settings(bits=8, method=method, n_landmarks=50)
    parts = arrays(mixture(5000), [1, 2000, 4999])
    first, second = (to_bytes(learn_here(parts, settings)) for _ in range(2))
    assert first == second
    assert from_bytes(first).seen == 5000


# Codes


@pytest.fixture(scope="module")
def coder(mixture):
    return sb.ssbc(mixture(60), 20, refine=4, epochs="never").learn(mixture(3000)).coder()


def test_a_part_is_kept_as_long_as_its_footer_names_coder_and_source(coder, mixture, tmp_path):
    rows = mixture(3000)
    np.save(tmp_path / "a.npy", rows)
    (one,) = partition_files(tmp_path / "a.npy")
    file = part_file(tmp_path, 0)
    assert encode_partition(coder, one, tmp_path, "coder 1") == (0, one.name, 3000, False)
    first = file.read_bytes()
    (codes,) = read_codes(file)
    assert (codes.codes.packed == coder.encode(rows).packed).all()
    assert encode_partition(coder, one, tmp_path, "coder 1") == (0, one.name, 3000, True)
    assert not encode_partition(coder, one, tmp_path, "coder 2").kept
    os.utime(tmp_path / "a.npy", (1, 1))
    assert not encode_partition(coder, one, tmp_path, "coder 2").kept
    assert not encode_partition(coder, replace(one, first=7), tmp_path, "coder 2").kept
    file.write_bytes(first[:-9])
    assert not encode_partition(coder, one, tmp_path, "coder 1").kept
    assert read_codes(file).__next__().ids.tolist() == list(range(3000))


def test_a_folder_that_a_worker_does_not_see_is_named(coder, mixture, tmp_path):
    with pytest.raises(StorageError, match=r"partition 0 .* on a disk that all workers"):
        encode_partition(coder, ArrayPartition(0, mixture(10)), tmp_path / "elsewhere")


@given(
    cuts=st.lists(st.integers(0, 400), max_size=6).map(sorted),
    k=st.integers(1, 30),
    kind=st.sampled_from(["codes", "values", "decoded", "texts"]),
    order=st.randoms(use_true_random=False),
)
def test_shards_answer_as_one_index(coder, mixture, *, cuts, k, kind, order):
    codes, asked = coder.encode(mixture(400)), mixture(5, seed=9)
    queries = {"values": coder.project, "decoded": coder.queries}.get(kind, coder.encode)(asked)
    more = {"candidates": "all"} if kind == "decoded" else {}
    if kind == "texts":
        codes = codes[np.arange(400) // 40]  # many of equal distance
    names = np.array([f"text {i}" for i in range(400)]) if kind == "texts" else np.arange(400)
    names, whole = as_ids(names), sb.HammingIndex(20)
    whole.add(codes, names)
    found = []
    for some in np.split(np.arange(400), cuts):
        shard = sb.HammingIndex(20)
        if len(some):
            shard.add(codes[some], names[some])
            found.append(shard.search(queries, k, **more))
    order.shuffle(found)
    wanted, merged = whole.search(queries, k, **more), merge_hits(found, k)
    assert merged.ids.tolist() == wanted.ids.tolist()
    np.testing.assert_array_equal(merged.distances, wanted.distances)


def test_an_id_in_two_shards_no_shards_and_marks_of_removals_are_refused(coder, mixture, tmp_path):
    codes = coder.encode(mixture(100))
    index = sb.HammingIndex(20)
    index.add(codes)
    hits = index.search(codes[:1], 10)
    with pytest.raises(InputError, match="the id 0 is in two shards"):
        merge_hits([hits, hits], 10)
    with pytest.raises(InputError, match="no shards"):
        merge_hits([], 10)
    sink = open_sink(str(tmp_path / "codes"), bits=20, refine=4)
    sink.write(np.arange(100), codes)
    sink.commit()
    sink.remove(np.array([7]))
    sink.commit()
    parts = (tmp_path / "codes").glob("*.parquet")
    marked = [path for path in parts if part_facts(path).tombstones]
    with pytest.raises(StorageError, match="has tombstones"):
        search_shard(marked[0], codes[:2], 3)
