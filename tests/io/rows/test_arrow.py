"""Parquet files, Arrow files and Arrow streams."""

import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from streambits._arrays import as_rows
from streambits.errors import InputError, StorageError
from streambits.io.rows import arrow as module
from streambits.io.rows import open_source


@pytest.fixture(params=["a.parquet", "a.feather"])
def save(request, tmp_path, gather):
    """save(table, **options): what is read of it, as Parquet and as Arrow."""

    def into(table, **options):
        path = tmp_path / request.param
        if request.param == "a.parquet":
            parquet.write_table(table, path, row_group_size=3)
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=3)
        return gather(open_source(str(path), rows=2, **options).read())

    return into


NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMBERS += ["float16", "float32", "float64"]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_every_type_have_the_precision_of_their_arrays(save, name, listed):
    values = np.array([[1, 2], [3, 4]], name)
    columns = {"v": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 2)}
    columns = columns if listed else {"a": values[:, 0], "b": values[:, 1]}
    _, rows, _ = save(pa.table(columns))
    assert rows.tolist() == values.tolist()
    assert rows.dtype == as_rows(values).dtype


LISTS = [[1.0, 2.0], [3.0], None, [4.0, None], [5.0, float("nan")], [], [6.0, 7.0]]
REASONS = [
    "expected 2 values, got 1",
    "the row is missing",
    "value 2 of 2 is missing",
    "value 2 of 2 is NaN",
    "expected 2 values, got none",
]


@pytest.mark.parametrize("dtype", [pa.list_(pa.float32()), pa.large_list(pa.float64())])
def test_bad_lists_are_put_aside(save, dtype):
    ids, rows, rejects = save(pa.table({"v": pa.array(LISTS, dtype), "x": np.arange(7)}))
    assert (ids, rows.tolist()) == ([0, 6], [[1, 2], [6, 7]])
    assert rows.dtype == dtype.value_type.to_pandas_dtype()
    assert [reject.reason for reject in rejects] == REASONS
    assert [reject.where.split(", ")[-1] for reject in rejects] == [f"row {i}" for i in range(1, 6)]
    assert rejects[0].text == "[[3.0]]"


def test_bad_lists_of_a_fixed_size(save):
    lists = [one if one is None or len(one) == 2 else None for one in LISTS]
    ids, rows, rejects = save(pa.table({"v": pa.array(lists, pa.list_(pa.float32(), 2))}))
    assert (ids, rows.tolist()) == ([0, 6], [[1, 2], [6, 7]])
    assert {reject.reason for reject in rejects} == set(REASONS[1:4])


def test_tensors_are_lists(save):
    values = pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.list_(pa.float32(), 4))
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [4]), values)
    assert save(pa.table({"v": tensors}))[1].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_columns_of_numbers(save):
    table = pa.table(
        {
            "id": pa.array([5, -6, None, 7], pa.int32()),
            "a": pa.array([1, 2, 3, None], pa.int8()),
            "b": pa.array([0.5, float("inf"), 1, 2], pa.float32()),
            "text": ["x", "y", "z", ""],
            "flag": [True, True, False, False],
        }
    )
    ids, rows, rejects = save(table, ids="id")
    assert (ids, rows.tolist(), rows.dtype) == ([5], [[1, 0.5]], np.float32)
    assert [reject.reason for reject in rejects] == [
        "column 'b' is inf",
        "the id is missing",
        "column 'a' is missing",
    ]
    ids, rows, _ = save(table, columns=["b", "id"])
    assert (ids, rows.tolist(), rows.dtype) == ([0, 3], [[0.5, 5], [2, 7]], np.float64)


def test_ids_above_64_bits_with_a_sign(save):
    table = pa.table({"i": pa.array([1, 2**63], pa.uint64()), "a": [1.0, 2.0]})
    ids, _, (reject,) = save(table, ids="i")
    assert (ids, reject.reason) == (
        [1],
        "the id 9223372036854775808 is not a 64-bit integer",
    )


def test_the_only_list_comes_before_numbers(save):
    table = pa.table({"a": [1.0], "v": [[2.0, 3.0]], "words": [["x"]]})
    assert save(table)[1].tolist() == [[2, 3]]
    assert save(table, columns=["a"])[1].tolist() == [[1]]
    two = table.append_column("w", [[[4, 5]]])
    assert save(two)[1].tolist() == [[1]]
    assert save(two, columns=["w"])[1].tolist() == [[4, 5]]


@pytest.mark.parametrize(
    ("columns", "ids", "message"),
    [
        (["c"], None, "has no column 'c'; it has s, v, a"),
        (["s"], None, "column 's' is string, neither numbers nor lists"),
        (["v", "a"], None, "column 'v' is list.*; several columns must be numbers"),
        (None, "c", "has no column 'c'"),
        (None, "a", "the ids 'a' are double, not integers"),
    ],
)
def test_columns_that_do_not_fit(save, columns, ids, message):
    with pytest.raises(InputError, match=f"a.(parquet|feather).*{message}"):
        save(pa.table({"s": ["x"], "v": [[1.0]], "a": [1.0]}), columns=columns, ids=ids)


def test_nothing_to_take(save):
    with pytest.raises(InputError, match=r"has no columns of numbers.* it has s \(string\)"):
        save(pa.table({"s": ["x"]}))
    twice = pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    with pytest.raises(InputError, match="has 2 columns 'a'"):
        save(twice)


def test_lists_none_of_which_is_good(save):
    ids, _, rejects = save(pa.table({"v": pa.array([None, [], [None]], pa.list_(pa.float32()))}))
    assert (ids, [reject.reason for reject in rejects]) == (
        [],
        ["the row is missing", "expected values, got none", "value 1 of 1 is missing"],
    )


def test_going_on_reads_no_row_group_before(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": np.arange(100.0)}), path, row_group_size=10)
    read = []
    inner = module._row_groups

    def watched(file, names, row, most, end):
        groups = []
        file = Watched(file, groups)
        read.append(groups)
        return inner(file, names, row, most, end)

    monkeypatch.setattr(module, "_row_groups", watched)
    (chunk,) = open_source(str(path)).read({"file": 0, "count": 85, "row": 85})
    assert chunk.ids.tolist() == list(range(85, 100))
    assert read == [[8, 9]]
    assert list(open_source(str(path)).read({"file": 0, "count": 100, "row": 100})) == []


class Watched:
    def __init__(self, file, groups):
        self.file, self.groups, self.metadata = file, groups, file.metadata

    def iter_batches(self, size, *, row_groups, **options):
        self.groups += row_groups
        return self.file.iter_batches(size, row_groups=row_groups, **options)


def test_another_file_without_the_column(tmp_path):
    parquet.write_table(pa.table({"a": [1.0], "b": [1.0]}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"a": [1.0], "c": [1.0]}), tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"2.parquet has no column 'b'"):
        list(open_source(str(tmp_path)).read())
    with pytest.raises(InputError, match=r"2.parquet has no column 'b'"):
        list(open_source(str(tmp_path), columns=["b"]).read())


@pytest.fixture(params=[pa.ipc.new_file, pa.ipc.new_stream])
def path(request, tmp_path):
    """40 batches of 1000 rows, in a file or a stream; the column `text` is not wanted."""
    rows = np.arange(160_000.0).reshape(40_000, 4)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 4)
    table = pa.table({"text": ["x" * 50] * 40_000, "v": lists})
    with request.param(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    return tmp_path / "a.arrow"


def test_a_file_that_is_cut_off_while_it_is_read_is_an_error(path):
    """One that is mapped would end the process by SIGBUS."""
    chunks = iter(open_source(str(path), columns=["v"], rows=500).read())
    assert next(chunks).rows[-1].tolist() == [1996, 1997, 1998, 1999]
    os.truncate(path, 200_000)
    with pytest.raises(StorageError, match=r"a.arrow cannot be read as Arrow from row \d+ on"):
        list(chunks)


def test_columns_that_are_not_wanted_are_not_kept(path):
    before = pa.total_allocated_bytes()
    most, count = 0, 0
    for chunk in open_source(str(path), columns=["v"]).read():
        most = max(most, pa.total_allocated_bytes() - before)
        count += len(chunk.rows)
    assert count == 40_000
    assert most < 10 * 1000 * 90  # some batches, of 40


def test_chunks_are_bounded_by_bytes(path, monkeypatch):
    monkeypatch.setattr("streambits.io.rows.inputs.LARGEST_BATCH", 32 * 70)
    chunks = list(open_source(str(path)).read())
    assert {len(chunk.rows) for chunk in chunks} == {70, 20}
