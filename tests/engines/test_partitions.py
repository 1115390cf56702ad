"""Partitions: the same rows, ids and samples, whoever reads them and however they are cut."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from streambits.engines.partitions import ArrayPartition, partition_files, sample_partition
from streambits.errors import InputError, StorageError
from streambits.storage import from_bytes, to_bytes


def table(path, rows, columns=range(8)):
    parquet.write_table(pa.table({f"x{i}": rows[:, i] for i in columns}), path)


def test_files_are_in_the_order_of_one_reader_and_their_paths_are_absolute(tmp_path, mixture):
    for name in ("b.npy", "a.npy", "c.npy"):
        np.save(tmp_path / name, mixture(10))
    found = partition_files(str(tmp_path / "*.npy"))
    assert [one.path for one in found] == [str(tmp_path / n) for n in ("a.npy", "b.npy", "c.npy")]
    assert [one.number for one in found] == [0, 1, 2]


def test_columns_are_those_of_the_first_file(tmp_path, mixture):
    rows = mixture(40)
    table(tmp_path / "a.parquet", rows)
    table(tmp_path / "b.parquet", rows, columns=range(7, -1, -1))
    for one in partition_files(tmp_path):
        np.testing.assert_array_equal(np.concatenate([b.rows for b in one.batches()]), rows)


def test_what_cannot_be_partitioned_is_refused(tmp_path):
    for source in ("-", "nats://host/stream"):
        with pytest.raises(InputError, match="cannot be partitioned"):
            partition_files(source)
    with pytest.raises(InputError, match="empty"):
        partition_files([])
    with pytest.raises(StorageError, match="no file matches"):
        partition_files(str(tmp_path / "*.npy"))
    (tmp_path / "a.dat").write_bytes(b"")
    with pytest.raises(InputError, match=r"format of .*a.dat"):
        partition_files(tmp_path / "a.dat")


def test_what_is_wrong_in_a_partition_names_it_and_the_place(tmp_path, mixture):
    np.save(tmp_path / "a.npy", mixture(20))
    bad = mixture(20)
    bad[13, 2] = np.nan
    np.save(tmp_path / "b.npy", bad)
    (tmp_path / "c.npy").write_bytes(b"rubbish")
    lines = '{"id": 1, "v": [1.0, 2.0]}\n{"id": 1, "v": null}\n'
    (tmp_path / "d.jsonl").write_text(lines)
    _, one, two, _ = partition_files(tmp_path)
    with pytest.raises(InputError, match=r"partition 1 \(.*b.npy\): .*b.npy, row 13"):
        sample_partition(one, 5)
    with pytest.raises(StorageError, match=r"partition 2 \(.*c.npy\)"):
        sample_partition(two, 5)
    (removing,) = partition_files(tmp_path / "d.jsonl", ids="id")
    with pytest.raises(InputError, match=r"partition 0 .*d.jsonl.* removes ids"):
        sample_partition(removing, 5)


def test_rows_are_counted_where_the_file_does_not_say_how_many(tmp_path, mixture):
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},{i + 1}\n" for i in range(50)))
    np.save(tmp_path / "b.npy", mixture(30))
    counts = [partition_files(tmp_path / name)[0].count() for name in ("a.csv", "b.npy")]
    assert counts == [50, 30]


def merged(samples):
    whole = from_bytes(samples[0])
    for one in samples[1:]:
        whole.merge(from_bytes(one))
    return whole.rows


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=8).filter(any),
    size=st.integers(1, 400),
    seed=st.integers(0, 2**33),
    order=st.randoms(use_true_random=False),
)
def test_the_sample_is_the_same_for_any_order(arrays, sizes, size, seed, order):
    total = sum(sizes)
    rows = np.arange(2.0 * total).reshape(total, 2)
    parts = arrays(rows, np.cumsum(sizes)[:-1])
    samples = [to_bytes(sample_partition(one, size, seed)) for one in parts]
    found = merged(samples)
    order.shuffle(samples)
    np.testing.assert_array_equal(merged(samples), found)
    drawn = found[:, 0] // 2
    assert len(drawn) == min(size, total) == len(set(drawn.tolist()))


def test_the_sample_has_partitions_by_their_sizes():
    blocks = [np.full((count, 1), float(number)) for number, count in enumerate((9000, 900, 100))]
    counts = np.zeros(3)
    for seed in range(20):
        parts = (ArrayPartition(number, rows) for number, rows in enumerate(blocks))
        found = merged([to_bytes(sample_partition(one, 500, seed)) for one in parts])
        counts += np.bincount(found[:, 0].astype(int), minlength=3)
    np.testing.assert_allclose(counts / 10_000, [0.9, 0.09, 0.01], atol=0.012)


def test_two_partitions_of_equal_rows_draw_different_positions():
    rows = np.arange(1000.0)[:, None]
    first, second = (sample_partition(ArrayPartition(n, rows), 50).rows[:, 0] for n in (0, 1))
    assert len(set(first) & set(second)) < 10


def test_partitions_of_other_widths_are_both_named_and_there_may_be_no_row(arrays):
    first, second = (sample_partition(ArrayPartition(n, np.ones((9, 3 + n))), 5) for n in (0, 1))
    with pytest.raises(InputError, match=r"partition 1 .* has rows of 4 .*partition 0 .* 3"):
        first.merge(second)
    with pytest.raises(InputError, match="no partition has a row"):
        _ = sample_partition(ArrayPartition(0, np.empty((0, 3))), 5).rows


def test_an_array_needs_two_dimensions_and_a_frame_its_columns():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="block 0 of the array has 1 dimensions"):
        sample_partition(ArrayPartition(0, np.arange(5.0)), 5)
    frame = pandas.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0], "id": ["a", "b"]})
    (batch,) = ArrayPartition(0, frame, ids="id").batches()
    assert batch.ids.tolist() == ["a", "b"]
    np.testing.assert_array_equal(batch.rows, [[1, 3], [2, 4]])
    with pytest.raises(InputError, match="no column 'z'"):
        sample_partition(ArrayPartition(0, frame, columns=("z",)), 5)
