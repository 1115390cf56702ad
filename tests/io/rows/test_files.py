import gzip
import json
import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from streambits.errors import InputError, StorageError
from streambits.io.rows import arrow, npy, open_source, text, vecs


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
    return [int(v) for chunk in open_source(paths, **options).read() for v in chunk.rows.ravel()]


def test_files_folders_and_globs_in_order(folder):
    assert values("in") == [0, 1, 2, 3]
    assert values("in/*.csv") == [0]
    assert values("in/**/*.csv", format="csv") == [9, 0, 1]
    assert values(["in/d.npy", "in/b.*", "in/a.csv"]) == [3, 1, 0]
    assert values("in/readme.txt", format="csv") == [9]
    (folder / "in" / "[x].csv").write_text("7\n")
    assert values("in/[x].csv") == [7]


def test_names_are_those_given(folder):
    source = open_source(["in/a.csv", "in/d.npy"], columns=None)
    assert source.name == "in/a.csv and 1 more"
    assert open_source("in/a.csv").name == "in/a.csv"
    before = source.identity()
    assert before["files"] == [["in/a.csv"]]  # more may be added
    assert open_source("in").identity()["files"] == [["in"]]
    assert open_source("in/*.csv").identity()["files"] == [["in/*.csv"]]
    assert set(before) == {"files", "format", "columns", "ids"}
    more = open_source("in/a.csv", ids="x", removed="y", keep=["z"]).identity()
    assert (more["removed"], more["keep"]) == ("y", ["z"])
    (folder / "in" / "a.csv").write_text("0\n1\n")
    assert source.identity() == before  # what is in them is a matter of `evidence`
    assert before != open_source(["in/d.npy", "in/a.csv"]).identity()
    assert open_source("in/a.csv", ids="x").identity() != open_source("in/a.csv").identity()
    assert open_source("in/a.csv", rows=3).identity() == open_source("in/a.csv").identity()


@pytest.mark.parametrize(
    ("paths", "options", "error", "message"),
    [
        ("nowhere.csv", {}, StorageError, "nowhere.csv cannot be read: it does not exist"),
        ("in/*.parq", {}, StorageError, r"in/\*.parq cannot be read: no file matches it"),
        ("in/_temporary", {"format": "npy"}, None, None),
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
        ("in/a.csv", {"columns": ["a", "a"]}, InputError, "column 'a' is named twice"),
        ("in/a.csv", {"columns": ["a"], "ids": "a"}, InputError, "column 'a' is named twice"),
        ([], {}, InputError, "paths is empty"),
    ],
)
def test_what_cannot_be_opened(folder, paths, options, error, message):
    (folder / "empty").mkdir()
    if error is None:
        open_source(paths, **options)
        return
    with pytest.raises(error, match=message):
        open_source(paths, **options)


def test_rows_are_numbered_through_all_files(tmp_path, gather):
    (tmp_path / "1.csv").write_text("1\nx\n2\n")
    (tmp_path / "2.csv").write_text("")
    (tmp_path / "3.csv").write_text("a\n3\n4\n")
    chunks = list(open_source(str(tmp_path), rows=2).read())
    assert gather(chunks)[0] == [0, 2, 3, 4]
    assert [chunk.offset for chunk in chunks] == [
        {"file": 0, "count": 2, "byte": 4, "line": 2},
        {"file": 0, "count": 3, "byte": 6, "line": 3},
        {"file": 2, "count": 4, "byte": 4, "line": 2},  # the header is a line, too
        {"file": 2, "count": 5, "byte": 6, "line": 3},
    ]
    rest = gather(open_source(str(tmp_path)).read(chunks[1].offset))
    assert (rest[0], rest[1].ravel().tolist()) == ([3, 4], [3, 4])


@pytest.mark.parametrize(
    "offset",
    [
        7,
        "x",
        [0, 1],
        {},
        {"file": 0, "count": 0},
        {"file": "0", "count": 0, "row": 0},
        {"file": 0, "count": -1, "row": 0},
        {"file": True, "count": 1, "row": 0},
        {"file": 1, "count": 1, "byte": 0, "line": 0},
        {"file": 0, "count": 1, "row": 0},
        {"file": 0, "count": 1, "byte": 0, "line": 0, "row": 0},
    ],
)
def test_offsets_of_something_else(tmp_path, offset):
    (tmp_path / "1.csv").write_text("1\n")
    with pytest.raises(InputError, match="is not an offset of"):
        list(open_source(str(tmp_path / "1.csv")).read(offset))


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.npy", "a.fvecs"])
def test_a_file_that_has_become_shorter(write, tmp_path, name):
    path = tmp_path / {"a.csv": "header.csv", "a.jsonl": "arrays.jsonl", "a.npy": "C.npy"}.get(
        name, name
    )
    write(path, np.ones((9, 2), np.float32))
    *_, last = open_source(path).read()
    assert list(open_source(path).read(last.offset)) == []
    write(path, np.ones((5, 2), np.float32))
    with pytest.raises((StorageError, InputError), match=r"not an offset|ends before the place"):
        list(open_source(path).read(last.offset))


def test_a_broken_file_is_found_when_it_is_reached(tmp_path):
    np.save(tmp_path / "1.npy", np.ones((3, 2)))
    (tmp_path / "2.npy").write_bytes(b"nothing")
    chunks = open_source(str(tmp_path)).read()
    assert len(next(chunks).rows) == 3
    with pytest.raises(StorageError, match=r"2.npy cannot be read as .npy"):
        next(chunks)
    assert open_source(str(tmp_path)).length is None


TABLES = {
    "a.csv": lambda path, table: path.write_text(lines_of(table, ",")),
    "a.tsv": lambda path, table: path.write_text(lines_of(table, "\t")),
    "a.csv.gz": lambda path, table: path.write_bytes(gzip.compress(lines_of(table, ",").encode())),
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

    def saved(table):
        TABLES[request.param](tmp_path / request.param, table)
        return str(tmp_path / request.param)

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


@pytest.mark.parametrize("name", ["label", "Labels", "target", "CLASS"])
def test_a_column_of_labels_is_not_taken_for_a_coordinate(saved, gather, name):
    path = saved({"key": [7, 8], "a": [1, 3], "b": [2, 4], name: [0, 1]})
    for options in ({}, {"ids": "key"}):
        with pytest.raises(InputError, match=rf"column '{name}', .*columns=\[...\]") as caught:
            list(open_source(path, **options).read())
        assert "--ids" not in str(caught.value)
    ids, rows, _ = gather(open_source(path, ids="key", columns=["a", "b"]).read())
    assert (ids, rows.tolist()) == ([7, 8], [[1, 2], [3, 4]])


def test_names_that_only_begin_like_that_are_coordinates(saved, gather):
    path = saved({"idle": [1], "label_1": [2], "width": [3]})
    assert gather(open_source(path).read())[1].tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.jsonl"])
def test_beside_a_column_of_lists_other_columns_do_not_matter(tmp_path, gather, name):
    TABLES[name](tmp_path / name, {"id": [7, 8], "v": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]})
    path = str(tmp_path / name)
    assert gather(open_source(path).read())[1].tolist() == [[1, 2], [3, 4]]
    assert gather(open_source(path, ids="id").read())[0] == [7, 8]


OURS = (AttributeError, KeyError, TypeError, ValueError, IndexError, RuntimeError)


@pytest.mark.parametrize("error", OURS)
def test_a_mistake_of_ours_is_not_reported_as_a_damaged_file(
    write, tmp_path, monkeypatch, kind, error
):
    path = write(tmp_path / kind, np.ones((5, 3), np.float32))

    def wrong(*_, **__):
        raise error("our mistake")

    for module in (arrow, npy, text, vecs):
        for name in ("_sift_table", "sift_array", "sift"):
            monkeypatch.setattr(module, name, wrong, raising=False)
    with pytest.raises(error, match="our mistake"):
        list(open_source(path).read())


def test_what_the_system_says_of_a_file_is_told(tmp_path, monkeypatch, write, kind):
    path = write(tmp_path / kind, np.ones((5, 3), np.float32))
    source = open_source(path)
    os.unlink(path)
    os.mkdir(path)
    with pytest.raises(StorageError, match=f"{kind} cannot be read"):
        list(source.read())
