"""What holds for every format: round trips, going on from any offset, rubbish, the kit."""

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.compare import run_checks
from conformance.sources import CHECKS
from streambits.errors import StreambitsError
from streambits.io import protocols as connect
from streambits.io.rows import FORMATS, open_source


def tables(kind, sizes, width, bad, seed):
    """Rows for some files; one in `bad` is not finite, where a format can have that."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 200, (sum(sizes), width)).astype(np.float32)
    if kind != "a.bvecs":
        rows += rng.random(rows.shape, np.float32)
        rows[::bad, 0] = np.nan
    return rows, np.split(rows, np.cumsum(sizes)[:-1])


SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=3)


@given(
    table=st.tuples(SIZES, st.integers(1, 4), st.integers(2, 50), st.integers(0, 9)),
    most=st.integers(1, 40),
)
def test_what_is_written_is_read_in_chunks_of_any_size(write, gather, kind, table, most):
    rows, parts = tables(kind, *table)
    good = np.isfinite(rows).all(axis=1)
    with tempfile.TemporaryDirectory() as folder:
        paths = [write(Path(folder) / f"{i}-{kind}", part) for i, part in enumerate(parts)]
        chunks = list(open_source(paths, rows=most).read())
        again = [list(open_source(paths, rows=7).read(chunk.offset)) for chunk in chunks]
        length = open_source(paths).length
    ids, found, rejects = gather(chunks)
    assert ids == np.flatnonzero(good).tolist()
    assert np.array_equal(found, rows[good].reshape(found.shape))
    assert len(rejects) == np.count_nonzero(~good)
    assert length in (None, len(rows))
    assert all(len(chunk.rows) + len(chunk.rejects) <= most for chunk in chunks)
    for place, rest in enumerate(again):  # from the offset of any chunk, the rest
        left, right = gather(rest), gather(chunks[place + 1 :])
        assert (left[0], left[2]) == (right[0], right[2])
        assert np.array_equal(left[1], right[1])


def test_every_source_passes_the_kit(write, tmp_path, kind):
    _, parts = tables(kind, [20, 0, 15], 3, 6, 0)
    for number, part in enumerate(parts):
        write(tmp_path / f"{number}-{kind}", part)
    run_checks(CHECKS, lambda: open_source(str(tmp_path), rows=8))
    assert isinstance(open_source(str(tmp_path)), connect.Source)


def test_every_bad_row_is_told_by_its_file_and_place(write, gather, tmp_path, kind):
    if kind == "a.bvecs":
        pytest.skip("bytes are always finite")
    rows = np.ones((9, 3), np.float32)
    rows[4, 1] = np.nan
    path = write(tmp_path / kind, rows)
    ids, _, (reject,) = gather(open_source(path, rows=3).read())
    line = ":6" if kind in ("header.csv", "a.tsv", "a.csv.gz") else ":5"
    place = ", record 4" if kind == "a.fvecs" else line if is_text(kind) else ", row 4"
    assert reject.where == path + place
    assert reject.reason in ("value 2 of 3 is NaN", "column 'c1' is NaN")
    assert "nan" in reject.text.lower()
    assert ids == [0, 1, 2, 3, 5, 6, 7, 8]


def is_text(kind):
    return kind.removesuffix(".gz").endswith(("csv", "tsv", "json", "jsonl"))


def outcome(path, **options):
    """Rows of a file that may be rubbish; whatever is wrong is an error of ours."""
    try:
        for chunk in open_source(str(path), rows=5, **options).read():
            assert np.isfinite(chunk.rows).all()
            json.dumps(chunk.offset)
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


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "jsonl"])
def test_random_bytes_are_an_error(tmp_path, name):
    for seed in range(10):
        path = tmp_path / f"random.{name}"
        path.write_bytes(np.random.default_rng(seed).bytes(2000))
        assert outcome(path) == "error"


@given(st.integers(0, 10**6), st.binary(max_size=8))
def test_files_with_wrong_bytes_or_cut_off_are_errors_of_ours(
    write, tmp_path_factory, kind, where, wrong
):
    path = tmp_path_factory.getbasetemp() / kind
    rows, _ = tables(kind, [25], 3, 6, 0)
    write(path, rows)
    content = path.read_bytes()
    where %= len(content)
    tail = content[where + len(wrong) :] if wrong else b""  # nothing: cut off
    path.write_bytes(content[:where] + wrong + tail)
    assert outcome(path) in {"rows", "error"}


def test_a_file_that_is_cut_off_gives_its_rows_first(write, gather, drain, tmp_path, kind):
    rows = np.ones((40, 3), np.float32)
    whole = write(tmp_path / f"0-{kind}", rows)
    broken = tmp_path / f"1-{kind}"
    write(broken, rows)
    content = broken.read_bytes()
    broken.write_bytes(content[: int(len(content) * 0.9) - 1])
    chunks, failed = drain(open_source([whole, str(broken)], rows=4).read())
    text = kind in ("header.csv", "bare.csv", "space.csv", "a.tsv", "arrays.jsonl", "objects.jsonl")
    assert failed is None if text else str(broken) in str(failed)
    ids, found, rejects = gather(chunks)
    assert ids[:40] == list(range(40))
    assert len(found) >= 40
    assert len(rejects) <= 1  # the last line of a text


def test_files_of_other_widths_are_refused_with_both_names(write, tmp_path, kind):
    for number, width in enumerate((3, 3, 2)):
        write(tmp_path / f"{number}-{kind}", np.ones((5, width), np.float32))
    chunks = open_source(str(tmp_path)).read()
    assert [len(chunk.rows) for chunk in itertools.islice(chunks, 2)] == [5, 5]
    message = f"2-{kind} has rows of 2 numbers, and .*0-{kind} before it of 3"
    with pytest.raises(StreambitsError, match=message):
        next(chunks)
