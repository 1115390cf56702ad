"""Files that were exchanged since they were read: known by sizes and some windows of them."""

import os
import shutil

import numpy as np
import pytest

from streambits.errors import StorageError
from streambits.io.rows import open_source
from streambits.io.rows.inputs import difference, fingerprint


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
