import os
import sys
import threading

import numpy as np
import pytest

from streambits.checks._compare import run
from streambits.checks.sources import CHECKS
from streambits.errors import InputError, StorageError
from streambits.io.rows import FORMATS, open_source

KINDS = {
    "header.csv": "csv",
    "space.csv": "csv",
    "arrays.jsonl": "jsonl",
    "objects.jsonl": "jsonl",
    "a.fvecs": "fvecs",
    "a.bvecs": "bvecs",
    "C.npy": "npy",
    "Fortran.npy": "npy",
}


@pytest.mark.parametrize("name", KINDS)
def test_it_passes_the_kit(write, gather, tmp_path, standard_input, name):
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    if name != "a.bvecs":
        rows[7] = np.nan
    write(tmp_path / name, rows)
    content = (tmp_path / name).read_bytes()

    def fresh():
        standard_input(content)
        return open_source("-", format=KINDS[name], rows=6)

    run(CHECKS, fresh)
    good = np.isfinite(rows).all(axis=1)
    ids, found, _ = gather(fresh().read())
    assert ids == np.flatnonzero(good).tolist()
    assert np.array_equal(found, rows[good])


def test_csv_is_what_is_expected_and_the_name_is_told(standard_input, gather):
    standard_input(b"1,2\n3,x\n")
    source = open_source("-")
    assert source.name == "standard input"
    assert source.length is None
    assert source.identity()["files"] == [["standard input"]]
    ids, _, (reject,) = gather(source.read())
    assert (ids, reject.where) == ([0], "standard input:2")


def test_a_good_line_may_come_late(standard_input, gather):
    standard_input(b"x\ny\nz\n[1]\n[2, 3]\n[4]\n")
    ids, rows, rejects = gather(open_source("-", format="jsonl", rows=2).read())
    assert (ids, rows.tolist(), len(rejects)) == ([3, 5], [[1], [4]], 4)


def test_it_is_read_once(standard_input):
    standard_input(b"1,2\n")
    source = open_source("-")
    assert len(list(source.read())) == 1
    with pytest.raises(StorageError, match="standard input can be read only once"):
        list(source.read())


@pytest.mark.parametrize(
    ("name", "content"),
    [("csv", b"1,2\n" * 3), ("csv", b""), ("npy", None), ("fvecs", b"\1\0\0\0\0\0\0\0" * 3)],
)
def test_one_that_ends_before_the_offset(write, tmp_path, standard_input, name, content):
    if content is None:
        write(tmp_path / "C.npy", np.ones((3, 1), np.float32))
        content = (tmp_path / "C.npy").read_bytes()
    standard_input(content)
    place = {"line": 9, "byte": 36} if name == "csv" else {"row": 9}
    with pytest.raises(StorageError, match="standard input ends before the place to resume from"):
        list(open_source("-", format=name).read({"file": 0, "count": 9, "digest": "", **place}))


@pytest.mark.parametrize("name", KINDS)
def test_other_rows_than_before_are_refused(write, tmp_path, standard_input, name):
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    write(tmp_path / name, rows)
    standard_input((tmp_path / name).read_bytes())
    offset = next(iter(open_source("-", format=KINDS[name], rows=6).read())).offset
    rows[4, 1] += 1
    write(tmp_path / name, rows)
    standard_input((tmp_path / name).read_bytes())
    with pytest.raises(StorageError, match="standard input is not what this job has read before"):
        list(open_source("-", format=KINDS[name], rows=6).read(offset))


@pytest.fixture
def pipe(monkeypatch):
    """A pipe that is standard input; its end to write to."""
    reading, writing = os.pipe()
    with open(reading) as file, open(writing, "wb", buffering=0) as end:
        monkeypatch.setattr(sys, "stdin", file)
        yield end


@pytest.mark.parametrize("name", ["header.csv", "arrays.jsonl", "a.fvecs", "C.npy"])
def test_rows_that_are_there_are_handed_out_at_once(write, tmp_path, pipe, name):
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    write(tmp_path / name, rows)
    content = (tmp_path / name).read_bytes()
    cut = len(content) * 2 // 3
    chunks = iter(open_source("-", format=KINDS[name]).read())
    pipe.write(content[:cut])
    rescue = threading.Timer(20, pipe.close)  # or a source that waits for all rows waits for ever
    rescue.start()
    first = next(chunks)
    rescue.cancel()
    pipe.write(content[cut:])
    pipe.close()
    assert 0 < len(first.rows) < 20
    found = [first, *chunks]
    assert np.array_equal(np.concatenate([chunk.rows for chunk in found]), rows)
    assert [i for chunk in found for i in chunk.ids.tolist()] == list(range(20))


def test_what_it_cannot_be():
    with pytest.raises(InputError, match=r"cannot be read as parquet, only as npy, fvecs"):
        open_source("-", format="parquet")
    with pytest.raises(InputError, match=r"cannot be combined with other sources; got -, a.csv"):
        open_source(["-", "a.csv"])
    assert [name for name, known in FORMATS.items() if not known.streams] == [
        "npz",
        "parquet",
        "arrow",
    ]
