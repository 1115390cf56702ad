"""What holds for every format: whole, from any offset, cut off, damaged, bad rows, exchanged."""

import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance import check_source
from streambits.errors import StreambitsError
from streambits.io.protocols import Source
from streambits.io.rows import FORMATS, arrays, arrow, open_source, text

SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=3)


def tables(kind, sizes, width, bad, seed):
    """Rows for some files; one in `bad` is not finite, where a format can have that."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 200, (sum(sizes), width)).astype(np.float32)
    if kind != "a.bvecs":
        rows += rng.random(rows.shape, np.float32)
        rows[::bad, 0] = np.nan
    return rows, np.split(rows, np.cumsum(sizes)[:-1])


@given(
    table=st.tuples(SIZES, st.integers(1, 4), st.integers(2, 50), st.integers(0, 9)),
    most=st.integers(1, 40),
)
@settings(max_examples=10)
def test_what_is_written_is_read_in_batches_of_any_size(write, gather, kind, table, most):
    rows, parts = tables(kind, *table)
    good = np.isfinite(rows).all(axis=1)
    with tempfile.TemporaryDirectory() as folder:
        paths = [write(Path(folder) / f"{i}-{kind}", part) for i, part in enumerate(parts)]
        batches = list(open_source(paths, rows=most).read())
        again = [list(open_source(paths, rows=7).read(batch.offset)) for batch in batches]
        length = open_source(paths).length
    ids, found, rejects = gather(batches)
    assert ids == np.flatnonzero(good).tolist()
    assert np.array_equal(found, rows[good].reshape(found.shape))
    assert len(rejects) == np.count_nonzero(~good)
    assert length in (None, len(rows))
    assert all(len(batch.rows) + len(batch.rejects) <= most for batch in batches)
    for place, rest in enumerate(again):  # from the offset of any batch, the rest
        left, right = gather(rest), gather(batches[place + 1 :])
        assert (left[0], left[2]) == (right[0], right[2])
        assert np.array_equal(left[1], right[1])


def test_every_source_passes_the_kit(write, tmp_path, kind):
    _, parts = tables(kind, [20, 0, 15], 3, 6, 0)
    for number, part in enumerate(parts):
        write(tmp_path / f"{number}-{kind}", part)
    check_source(lambda: open_source(str(tmp_path), rows=8))
    assert isinstance(open_source(str(tmp_path)), Source)


def test_every_bad_row_is_told_by_its_file_and_place(write, gather, tmp_path, kind):
    rows = np.ones((9, 3), np.float32)
    rows[4, 1] = 1 if kind == "a.bvecs" else np.nan  # bytes are always finite
    path = write(tmp_path / kind, rows)
    ids, _, rejects = gather(open_source(path, rows=3).read())
    if kind == "a.bvecs":
        assert (ids, rejects) == (list(range(9)), [])
        return
    line = ":6" if kind in ("header.csv", "a.tsv", "a.csv.gz") else ":5"
    lines = kind.removesuffix(".gz").endswith(("csv", "tsv", "json", "jsonl"))
    place = ", record 4" if kind == "a.fvecs" else line if lines else ", row 4"
    assert rejects[0].where == path + place
    assert rejects[0].reason in ("value 2 of 3 is NaN", "column 'c1' is NaN")
    assert "nan" in rejects[0].text.lower()
    assert (ids, len(rejects)) == ([0, 1, 2, 3, 5, 6, 7, 8], 1)


def outcome(path, **options):
    """Rows of a file that may be rubbish; whatever is wrong is an error of ours."""
    try:
        for batch in open_source(str(path), rows=5, **options).read():
            assert np.isfinite(batch.rows).all()
            json.dumps(batch.offset)
    except StreambitsError as error:
        assert Path(path).name in str(error)  # noqa: PT017
        return "error"
    return "rows"


@pytest.mark.parametrize("name", FORMATS)
@given(st.binary(max_size=300))
def test_rubbish_is_an_error_of_ours(tmp_path_factory, name, content):
    path = tmp_path_factory.getbasetemp() / f"rubbish.{name}"
    path.write_bytes(content)
    assert outcome(path) in {"rows", "error"}
    path.write_bytes(np.random.default_rng(len(content)).bytes(2000))
    assert outcome(path) == "error" or name == "jsonl"


@given(st.integers(0, 10**6), st.binary(max_size=8))
def test_files_with_wrong_bytes_or_cut_off_are_errors_of_ours(
    write, tmp_path_factory, kind, where, wrong
):
    path = tmp_path_factory.getbasetemp() / kind
    write(path, tables(kind, [25], 3, 6, 0)[0])
    content = path.read_bytes()
    where %= len(content)
    tail = content[where + len(wrong) :] if wrong else b""  # nothing: cut off
    path.write_bytes(content[:where] + wrong + tail)
    assert outcome(path) in {"rows", "error"}


def test_a_file_that_is_cut_off_gives_its_rows_first(write, gather, drain, tmp_path, kind):
    whole = write(tmp_path / f"0-{kind}", np.ones((40, 3), np.float32))
    broken = tmp_path / f"1-{kind}"
    write(broken, np.ones((40, 3), np.float32))
    content = broken.read_bytes()
    broken.write_bytes(content[: int(len(content) * 0.9) - 1])
    batches, failed = drain(open_source([whole, str(broken)], rows=4).read())
    plain_text = kind.endswith(("csv", "tsv", "jsonl"))
    assert failed is None if plain_text else str(broken) in str(failed)
    ids, found, rejects = gather(batches)
    assert ids[:40] == list(range(40))
    assert len(found) >= 40
    assert len(rejects) <= 1  # the last line of a text


def test_files_of_other_widths_are_refused_with_both_names(write, tmp_path, kind):
    for number, width in enumerate((3, 3, 2)):
        write(tmp_path / f"{number}-{kind}", np.ones((5, width), np.float32))
    batches = open_source(str(tmp_path)).read()
    assert [len(batch.rows) for batch in itertools.islice(batches, 2)] == [5, 5]
    message = f"2-{kind} has rows of 2 numbers, and .*0-{kind} before it of 3"
    with pytest.raises(StreambitsError, match=message):
        next(batches)


def test_a_file_that_was_exchanged_is_noticed_and_a_copy_is_not(write, tmp_path, kind):
    rows = np.random.default_rng(0).integers(10, 99, (2, 40, 3)).astype(np.float32)
    path = tmp_path / kind
    write(path, rows[0])
    source = open_source(str(path), rows=6)
    batches = iter(source.read())
    next(batches)
    evidence = source.evidence(next(batches).offset)
    shutil.copy(path, path.with_suffix(".copy"))
    os.replace(path.with_suffix(".copy"), path)
    os.utime(path, (5, 5))
    assert open_source(str(path)).changes(evidence) == []
    write(path, rows[1])
    [words] = open_source(str(path)).changes(evidence)
    assert words.startswith(f"{path}: ")
    assert "differ" in words or "bytes and had" in words


@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError, RuntimeError])
def test_a_mistake_of_ours_is_not_reported_as_a_damaged_file(
    write, tmp_path, monkeypatch, kind, error
):
    path = write(tmp_path / kind, np.ones((5, 3), np.float32))

    def wrong(*_, **__):
        raise error("our mistake")

    for module in (arrays, arrow, text):
        monkeypatch.setattr(module, "split_rejects", wrong)
    with pytest.raises(error, match="our mistake"):
        list(open_source(path).read())


def test_what_the_system_says_of_a_file_is_told(tmp_path, write, kind):
    path = write(tmp_path / kind, np.ones((5, 3), np.float32))
    source = open_source(path)
    os.unlink(path)
    assert source.length is None
    os.mkdir(path)
    with pytest.raises(StreambitsError, match=f"{kind} cannot be read"):
        list(source.read())
