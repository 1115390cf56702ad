"""Standard input, and files that were exchanged since they were read."""

import os
import shutil
import sys
import threading

import numpy as np
import pytest

from conformance.compare import run_checks
from conformance.sources import CHECKS
from streambits.errors import InputError, StorageError
from streambits.io.rows import FORMATS, open_source
from streambits.io.rows.inputs import difference, fingerprint

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

    run_checks(CHECKS, fresh)
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
    [
        ("csv", b"1,2\n" * 3),
        ("csv", b""),
        ("npy", None),
        ("fvecs", b"\1\0\0\0\0\0\0\0" * 3),
        ("fvecs", b""),
    ],
)
def test_one_that_ends_before_the_offset(write, tmp_path, standard_input, name, content):
    if content is None:
        write(tmp_path / "C.npy", np.ones((3, 1), np.float32))
        content = (tmp_path / "C.npy").read_bytes()
    standard_input(content)
    place = {"line": 9, "byte": 36} if name == "csv" else {"row": 9}
    with pytest.raises(StorageError, match=r"not what this job has read before.*--from.*files"):
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
    with pytest.raises(StorageError, match=r"not what this job has read before.*--from.*files"):
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


@pytest.fixture
def begun(write, tmp_path):
    """begun(kind, rows): the file, and evidence and offset of a source that has read some of it."""

    def begun(kind, rows):
        path = tmp_path / kind
        write(path, rows)
        source = open_source(str(path), rows=6)
        chunks = iter(source.read())
        next(chunks)
        offset = next(chunks).offset
        return path, source.evidence(offset), offset

    return begun


def rows_of(seed):
    return np.random.default_rng(seed).integers(10, 99, (40, 3)).astype(np.float32)


def test_an_exchanged_file_is_noticed_in_every_format(kind, begun, write):
    path, evidence, _ = begun(kind, rows_of(0))
    assert open_source(str(path)).changes(evidence) == []
    write(path, rows_of(1))
    [words] = open_source(str(path)).changes(evidence)
    assert words.startswith(f"{path}: ")
    assert "differ" in words or "bytes and had" in words


def test_a_copy_with_another_time_is_the_same(kind, begun):
    path, evidence, _ = begun(kind, rows_of(0))
    shutil.copy(path, path.with_suffix(".copy"))
    os.replace(path.with_suffix(".copy"), path)
    os.utime(path, (5, 5))
    assert open_source(str(path)).changes(evidence) == []


def test_changes_may_be_accepted_and_are_known_from_then_on(begun, write):
    path, evidence, offset = begun("header.csv", rows_of(0))
    write(path, rows_of(1))
    source = open_source(str(path), rows=6, accept_changes=True)
    assert source.changes(evidence) == []
    later = source.evidence(offset)
    assert open_source(str(path)).changes(later) == []
    write(path, rows_of(2))
    assert len(open_source(str(path)).changes(later)) == 1


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
    assert wanted.get(place, "what comes before the place to resume from differs") in words


def test_only_files_that_were_read_are_looked_at(tmp_path):
    for name in "abc":
        np.save(tmp_path / f"{name}.npy", np.full((8, 2), ord(name)))
    source = open_source(str(tmp_path), rows=5)
    chunks = iter(source.read())
    offset = [next(chunks).offset for _ in range(3)][-1]  # in the second file
    evidence = source.evidence(offset)
    for name in "abc":
        np.save(tmp_path / f"{name}.npy", np.ones((8, 2)))
    words = open_source(str(tmp_path)).changes(evidence)
    assert [text.split(": ")[0][-5:] for text in words] == ["a.npy", "b.npy"]
    again = open_source(str(tmp_path), rows=5, accept_changes=True)
    again.changes(evidence)
    chunks = list(again.read(offset))
    assert len(again.evidence(chunks[-1].offset)) == 3


def test_a_file_that_has_grown_says_so(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n" * 100)
    known = fingerprint(str(path))
    path.write_text("1,2\n" * 101)
    assert difference(str(path), known).startswith("it has 404 bytes and had 400")


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


def test_a_list_of_files_may_grow(tmp_path):
    paths = [tmp_path / "b.csv", tmp_path / "a.csv", tmp_path / "b.csv"]
    number(paths[0], 1)
    number(paths[1], 2)
    source = open_source(paths[:1])
    [batch] = source.read()
    evidence = source.evidence(batch.offset)
    assert source.identity() == open_source(paths).identity()
    assert resumed(paths, evidence, batch.offset)[:2] == ([], [2, 1])  # the second time it is new


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


def test_the_file_that_was_being_read_may_be_gone_if_that_is_accepted(grown):
    folder, evidence, offset = grown
    (folder / "d.csv").unlink()
    number(folder / "e.csv", 5)
    source = open_source(folder, accept_changes=True)
    assert source.changes(evidence) == []
    assert [batch.rows.tolist() for batch in source.read(offset)] == [[[5]]]


def test_evidence_from_before_it_had_names(grown):
    folder, evidence, offset = grown
    old = [{key: value for key, value in one.items() if key != "path"} for one in evidence]
    assert resumed(folder, old, offset)[:2] == ([], [])
    number(folder / "b.csv", 7, 7)
    assert len(resumed(folder, old, offset)[0]) == 1


def test_many_files_are_compared_without_opening_them(grown, monkeypatch):
    folder, evidence, offset = grown
    monkeypatch.setattr("streambits.io.rows.files.MANY", 1)
    opened = []
    monkeypatch.setattr(
        "streambits.io.rows.inputs.fingerprint",
        lambda path, size=None: opened.append(path) or fingerprint(path, size),
    )
    assert resumed(folder, evidence, offset)[0] == []
    assert opened == [str(folder / "d.csv")]  # the one that is read on
    number(folder / "b.csv", 99, 99)
    assert len(resumed(folder, evidence, offset)[0]) == 1


@pytest.mark.parametrize("later", [b"5,6\n7,8\n9,0\n", b"5,6\n", b"", b"1,2\n" + b"5" * 99])
def test_another_day_on_standard_input_is_refused_with_the_ways_out(standard_input, later):
    standard_input(b"1,2\n3,4\n")
    *_, last = open_source("-").read()
    standard_input(later)
    with pytest.raises(StorageError) as caught:
        list(open_source("-").read(last.offset))
    for words in ("not what this job has read before", "another folder", "--from", "files"):
        assert words in str(caught.value)
