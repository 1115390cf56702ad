"""Texts as ids, rows that remove ids, and columns that are kept, in every format that has them."""

import csv
import gzip
import io
import itertools
import json
import tempfile
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

from conformance import check_source
from streambits.io.rows import open_source

OPTIONS = {"columns": "v", "ids": "id", "removed": "gone", "keep": ["text", "url"]}
WIDE = OPTIONS | {"columns": ["a", "b"]}  # of formats without lists


def _table(events):
    """Columns of events: (id, vector or None, whether it removes, text)."""
    names, vectors, gone, texts = zip(*events, strict=True) if events else ((),) * 4
    kind = pa.string() if any(isinstance(name, str) for name in names) else pa.int64()
    return pa.table(
        {
            "id": pa.array(names, kind),
            "v": pa.array(vectors, pa.list_(pa.float64())),
            "gone": pa.array(gone, pa.bool_()),
            "text": pa.array(texts, pa.string()),
            "url": pa.array([None] * len(events), pa.string()),
        }
    )


def _lines(events):
    names = ("id", "v", "gone", "text")
    return "".join(json.dumps(dict(zip(names, one, strict=True))) + "\n" for one in events).encode()


def _nulls(events):
    """Removed by a null vector, not by a column."""
    return _lines([(one[0], None if one[2] else one[1], None, one[3]) for one in events])


def _cells(events):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "a", "b", "gone", "text", "url"])
    for name, vector, gone, kept in events:
        flag = "" if gone is None else str(gone).lower()
        writer.writerow([name, *(vector or ["", ""]), flag, kept or "", ""])
    return text.getvalue().encode()


FILES = {
    "a.csv": lambda path, events: path.write_bytes(_cells(events)),
    "a.csv.gz": lambda path, events: path.write_bytes(gzip.compress(_cells(events), 1)),
    "a.jsonl": lambda path, events: path.write_bytes(_lines(events)),
    "nulls.jsonl": lambda path, events: path.write_bytes(_nulls(events)),
    "a.parquet": lambda path, events: parquet.write_table(_table(events), path, row_group_size=5),
    "a.feather": lambda path, events: feather.write_feather(_table(events), path, chunksize=9),
}


@pytest.fixture(params=FILES, scope="module")
def name(request):
    return request.param


def options_of(name):
    return WIDE if "csv" in name else OPTIONS


def expected(events):
    left = {}
    for name, vector, gone, text in events:
        if gone:
            left.pop(name, None)
        elif name is not None and vector is not None and None not in vector:
            left[name] = [vector, [text or None, None]]
    return left


def events_of(kind):
    names = st.integers(-3, 3) if kind is int else st.sampled_from(["a", "b", "é", "7 8", "x,y"])
    vectors = st.lists(st.integers(0, 99).map(float), min_size=2, max_size=2)
    good = st.tuples(names, vectors, st.sampled_from([None, False]), st.sampled_from(["t", None]))
    gone = st.tuples(names, st.none() | vectors, st.just(True), st.none())
    bad = st.tuples(names, st.just([1.0, None]), st.none(), st.just("bad"))
    return st.lists(st.one_of(good, good, gone, bad), max_size=25)


@settings(max_examples=10)
@given(
    events=st.sampled_from([int, str]).flatmap(events_of),
    cuts=st.lists(st.integers(0, 25) | st.just(0), max_size=2),  # files without rows, too
    sizes=st.tuples(st.integers(1, 30), st.integers(1, 30)),
)
def test_the_end_is_the_same_from_any_offset(table_of, name, events, cuts, sizes):
    ends = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    with tempfile.TemporaryDirectory() as folder:
        for number, (start, end) in enumerate(itertools.pairwise(ends)):
            FILES[name](Path(folder) / f"{number}-{name}", events[start:end])
        options = options_of(name)
        batches = list(open_source(folder, rows=sizes[0], **options).read())
        assert table_of(batches) == expected(events)
        for place, batch in enumerate(batches):
            rest = list(open_source(folder, rows=sizes[1], **options).read(batch.offset))
            assert table_of([*batches[: place + 1], *rest]) == expected(events)


EVENTS = [
    *((f"id {i % 9}", [float(i), 2.0], None, f"text {i}") for i in range(20)),
    ("id 3", None, True, None),
    ("id 4", [1.0, None], False, "a bad row"),
    ("id 3", [5.0, 6.0], False, None),
    ("id 5", None, True, None),
]


@pytest.mark.parametrize("text", [True, False])
def test_such_a_source_passes_the_kit(name, tmp_path, text):
    events = EVENTS if text else [(int(one[0][3:]), *one[1:]) for one in EVENTS]
    FILES[name](tmp_path / f"0-{name}", events[:15])
    FILES[name](tmp_path / f"1-{name}", events[15:])
    check_source(lambda: open_source(tmp_path, rows=6, **options_of(name)))


def test_what_a_batch_has(name, tmp_path):
    FILES[name](tmp_path / name, EVENTS[18:])
    [batch] = open_source(tmp_path / name, **options_of(name)).read()
    assert batch.ids.tolist() == ["id 0", "id 1", "id 3"]
    assert batch.ids.dtype.kind == "T"
    assert batch.removals.ids.tolist() == ["id 3", "id 5"]
    assert batch.removals.at.tolist() == [2, 3]
    assert batch.removed.tolist() == ["id 5"]
    assert batch.payload.tolist() == [["text 18", None], ["text 19", None], [None, None]]
    assert len(batch.rejects) == 1


def test_an_id_of_the_other_kind_is_a_reject_that_says_so(name, tmp_path, gather):
    FILES[name](tmp_path / f"0-{name}", [("a", [1.0, 2.0], None, None)])
    FILES[name](tmp_path / f"1-{name}", [(7, [3.0, 4.0], None, None), (8, None, True, None)])
    batches = list(open_source(tmp_path, **options_of(name)).read())
    ids, _, rejects = gather(batches)
    if "csv" in name:  # where all is text
        assert (ids, rejects, batches[1].removals.ids.tolist()) == (["a", "7"], [], ["8"])
    else:
        assert ids == ["a"]
        assert [reject.reason for reject in rejects] == [
            "the id 7 is not a text, as those before it are",
            "the id 8 is not a text, as those before it are",
        ]
    rest = gather(open_source(tmp_path, **options_of(name)).read(batches[0].offset))
    assert (rest[0], rest[2]) == (ids[1:], rejects)
    FILES[name](tmp_path / f"0-{name}", [(7, [1.0, 2.0], None, None)])
    FILES[name](tmp_path / f"1-{name}", [("a", [3.0, 4.0], None, None)])
    ids, _, [reject] = gather(open_source(tmp_path, **options_of(name)).read())
    assert (ids, reject.reason) == ([7], "the id 'a' is not a 64-bit integer")


def test_the_first_good_row_decides_the_kind(name, tmp_path, gather):
    events = [("a", [1.0, None], None, None), (None, [1.0, 2.0], None, None)]
    if "parquet" not in name and "feather" not in name:  # where the type of the column decides
        FILES[name](tmp_path / f"0-{name}", [*events, (7, [1.0, 2.0], None, None)])
        assert gather(open_source(tmp_path, **options_of(name)).read())[0] == [7]
    FILES[name](tmp_path / f"0-{name}", [*events, ("b", [1.0, 2.0], None, None)])
    ids, _, rejects = gather(open_source(tmp_path, **options_of(name)).read())
    assert (ids, rejects[1].reason) == (["b"], "the id is missing")


@pytest.mark.parametrize("value", ["yes", "2", "null"])
def test_what_is_neither_true_nor_false_is_a_reject(read, value):
    content = f"id,a,gone\n1,1,{value}\n2,2,TRUE\n3,3, 0\n4,x,1\n"
    ids, _, [reject] = read("a.csv", content, ids="id", removed="gone")
    assert (ids, reject.reason) == ([3], f"column 'gone' is '{value}', neither true nor false")
    content = f'{{"id": 1, "v": [1], "gone": "{value}"}}\n{{"id": 2, "v": [1], "gone": null}}\n'
    ids, _, [reject] = read("a.jsonl", content, ids="id", removed="gone")
    assert (ids, reject.reason) == ([2], f"'gone' is '{value}', neither true nor false")


def test_in_json_a_null_removes_only_where_there_are_ids(tmp_path, gather):
    path = tmp_path / "a.jsonl"
    lines = [{"id": 7, "v": [1, 2]}, {"id": 7, "v": None}, {"id": 8}, {"id": "x", "v": None}]
    path.write_text("\n".join(map(json.dumps, lines)))
    [batch] = open_source(path, ids="id").read()
    assert batch.removals.ids.tolist() == [7]
    assert [reject.reason for reject in batch.rejects] == [
        "it has no 'v'",
        "the id 'x' is not a 64-bit integer",
    ]
    [batch] = open_source(path, columns="v").read()
    assert batch.removals is None
    assert len(batch.rejects) == 3


def test_what_is_kept_is_text(tmp_path):
    values = ["a", None, 5, 1.5, True, [1, None], {"b": "é"}, ""]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"v": [1], "k": value}) + "\n" for value in values))
    [batch] = open_source(path, keep="k").read()
    texts = ["a", None, "5", "1.5", "true", "[1, null]", '{"b": "é"}', ""]
    assert batch.payload[:, 0].tolist() == texts
    table = pa.table(
        {"v": [[1.0]] * 2, "label": [3, None], "c": pa.array(["x", "y"]).dictionary_encode()}
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    [batch] = open_source(tmp_path / "a.parquet", keep=["c", "label"]).read()
    assert batch.payload.tolist() == [["x", "3"], ["y", None]]


TEXTS = ["00000000-0000-0000-0000-000000000007", "12345678-1234-5678-1234-567812345678"]
TYPES = {
    "string": pa.array(TEXTS),
    "large": pa.array(TEXTS, pa.large_string()),
    "view": pa.array(TEXTS, pa.string_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "bytes": pa.array([UUID(text).bytes for text in TEXTS], pa.binary(16)),
    "uuid": pa.array([UUID(text).bytes for text in TEXTS], pa.uuid()),
}


@pytest.mark.parametrize("form", TYPES)
def test_texts_of_every_type(tmp_path, gather, form):
    table = pa.table({"id": TYPES[form], "v": [[1.0], [2.0]]})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    parquet.write_table(table, tmp_path / "a.parquet")
    for path in ("a.arrow", "a.parquet"):
        assert gather(open_source(tmp_path / path, ids="id").read())[0] == TEXTS


def test_half_characters_are_not_ids(read):
    content = '{"id": "a", "v": [1]}\n{"id": "\\ud800", "v": [1]}\n'
    ids, _, [reject] = read("a.jsonl", content, ids="id")
    assert (ids, reject.reason) == (["a"], r"the id '\ud800' has half a character")
