"""Files, folders and globs: which are read, in which order, by which columns, from which offset."""

import gzip
import json
import os
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from streambits.errors import InputError, StorageError
from streambits.io.rows import open_source


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Some files in the working folder, each with one number, which is its place in the order."""
    monkeypatch.chdir(tmp_path)
    os.makedirs("in/b.parquet")
    os.makedirs("in/_temporary")
    for number, name in enumerate(["in/a.csv", "in/b.parquet/part.csv", "in/c.CSV", "in/d.npy"]):
        if name.endswith(".npy"):
            np.save(name, np.full((1, 1), number))
        else:
            (tmp_path / name).write_text(f"{number}\n")
    for name in ("in/_SUCCESS", "in/.hidden.csv", "in/_temporary/x.csv", "in/readme.txt"):
        (tmp_path / name).write_text("9\n")
    return tmp_path


def values(paths, **options):
    return [int(v) for batch in open_source(paths, **options).read() for v in batch.rows.ravel()]


def test_files_folders_and_globs_in_order(folder):
    assert values("in") == [0, 1, 2, 3]
    assert values("in/*.csv") == [0]
    assert values("in/**/*.csv", format="csv") == [9, 0, 1]
    assert values(["in/d.npy", "in/b.*", "in/a.csv"]) == [3, 1, 0]
    assert values("in/readme.txt", format="csv") == [9]
    (folder / "in" / "[x].csv").write_text("7\n")
    assert values("in/[x].csv") == [7]
    assert values(f"file://{folder}/in") == [7, 0, 1, 2, 3]


def test_what_is_behind_urls(folder):
    """By a file system of fsspec, which pyarrow does not know."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put("in", "/bucket/in", recursive=True)
    parquet.write_table(pa.table({"v": [[5.0], [6.0]]}), "a.parquet")
    memory.put("a.parquet", "/bucket/in/e.parquet")
    memory.pipe("/bucket/in/f.csv.gz", gzip.compress(b"7\n8\n"))
    assert values("memory://bucket/in") == [0, 1, 2, 3, 5, 6, 7, 8]
    assert values("memory://bucket/in/*.csv", format="csv") == [9, 0]
    assert values(["memory://bucket/in/e.parquet", "in/a.csv"]) == [5, 6, 0]
    source = open_source("memory://bucket/in", rows=1)
    assert source.name == "memory://bucket/in/a.csv and 5 more"
    assert source.identity()["files"] == [["memory://bucket/in"]]
    batches = list(source.read())
    for place, batch in enumerate(batches):
        fresh = open_source("memory://bucket/in", rows=1)
        assert fresh.changes(source.evidence(batch.offset)) == []
        rest = [rest.rows.tolist() for rest in fresh.read(batch.offset)]
        assert rest == [later.rows.tolist() for later in batches[place + 1 :]]
    memory.pipe("/bucket/in/a.csv", b"5\n")
    [words] = open_source("memory://bucket/in").changes(source.evidence(batches[-1].offset))
    assert words.startswith("memory://bucket/in/a.csv: its first 64 KiB differ")
    (folder / "in" / "a.csv").write_text("x\n")
    memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://nowhere/a.csv", "memory://nowhere/a.csv cannot be read: it does not exist"),
        ("memory://nowhere/*.csv", r"memory://nowhere/\*.csv cannot be read: no file matches it"),
        ("pulsar://me:hunter2@host/x", "pulsar://host is not a source: no package knows pulsar"),
        ("s3://key:hun/ter2@bucket/x.csv", "s3://... is not a URL: write / and @ as %2F"),
    ],
)
def test_urls_that_cannot_be_read_and_no_secrets(url, message):
    with pytest.raises((InputError, StorageError), match=message) as caught:
        open_source(url)
    assert "ter2" not in str(caught.value)


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(InputError, match=r"it needs the package 'fsspec': pip install fsspec"):
        open_source("memory://elsewhere/a.csv")


def test_names_are_those_given(folder):
    source = open_source(["in/a.csv", "in/d.npy"])
    before = source.identity()
    assert source.name == "in/a.csv and 1 more"
    assert before == {"files": [["in/a.csv"]], "format": None, "columns": None, "ids": None}
    assert open_source("in/*.csv").identity()["files"] == [["in/*.csv"]]
    more = open_source("in/a.csv", ids="x", removed="y", keep=["z"], rows=3).identity()
    assert (more["ids"], more["removed"], more["keep"]) == ("x", "y", ["z"])
    (folder / "in" / "a.csv").write_text("0\n1\n")
    assert source.identity() == before  # what is in them is a matter of `evidence`


@pytest.mark.parametrize(
    ("paths", "options", "error", "message"),
    [
        ("nowhere.csv", {}, StorageError, "nowhere.csv cannot be read: it does not exist"),
        ("in/*.parq", {}, StorageError, r"in/\*.parq cannot be read: no file matches it"),
        ("empty", {}, StorageError, "the folder empty has no files of a known format"),
        ("in/readme.txt", {}, InputError, "format of in/readme.txt is not known by its name"),
        ("in/a.csv", {"format": "xml"}, InputError, "format is 'xml'; choose one of npy, npz"),
        ("in/a.csv", {"rows": 0}, InputError, "rows is 0"),
        ("in/a.csv", {"columns": []}, InputError, r"columns is \[\]; it must be a list of names"),
        ("in/a.csv", {"columns": 5}, InputError, "columns is 5"),
        ("in/a.csv", {"keep": [1]}, InputError, r"keep is \[1\]; it must be a list of names"),
        ("in/a.csv", {"ids": "a", "keep": ["b", "a"]}, InputError, "column 'a' is named twice"),
        ("in/a.csv", {"removed": "d"}, InputError, r"removed is 'd', .*ids \(--ids\)"),
        ("in/d.npy", {"keep": "a"}, InputError, "leave out columns, ids, removed and keep"),
        ([], {}, InputError, "paths is empty"),
    ],
)
def test_what_cannot_be_opened(folder, paths, options, error, message):
    (folder / "empty").mkdir()
    with pytest.raises(error, match=message):
        open_source(paths, **options)


def test_rows_are_numbered_through_all_files(tmp_path, gather):
    (tmp_path / "1.csv").write_text("1\nx\n2\n")
    (tmp_path / "2.csv").write_text("")
    (tmp_path / "3.csv").write_text("a\n3\n4\n")
    batches = list(open_source(str(tmp_path), rows=2).read())
    assert gather(batches)[0] == [0, 2, 3, 4]
    assert [batch.offset for batch in batches] == [
        {"file": 0, "count": 2, "byte": 4, "line": 2},
        {"file": 0, "count": 3, "byte": 6, "line": 3},
        {"file": 2, "count": 4, "byte": 4, "line": 2},  # the header is a line, too
        {"file": 2, "count": 5, "byte": 6, "line": 3},
    ]


@pytest.mark.parametrize(
    "offset",
    [
        *(7, "x", [0, 1], {}, {"file": 0, "count": 0}, {"file": "0", "count": 0, "row": 0}),
        {"file": 0, "count": -1, "byte": 0, "line": 0},
        {"file": True, "count": 1, "byte": 0, "line": 0},
        {"file": 1, "count": 1, "byte": 0, "line": 0},
        {"file": 0, "count": 1, "row": 0},
        {"file": 0, "count": 1, "byte": 0, "line": 0, "row": 0},
    ],
)
def test_offsets_of_something_else(tmp_path, offset):
    (tmp_path / "1.csv").write_text("1\n")
    with pytest.raises(InputError, match="is not an offset of"):
        list(open_source(str(tmp_path / "1.csv")).read(offset))


@pytest.mark.parametrize("name", ["header.csv", "a.csv.gz", "arrays.jsonl", "C.npy", "a.fvecs"])
def test_a_file_that_has_become_shorter(write, tmp_path, name):
    path = write(tmp_path / name, np.ones((9, 2), np.float32))
    *_, last = open_source(path).read()
    assert list(open_source(path).read(last.offset)) == []
    write(tmp_path / name, np.ones((5, 2), np.float32))
    with pytest.raises((StorageError, InputError), match=r"not an offset|ends before the place"):
        list(open_source(path).read(last.offset))


TABLES = {
    "a.csv": lambda path, table: path.write_text(lines_of(table, ",")),
    "a.tsv": lambda path, table: path.write_text(lines_of(table, "\t")),
    "a.parquet": lambda path, table: parquet.write_table(pa.table(table), path),
    "a.feather": lambda path, table: feather.write_feather(pa.table(table), path),
    "a.jsonl": lambda path, table: path.write_text(
        "".join(json.dumps(dict(zip(table, row, strict=True))) + "\n" for row in rows_of(table))
    ),
}


def rows_of(table):
    return list(zip(*table.values(), strict=True))


def lines_of(table, mark):
    return "".join(mark.join(map(str, row)) + "\n" for row in [list(table), *rows_of(table)])


@pytest.fixture(params=TABLES)
def saved(request, tmp_path):
    """saved(table): a file with these columns, in every format where they have names."""

    def saved(table, name=""):
        TABLES[request.param](tmp_path / f"{name}{request.param}", table)
        return str(tmp_path / f"{name}{request.param}")

    return saved


@pytest.mark.parametrize("name", ["id", "ID", "Ids"])
def test_a_column_of_ids_is_not_taken_for_a_coordinate(saved, gather, name):
    path = saved({"a": [1, 3], name: [70, 80], "b": [2, 4]})
    with pytest.raises(InputError) as caught:
        list(open_source(path).read())
    for remedy in (path, f"ids={name!r}", f"--ids {name}", "columns=[...]", "--columns"):
        assert remedy in str(caught.value)
    ids, rows, _ = gather(open_source(path, ids=name).read())
    assert (ids, rows.tolist()) == ([70, 80], [[1, 2], [3, 4]])
    ids, rows, _ = gather(open_source(path, columns=["a", "b"]).read())
    assert (ids, rows.tolist()) == ([0, 1], [[1, 2], [3, 4]])
    _, rows, _ = gather(open_source(path, columns=["a", name]).read())  # who says so may
    assert rows.tolist() == [[1, 70], [3, 80]]


@pytest.mark.parametrize("names", [[70, 80], ["x", "y"]])
def test_nor_is_it_ignored_in_silence(saved, gather, names):
    """Beside a column of lists, and where ids are texts: rows would be numbered (defect 27)."""
    listed = names == [70, 80] and {"v": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]}
    path = saved({"id": names} | (listed or {"v": [1.0, 2.0]}))
    if listed and path.endswith(("csv", "tsv")):
        return  # it has no lists
    with pytest.raises(InputError, match=r"has a column 'id', .*pass ids='id' \(--ids id"):
        list(open_source(path).read())
    assert gather(open_source(path, ids="id").read())[0] == names
    assert gather(open_source(path, columns=["v"]).read())[0] == [0, 1]


@pytest.mark.parametrize("name", ["label", "Labels", "target", "CLASS"])
def test_a_column_of_labels_is_not_taken_for_a_coordinate(saved, gather, name):
    path = saved({"key": [7, 8], "a": [1, 3], "b": [2, 4], name: [0, 1]})
    for options in ({}, {"ids": "key"}):
        with pytest.raises(InputError, match=rf"column '{name}', .*columns=\[...\]") as caught:
            list(open_source(path, **options).read())
        assert "--ids" not in str(caught.value)
    ids, rows, _ = gather(open_source(path, ids="key", columns=["a", "b"]).read())
    assert (ids, rows.tolist()) == ([7, 8], [[1, 2], [3, 4]])
    assert gather(open_source(path, ids="key", keep=name).read())[1].tolist() == [[1, 2], [3, 4]]


def test_files_with_columns_in_another_order_or_without_one(saved, gather, tmp_path):
    saved({"a": [1], "b": [2]}, "1")
    saved({"b": [4], "a": [3]}, "2")
    batches = list(open_source(str(tmp_path)).read())
    assert gather(batches)[1].tolist() == [[1, 2], [3, 4]]
    rest = open_source(str(tmp_path)).read(batches[0].offset)
    assert gather(rest)[1].tolist() == [[3, 4]]
    last = saved({"a": [1], "c": [2]}, "4")
    with pytest.raises(InputError, match=f"{last} has no column 'b', which .*1a.* has"):
        list(open_source(str(tmp_path)).read())
