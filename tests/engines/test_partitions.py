"""Partitions: the same rows, ids and samples, whoever reads them and however they are cut."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from streambits.engines.partitions import (
    ArrayPartition,
    FilePartition,
    Survey,
    numbered,
    partition_files,
    survey,
)
from streambits.engines.run import array_partitions
from streambits.errors import InputError, MergeError, StorageError
from streambits.storage import from_bytes, to_bytes


def rows_of(partitions):
    batches = [batch for one in partitions for batch in one.batches()]
    return (
        np.concatenate([batch.ids for batch in batches]),
        np.concatenate([batch.rows for batch in batches]),
    )


def table(path, rows, ids=None, **options):
    columns = {f"x{i}": rows[:, i] for i in range(rows.shape[1])}
    columns |= {} if ids is None else {"id": ids}
    parquet.write_table(pa.table(columns), path, **options)


@pytest.mark.parametrize("each", [1, 2, 3, 100])
@pytest.mark.parametrize("ids", [None, "id"])
def test_row_groups_are_partitions_with_all_rows_once(tmp_path, mixture, each, ids):
    rows = mixture(1000)
    numbers = 7 * np.arange(1000)
    table(tmp_path / "a.parquet", rows[:600], numbers[:600] if ids else None, row_group_size=130)
    table(tmp_path / "b.parquet", rows[600:], numbers[600:] if ids else None, row_group_size=130)
    found = partition_files(tmp_path, ids=ids, groups=each)
    counts = [-(-5 // each), -(-4 // each)]
    assert [one.number for one in found] == list(range(sum(counts)))
    found = numbered(found, [one.facts().rows for one in found])
    names, read = rows_of(found)
    np.testing.assert_array_equal(read, rows)
    np.testing.assert_array_equal(names, numbers if ids else np.arange(1000))


def test_files_are_in_the_order_of_one_reader_and_their_paths_are_absolute(tmp_path, mixture):
    for name in ("b.npy", "a.npy", "c.npy"):
        np.save(tmp_path / name, mixture(10))
    found = partition_files(str(tmp_path / "*.npy"))
    assert [one.path for one in found] == [str(tmp_path / n) for n in ("a.npy", "b.npy", "c.npy")]
    assert found[1].name == str(tmp_path / "b.npy")


def test_columns_are_those_of_the_first_file(tmp_path, mixture):
    rows = mixture(40)
    table(tmp_path / "a.parquet", rows)
    columns = {f"x{i}": rows[:, i] for i in reversed(range(8))}
    parquet.write_table(pa.table(columns), tmp_path / "b.parquet")
    for one in partition_files(tmp_path):
        np.testing.assert_array_equal(rows_of([one])[1], rows)


@pytest.mark.parametrize("source", ["-", "nats://host/stream"])
def test_what_one_reader_reads_is_refused(source):
    with pytest.raises(InputError, match="cannot be partitioned"):
        partition_files(source)


def test_no_files_and_no_format_are_refused(tmp_path):
    with pytest.raises(InputError, match="empty"):
        partition_files([])
    with pytest.raises(StorageError, match="no file matches"):
        partition_files(str(tmp_path / "*.npy"))
    (tmp_path / "a.dat").write_bytes(b"")
    with pytest.raises(InputError, match=r"format of .*a.dat"):
        partition_files(tmp_path / "a.dat")


def test_a_removal_is_refused(tmp_path):
    lines = '{"id": 1, "v": [1.0, 2.0]}\n{"id": 1, "v": null}\n'
    (tmp_path / "a.jsonl").write_text(lines)
    (one,) = partition_files(tmp_path / "a.jsonl", ids="id")
    with pytest.raises(InputError, match=r"partition 0 .*a.jsonl.* removes ids"):
        survey(one, 5)


def test_a_bad_row_names_partition_and_place(tmp_path, mixture):
    rows = mixture(20)
    np.save(tmp_path / "a.npy", rows)
    rows[13, 2] = np.nan
    np.save(tmp_path / "b.npy", rows)
    _, bad = partition_files(tmp_path)
    with pytest.raises(InputError, match=r"partition 1 \(.*b.npy\): .*b.npy, row 13"):
        survey(bad, 5)


@pytest.mark.parametrize("damage", ["gone", "cut", "rubbish"])
def test_an_unreadable_partition_is_named(tmp_path, mixture, damage):
    np.save(tmp_path / "a.npy", mixture(20))
    np.save(tmp_path / "b.npy", mixture(20))
    _, bad = partition_files(tmp_path)
    path = tmp_path / "b.npy"
    whole = path.read_bytes()
    path.unlink() if damage == "gone" else path.write_bytes(
        whole[:300] if damage == "cut" else b"rubbish"
    )
    with pytest.raises(StorageError, match=r"partition 1 \(.*b.npy\)"):
        survey(bad, 5)


def test_counting_reads_only_what_does_not_say_it(tmp_path, mixture):
    lines = "\n".join(["x,y", *(f"{i},{i + 1}" for i in range(50))])
    (tmp_path / "a.csv").write_text(lines)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(lines.encode()))
    found = partition_files(tmp_path)
    assert [one.facts().rows for one in found] == [None, None]
    whole = survey(found[0]).merge(survey(found[1]))
    assert (whole.counts, whole.width, whole.sample) == ({0: 50, 1: 50}, 2, None)
    np.save(tmp_path / "c.npy", mixture(30))
    head = survey(FilePartition(0, str(tmp_path / "c.npy")))
    assert (head.counts, head.width) == ({0: 30}, 8)


def test_partitions_of_other_widths_are_both_named(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((10, 3)))
    np.save(tmp_path / "b.npy", np.ones((10, 4)))
    first, second = map(survey, partition_files(tmp_path))
    with pytest.raises(InputError, match=r"partition 1 .*b.npy\) has rows of 4 .*partition 0 .* 3"):
        first.merge(second)


def test_ids_of_two_kinds_are_refused(tmp_path, mixture):
    table(tmp_path / "a.parquet", mixture(10), np.arange(10))
    table(tmp_path / "b.parquet", mixture(10), [f"t{i}" for i in range(10)])
    first, second = map(survey, partition_files(tmp_path, ids="id"))
    with pytest.raises(InputError, match=r"texts, and partition 0 .* whole numbers"):
        first.merge(second)


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=8).filter(any),
    size=st.integers(1, 400),
    seed=st.integers(0, 2**33),
    order=st.randoms(use_true_random=False),
)
def test_the_sample_is_the_same_for_any_order_and_repetition(sizes, size, seed, order):
    total = sum(sizes)
    rows = np.arange(2.0 * total).reshape(total, 2)
    blocks = np.split(rows, np.cumsum(sizes)[:-1])
    parts = array_partitions(blocks)
    found = [to_bytes(survey(one, size, seed)) for one in parts]
    whole = from_bytes(found[0])
    for one in found[1:]:
        whole.merge(from_bytes(one))
    shuffled = [*found, *found]
    order.shuffle(shuffled)
    other = from_bytes(shuffled[0])
    for one in shuffled[1:]:
        other.merge(from_bytes(one))
    assert other.counts == whole.counts == dict(enumerate(sizes))
    np.testing.assert_array_equal(other.rows(), whole.rows())
    drawn = whole.rows()[:, 0] // 2
    assert len(drawn) == min(size, total) == len(set(drawn.tolist()))


def test_the_sample_has_partitions_by_their_sizes():
    blocks = [np.full((count, 1), float(number)) for number, count in enumerate((9000, 900, 100))]
    counts = np.zeros(3)
    for seed in range(20):
        first, *others = (survey(one, 500, seed) for one in array_partitions(blocks))
        for other in others:
            first.merge(other)
        counts += np.bincount(first.rows()[:, 0].astype(int), minlength=3)
    np.testing.assert_allclose(counts / 10_000, [0.9, 0.09, 0.01], atol=0.012)


def test_two_partitions_of_equal_rows_draw_different_positions():
    rows = np.arange(1000.0)[:, None]
    first, second = (survey(ArrayPartition(n, rows), 50).rows()[:, 0] for n in (0, 1))
    assert len(set(first) & set(second)) < 10


def test_surveys_that_overlap_are_refused(mixture):
    one, two, three = array_partitions(np.split(mixture(30), 3))
    both = survey(one).merge(survey(two))
    with pytest.raises(MergeError, match="partition 1 is there already, and partition 2 is not"):
        both.merge(survey(two).merge(survey(three)))


def test_there_may_be_no_row_at_all():
    (one,) = array_partitions([np.empty((0, 3))])
    with pytest.raises(InputError, match="no partition has a row"):
        survey(one, 5).rows()


def test_an_array_needs_two_dimensions_and_a_frame_its_columns():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="block 0 of the array has 1 dimensions"):
        survey(ArrayPartition(0, np.arange(5.0)))
    frame = pandas.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0], "id": ["a", "b"]})
    (batch,) = ArrayPartition(0, frame, ids="id").batches()
    assert batch.ids.tolist() == ["a", "b"]
    np.testing.assert_array_equal(batch.rows, [[1, 3], [2, 4]])
    with pytest.raises(InputError, match="no column 'z'"):
        survey(ArrayPartition(0, frame, columns=("z",)))


def test_a_fingerprint_tells_other_content_and_not_a_copy(tmp_path, mixture):
    np.save(tmp_path / "a.npy", mixture(20))
    (one,) = partition_files(tmp_path)
    before = one.fingerprint()
    np.save(tmp_path / "a.npy", mixture(20))
    assert one.fingerprint() == before
    np.save(tmp_path / "a.npy", mixture(20, seed=1))
    assert one.fingerprint() != before
    first, second = (ArrayPartition(0, mixture(9, seed=n)).fingerprint() for n in (0, 1))
    assert first != second


def test_a_survey_comes_back_from_its_bytes(mixture):
    found = survey(ArrayPartition(3, mixture(100)), 20)
    again = from_bytes(to_bytes(found))
    assert isinstance(again, Survey)
    assert (again.counts, again.width, again.by) == ({3: 100}, 8, found.by)
    np.testing.assert_array_equal(again.rows(), found.rows())
