"""Standard input, and files that were exchanged since they were read."""

import os
import sys
import threading

import numpy as np
import pytest

from streambits.errors import InputError, StorageError
from streambits.io.rows import FORMATS, open_source
from streambits.io.rows.inputs import fingerprint

KINDS = {
    "header.csv": "csv",
    "space.csv": "csv",
    "arrays.jsonl": "jsonl",
    "objects.jsonl": "jsonl",
    "a.fvecs": "fvecs",
    "a.bvecs": "bvecs",
    "C.npy": "npy",
}


@pytest.mark.parametrize("name", KINDS)
def test_standard_input_is_read_once_and_not_resumed(write, gather, tmp_path, standard_input, name):
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    if name != "a.bvecs":
        rows[7] = np.nan
    write(tmp_path / name, rows)
    standard_input((tmp_path / name).read_bytes())
    source = open_source("-", format=KINDS[name], rows=6)
    assert (source.name, source.length, source.evidence({"file": 0})) == (
        "standard input",
        None,
        None,
    )
    assert source.identity()["files"] == [["standard input"]]
    good = np.isfinite(rows).all(axis=1)
    batches = list(source.read())
    ids, found, rejects = gather(batches)
    assert ids == np.flatnonzero(good).tolist()
    assert np.array_equal(found, rows[good])
    assert all(reject.where.startswith("standard input") for reject in rejects)
    with pytest.raises(StorageError, match="standard input can be read only once"):
        list(source.read())
    with pytest.raises(
        StorageError, match=r"cannot be resumed. Write the rows to a file, .*--from"
    ):
        list(open_source("-", format=KINDS[name]).read(batches[0].offset))


def test_events_and_a_good_line_that_comes_late(standard_input, gather):
    standard_input(b"x\ny\nz\n[1]\n[2, 3]\n[4]\n")
    ids, rows, rejects = gather(open_source("-", format="jsonl", rows=2).read())
    assert (ids, rows.tolist(), len(rejects)) == ([3, 5], [[1], [4]], 4)
    standard_input(b"id,a,gone\nx,1,0\n7,,1\n8,3,\n")
    [batch] = open_source("-", ids="id", removed="gone").read()
    assert (batch.ids.tolist(), batch.removals.ids.tolist()) == (["x", "8"], ["7"])


@pytest.fixture
def pipe(monkeypatch):
    """A pipe that is standard input; its end to write to."""
    reading, writing = os.pipe()
    with open(reading) as file, open(writing, "wb", buffering=0) as end:
        monkeypatch.setattr(sys, "stdin", file)
        yield end


@pytest.mark.parametrize("name", ["header.csv", "arrays.jsonl"])
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


@pytest.mark.parametrize("place", [0, 299_000, 599_999])
def test_the_ends_and_what_stands_before_the_offset_are_looked_at(place, tmp_path):
    path = tmp_path / "a.npy"
    rows = np.zeros((5000, 15))
    np.save(path, rows)
    source = open_source(str(path), rows=2500)
    offset = next(iter(source.read())).offset
    evidence = source.evidence(offset)
    rows.reshape(-1).view(np.uint8)[place] ^= 1
    np.save(path, rows)
    [words] = open_source(str(path)).changes(evidence)
    wanted = {0: "its first 64 KiB differ", 599_999: "its last 64 KiB differ"}
    assert wanted.get(place, "the 64 KiB before the offset to resume from differ") in words


def test_what_was_replaced_while_it_was_read_is_noticed_later(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n" * 40)
    source = open_source(str(path), rows=10)
    chunks = iter(source.read())
    next(chunks)
    (tmp_path / "b").write_text("3,4\n" * 40)
    os.replace(tmp_path / "b", path)
    evidence = source.evidence(next(chunks).offset)
    assert len(open_source(str(path)).changes(evidence)) == 1
    path.unlink()
    assert source.evidence(next(chunks).offset)[0]["before"] is None
    with pytest.raises(StorageError, match="does not exist"):
        open_source(str(path))


def number(path, *values):
    path.write_text("".join(f"{value}\n" for value in values))


def resumed(paths, evidence, offset, **options):
    """What is read in a further run, and the source."""
    source = open_source(paths, **options)
    words = source.changes(evidence)
    rows = [] if words else [v for b in source.read(offset) for v in b.rows.ravel().tolist()]
    return words, rows, source


@pytest.fixture
def grown(tmp_path):
    """A folder of which all was read, and its evidence and offset."""
    for name in "bd":
        number(tmp_path / f"{name}.csv", ord(name), ord(name))
    source = open_source(tmp_path, rows=1)
    *_, last = source.read()
    return tmp_path, source.evidence(last.offset), last.offset


def test_files_that_came_since_are_read_whatever_their_names(grown):
    folder, evidence, offset = grown
    identity = open_source(folder).identity()
    for name in "ace":
        number(folder / f"{name}.csv", ord(name))
    words, rows, source = resumed(folder, evidence, offset)
    assert (words, rows) == ([], [ord("a"), ord("c"), ord("e")])
    assert source.identity() == identity
    *_, last = open_with(folder, evidence).read(offset)
    later = source.evidence(last.offset)
    assert [one["path"][-5:] for one in later] == ["b.csv", "d.csv", "a.csv", "c.csv", "e.csv"]
    number(folder / "0.csv", 0)
    assert resumed(folder, later, last.offset)[:2] == ([], [0])


def open_with(folder, evidence):
    source = open_source(folder)
    assert source.changes(evidence) == []
    return source


def test_in_the_middle_of_a_file_too(tmp_path):
    number(tmp_path / "b.csv", 1, 2, 3)
    number(tmp_path / "d.csv", 4)
    source = open_source(tmp_path, rows=2)
    offset = next(iter(source.read())).offset
    evidence = source.evidence(offset)
    number(tmp_path / "a.csv", 0)
    number(tmp_path / "c.csv", 9)
    assert resumed(tmp_path, evidence, offset)[:2] == ([], [3, 0, 9, 4])


@pytest.mark.parametrize("change", ["gone", "grown", "exchanged"])
def test_a_file_that_was_read_must_be_there_and_the_same(grown, change):
    folder, evidence, offset = grown
    number(folder / "a.csv", 1)
    if change == "gone":
        (folder / "b.csv").unlink()
    else:
        number(folder / "b.csv", 98, *([98, 98] if change == "grown" else [99]))
    [words], _, _ = resumed(folder, evidence, offset)
    wanted = {"gone": "is not there any more", "grown": "bytes and had", "exchanged": "differ"}
    assert words.startswith(f"{folder / 'b.csv'}: ")
    assert wanted[change] in words
    source = open_source(folder, accept_changes=True)
    assert source.changes(evidence) == []
    [batch] = source.read(offset)
    assert batch.rows.tolist() == [[1]]
    assert open_source(folder).changes(source.evidence(batch.offset)) == []


def test_many_files_are_compared_without_opening_them(grown, monkeypatch):
    folder, evidence, offset = grown
    monkeypatch.setattr("streambits.io.rows.files.COMPARE_BY_TIME", 1)
    opened = []
    monkeypatch.setattr(
        "streambits.io.rows.inputs.fingerprint",
        lambda source, size=None: opened.append(source.name) or fingerprint(source, size),
    )
    assert resumed(folder, evidence, offset)[0] == []
    assert opened == [str(folder / "d.csv")]  # the one that is read on
    number(folder / "b.csv", 99, 99)
    assert len(resumed(folder, evidence, offset)[0]) == 1
