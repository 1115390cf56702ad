"""Parquet files, Arrow files and streams, and whatever hands over its rows as a stream of Arrow."""

import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import streambits as sb
from streambits._arrays import as_rows
from streambits.errors import InputError, StorageError
from streambits.io.rows import open_source


@pytest.fixture(params=["a.parquet", "a.feather", "memory"])
def save(request, tmp_path, gather):
    """save(table, **options): what is read of it, as Parquet, as Arrow, and out of memory."""

    def into(table, **options):
        path = tmp_path / request.param
        if request.param == "a.parquet":
            parquet.write_table(table, path, row_group_size=3)
        elif request.param == "memory":
            path = table
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=3)
        return gather(open_source(path, rows=2, **options).read())

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


def test_bad_lists_of_a_fixed_size_and_none_that_is_good(save):
    lists = [one if one is None or len(one) == 2 else None for one in LISTS]
    ids, rows, rejects = save(pa.table({"v": pa.array(lists, pa.list_(pa.float32(), 2))}))
    assert (ids, rows.tolist()) == ([0, 6], [[1, 2], [6, 7]])
    assert {reject.reason for reject in rejects} == set(REASONS[1:4])
    ids, _, rejects = save(pa.table({"v": pa.array([None, [], [None]], pa.list_(pa.float32()))}))
    assert (ids, len(rejects)) == ([], 3)


def test_tensors_are_lists(save):
    values = pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.list_(pa.float32(), 4))
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [4]), values)
    assert save(pa.table({"v": tensors}))[1].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_columns_of_numbers_and_ids(save):
    table = pa.table(
        {
            "id": pa.array([5, 6, None, 7, 2**63], pa.uint64()),
            "a": pa.array([1, 2, 3, None, 4], pa.int8()),
            "b": pa.array([0.5, float("inf"), 1, 2, 3], pa.float32()),
            "text": ["x", "y", "z", "", ""],
        }
    )
    ids, rows, rejects = save(table, ids="id")
    assert (ids, rows.tolist(), rows.dtype) == ([5], [[1, 0.5]], np.float32)
    assert [reject.reason for reject in rejects] == [
        "column 'b' is inf",
        "the id is missing",
        "column 'a' is missing",
        "the id 9223372036854775808 is not a 64-bit integer",
    ]
    ids, rows, _ = save(table, columns=["b", "a"])
    assert (ids, rows.tolist()) == ([0, 2, 4], [[0.5, 1], [1, 3], [3, 4]])


def test_the_only_list_comes_before_numbers(save):
    table = pa.table({"a": [1.0], "v": [[2.0, 3.0]], "words": [["x"]]})
    assert save(table)[1].tolist() == [[2, 3]]
    assert save(table, columns=["a"])[1].tolist() == [[1]]
    two = table.append_column("w", [[[4, 5]]])
    assert save(two)[1].tolist() == [[1]]
    assert save(two, columns=["w"])[1].tolist() == [[4, 5]]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"s": ["x"], "v": [[1.0]]}, {"columns": ["c"]}, "has no column 'c'; it has s, v"),
        ({"s": ["x"]}, {"columns": ["s"]}, "column 's' is string, neither numbers nor lists"),
        (
            {"v": [[1.0]], "a": [1.0]},
            {"columns": ["v", "a"]},
            "column 'v' is list.*; several columns must be numbers",
        ),
        ({"a": [1.0]}, {"ids": "c"}, "has no column 'c'"),
        ({"a": [1.0]}, {"ids": "a"}, "the ids 'a' are double, not integers"),
        ({"s": ["x"]}, {}, r"has no columns of numbers.* it has s \(string\)"),
        ({"i": [1], "a": [1]}, {"ids": "i", "removed": "a"}, "'a' is int64, not true or false"),
    ],
)
def test_columns_that_do_not_fit(save, columns, options, message):
    with pytest.raises(InputError, match=f"(a.(parquet|feather)|the Table).*{message}"):
        save(pa.table(columns), **options)


def test_going_on_reads_no_row_group_before(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": np.arange(100.0)}), path, row_group_size=10)
    read = []
    inner = parquet.ParquetFile.iter_batches

    def watched(file, size, *, row_groups=None, **options):
        read.append(row_groups)
        return inner(file, size, row_groups=row_groups, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", watched)
    (batch,) = open_source(str(path)).read({"file": 0, "count": 85, "row": 85})
    assert batch.ids.tolist() == list(range(85, 100))
    assert read[-1] == [8, 9]
    assert list(open_source(str(path)).read({"file": 0, "count": 100, "row": 100})) == []


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
    batches = iter(open_source(str(path), columns=["v"], rows=500).read())
    assert next(batches).rows[-1].tolist() == [1996, 1997, 1998, 1999]
    os.truncate(path, 200_000)
    with pytest.raises(StorageError, match=r"a.arrow cannot be read as Arrow from row \d+ on"):
        list(batches)


def test_columns_that_are_not_wanted_are_not_kept_and_batches_are_bounded(path, monkeypatch):
    before, most = pa.total_allocated_bytes(), 0
    monkeypatch.setattr("streambits.io.rows.inputs.LARGEST_BATCH", 32 * 700)
    for batch in open_source(str(path), columns=["v"]).read():
        most = max(most, pa.total_allocated_bytes() - before)
        assert len(batch.rows) in (700, 300)
    assert most < 10 * 1000 * 90  # some batches, of 40


def frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    columns = {"id": ["a", "b", "c"], "x": [1.0, None, 3.0], "y": [4.0, 5.0, 6.0]}
    yield pa.table(columns)
    yield pa.table(columns).to_reader()
    yield pandas.DataFrame(columns)
    yield polars.DataFrame(columns)
    connection = duckdb.connect()
    yield connection.from_arrow(pa.table(columns))


def test_whatever_has_an_arrow_stream_is_a_source(gather):
    for frame in frames():
        source = open_source(frame, ids="id", keep="y", columns=["x"], rows=2)
        batches = list(source)
        ids, rows, [reject] = gather(batches)
        assert (ids, rows.tolist()) == (["a", "c"], [[1], [3]])
        assert reject.where == f"the {type(frame).__name__}, row 1"
        assert reject.reason in ("column 'x' is missing", "column 'x' is NaN")
        assert [float(kept) for batch in batches for (kept,) in batch.payload] == [4, 6]
        with pytest.raises(InputError, match=r"is rows in memory, .* from an offset"):
            list(source.read(batches[0].offset))


def test_rows_of_a_stream_are_counted_through_its_batches(gather):
    table = pa.table({"v": [[1.0, 2.0], [3.0]] * 3})
    table = pa.Table.from_batches(table.to_batches(max_chunksize=4))
    ids, _, rejects = gather(open_source(table, rows=3))
    assert ids == [0, 2, 4]
    assert [reject.where for reject in rejects] == [f"the Table, row {i}" for i in (1, 3, 5)]


def test_it_learns_from_a_frame(mixture):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(mixture(300), schema=[f"c{i}" for i in range(mixture(1).shape[1])])
    learner = sb.ssbc(mixture(50), 8)
    batches = list(sb.encode_stream(learner, open_source(frame)))
    assert [len(batch.codes) for batch in batches] == [300]
