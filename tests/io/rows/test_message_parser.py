"""Messages as rows, removals, payload and rejects; whatever a broker is between."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streambits.errors import InputError
from streambits.io.rows.message_parser import Message, MessageParser

FIRST = 1 << 16  # the id of row 0 of the message at offset 1, in messages of many rows


def as_messages(*values, keys=()):
    """JSON values, or bytes or None as they are, at the places 0, 1, ..."""
    data = [v if v is None or isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    keys = [*keys, *[None] * (len(data) - len(keys))]
    return [Message(i, f"m{i}", one, keys[i]) for i, one in enumerate(data)]


def parse(*values, keys=(), **options):
    return MessageParser(**options).batch(as_messages(*values, keys=keys), {})


def reasons(batch):
    return {reject.where: reject.reason for reject in batch.rejects}


def contents(batch):
    """What a batch holds, to be compared."""
    removals = None if batch.removals is None else [part.tolist() for part in batch.removals]
    payload = None if batch.payload is None else batch.payload.tolist()
    return batch.ids.tolist(), batch.rows.tolist(), removals, payload, batch.rejects


def raw(*rows):
    """A message in f4."""
    return np.array(rows, "<f4").tobytes()


def arrow(columns=None, **named):
    """A message in arrow, of columns by name."""
    table, sink = pa.table(columns or named), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


def vectors(*rows, kind=None):
    return pa.array(rows, pa.list_(kind or pa.float32()))


BAD = {  # format: its options, a good message, and bad ones with the rejects that they become
    "json": (
        {},
        b"[1, 2, 3]",
        [
            (b"[1, 2", {"": "it is not JSON: "}),
            (b"\xff\xfe", {"": "it is not JSON: "}),
            (b"[" * 100_000, {"": "it is not JSON: depth limit"}),
            (b"", {"": "the message is empty"}),
            (b"[1, 2]", {"": "expected 3 values, got 2"}),
            (b"[]", {"": "expected 3 values, got none"}),
            (b"[1, NaN, 2]", {"": "it is not JSON: .*; JSON has no NaN and no Infinity"}),
            (b"[1, 2, -1e999]", {"": "it is not JSON: number is infinity"}),
            (b"[1, 2, 1e200]", {"": "value 3 of 3 is 1e.200, too large to square"}),
            (b"[1, 2, true]", {"": "value 3 of 3 is True, which is not a number"}),
            (b'[1, 2, "3"]', {"": "value 3 of 3 is '3', which is not a number"}),
            (b"[1, null, 3]", {"": "value 2 of 3 is missing"}),
            (b"7", {"": "7 is not a list of numbers"}),
            (b"null", {"": "the row is missing"}),
            (b'{"v": [1, 2, 3]}', {"": r"it has no 'row', but v: name .* \(--columns\)"}),
            (b'{"id": "a", "row": [1, 2, 3]}', {"": "the id 'a' is not a 64-bit integer"}),
            (b'{"id": 9223372036854775808, "row": [1, 2, 3]}', {"": "the id 9223372036854775808"}),
            (b'{"id": 1.5, "row": [1, 2, 3]}', {"": "the id 1.5 is not a 64-bit integer"}),
            (b'{"row": null}', {"": "it removes a row, and has no 'id' that says which"}),
        ],
    ),
    "f4": (
        {"columns": 3},
        raw([1, 2, 3], [4, 5, 6]),
        [
            (b"12345", {"": "5 bytes are not rows of 3 4-byte numbers"}),
            (raw([1, 2]), {"": "8 bytes are not rows of 3 4-byte numbers"}),
            (b"", {"": "the message is empty"}),
            (
                raw([1, np.nan, 3], [1, 2, 3], [1, 2, -np.inf]),
                {", row 0": "value 2 of 3 is NaN", ", row 2": "value 3 of 3 is -inf"},
            ),
            (bytes(12 * ((1 << 16) + 1)), {"": "it has 65,537 rows without ids at .*: send ids"}),
        ],
    ),
    "arrow": (
        {"columns": "v"},
        arrow(id=[7, 8], v=vectors([1, 2, 3], [4, 5, 6])),
        [
            (b"no stream", {"": "it is not an Arrow stream: "}),
            (arrow(id=[9], v=vectors([1, 2, 3]))[:-60], {"": "it is not an Arrow stream: "}),
            (b"", {"": "the message is empty"}),
            (arrow(id=[9], w=vectors([1, 2, 3])), {"": "it has no column 'v'; it has id, w"}),
            (arrow(id=[9], v=["x"]), {"": "column 'v' is string, neither numbers nor lists"}),
            (arrow(id=[0.5], v=vectors([1, 2, 3])), {"": "the ids 'id' are double, not integers"}),
            (
                arrow(id=[9, 10, 11], v=vectors([1, 2], [1, 2, np.nan], [1, None, 3])),
                {
                    ", row 0": "expected 3 values, got 2",
                    ", row 1": "value 3 of 3 is NaN",
                    ", row 2": "value 2 of 3 is missing",
                },
            ),
            (
                arrow(id=pa.array([9, None]), v=vectors([1, 2, 3], [1, 2, 3])),
                {", row 1": "the id is missing"},
            ),
            (
                arrow(id=["a", "b"], v=vectors([1, 2, 3], [1, 2, 3])),
                {
                    ", row 0": "the id 'a' is not a 64-bit integer",
                    ", row 1": "the id 'b' is not a 64-bit integer",
                },
            ),
        ],
    ),
}


@pytest.mark.parametrize("layout", BAD)
def test_what_cannot_be_used_is_a_reject_with_its_place(layout):
    """In any batches; the good rows before, within and behind are all there."""
    options, good, bad = BAD[layout]
    messages = as_messages(good, *(data for data, _ in bad), good)
    batch = MessageParser(layout, **options).batch(messages, {})
    wanted = {
        f"m{n}{row}": text for n, (_, all_) in enumerate(bad, 1) for row, text in all_.items()
    }
    assert list(reasons(batch)) == list(wanted)
    for reject in batch.rejects:
        assert re.search(wanted[reject.where], reject.reason), reject.reason
        assert len(reject.text) <= 1000
    one = len(MessageParser(layout, **options).batch(messages[:1], {}).ids)
    fine = {"json": 0, "f4": 1, "arrow": 1}[layout]  # rows beside bad ones of the same message
    assert len(batch.ids) == 2 * one + fine
    parser = MessageParser(layout, **options)
    parts = [parser.batch(messages[start : start + 3], {}) for start in range(0, len(messages), 3)]
    assert tuple(reject for part in parts for reject in part.rejects) == batch.rejects


def test_the_vector_is_under_row_or_under_what_columns_names():
    assert parse({"v": [9], "row": [1, 2]}).rows.tolist() == [[1, 2]]
    for columns in ("b", ("b",)):
        assert parse({"a": [1], "b": [2]}, columns=columns).rows.tolist() == [[2]]
    two = parse({}, [1], columns="b")
    assert reasons(two)["m0"].startswith("it has no 'b', but nothing: name its list")
    assert two.rows.tolist() == [[1]]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"format": "f5"}, "format"),
        ({"columns": ["a", "b"]}, "it is the number of values per row, or the name of one list"),
        ({"columns": []}, r"columns is \[\]"),
        ({"columns": 0}, "columns"),
        ({"columns": 1.5}, "columns"),
        ({"columns": ["a", "a"], "format": "arrow"}, "each of them once"),
        ({"format": "f4"}, r"say how many numbers a row has with columns \(--columns 64\)"),
        ({"columns": "v", "format": "f4"}, "columns names a part of a message"),
        ({"keep": ("text",), "format": "f4", "columns": 2}, "keep names a part of a message"),
        ({"removed": "gone", "format": "f4", "columns": 2}, "removed names a part of a message"),
        ({"id_key": "name", "format": "f4", "columns": 2}, "ids names a part of a message"),
        ({"id_key": "@key", "format": "arrow"}, "ids is '@key', .* name their column of ids"),
        ({"keep": ("a", "a")}, "each of them once"),
        ({"keep": [1]}, "it must be names"),
        ({"removed": "id"}, "removed is 'id', which is the name of something else"),
        ({"removed": "row"}, "removed is 'row', which is the name of something else"),
    ],
)
def test_options_that_do_not_fit(options, complaint):
    with pytest.raises(InputError, match=complaint):
        MessageParser(**options)


def test_the_identity_is_as_it_always_was():
    always = {"format": "json", "id_key": "id", "row_key": "row", "columns": None}
    parser = MessageParser()
    parser.batch(as_messages([1, 2]), {})
    assert parser.identity() == MessageParser().identity() == always
    more = MessageParser(columns="v", keep="text", removed="gone").identity()
    assert more == {**always, "row_key": "v", "keep": ["text"], "removed": "gone"}
    assert MessageParser("arrow", columns=["x", "y"]).identity()["row_key"] == ["x", "y"]


@pytest.mark.parametrize(
    ("offset", "text"), [({}, None), ({"columns": 1}, False), ({"columns": 1, "text": True}, True)]
)
def test_offsets_of_older_versions_say_the_same(offset, text):
    parser = MessageParser().resumed(offset)
    assert (parser.columns, parser.text) == (offset.get("columns"), text)


def test_a_null_removes_and_says_where_in_the_batch():
    rows = [(7, None), (7, [1]), (8, [2]), (7, None), (9, [3]), (8, None)]
    found = parse(*({"id": name, "row": row} for name, row in rows))
    names, lists = zip(*rows, strict=True)
    same = parse(
        *(arrow(id=names[some], v=vectors(*lists[some])) for some in (slice(2), slice(2, 6))),
        format="arrow",
    )
    for batch in (found, same):
        assert batch.ids.tolist() == [7, 8, 9]
        assert [part.tolist() for part in batch.removals] == [[7, 7, 8], [0, 2, 3]]
        assert batch.removals.ids.dtype == batch.removals.at.dtype == np.int64
        assert batch.removed.tolist() == [7, 8]
        assert batch.rejects == ()
    assert parse({"id": 7, "row": [1]}).removals is None
    keyed = parse({"id": 1, "row": None}, keys=[b"7"], id_key="@key")
    assert keyed.removals.ids.tolist() == [7]


def test_a_mark_removes():
    found = parse(
        {"id": 1, "row": [1], "gone": False},
        {"id": 2, "row": [1], "gone": True},
        {"id": 3, "gone": "true"},
        {"id": 4, "row": [4], "gone": "false"},
        {"id": 5, "row": [5], "gone": None},
        {"id": 6, "row": [5], "gone": "maybe"},
        {"id": 6, "row": [5], "gone": [1]},
        {"row": [5], "gone": True},
        {"id": 1, "row": None},
        removed="gone",
    )
    assert found.ids.tolist() == [1, 4, 5]
    assert [part.tolist() for part in found.removals] == [[2, 3, 1], [1, 1, 3]]
    assert reasons(found) == {
        "m5": "'gone' is 'maybe', neither true nor false",
        "m6": "'gone' is [1], neither true nor false",
        "m7": "it removes a row, and has no 'id' that says which",
    }
    gone = pa.array([False, True, None, None])
    same = arrow(id=[1, 2, 3, 1], v=vectors([1], [1], [3], None), gone=gone)
    options = {"format": "arrow", "removed": "gone"}
    batch = parse(same, arrow(v=vectors([1]), gone=[True]), **options)
    assert batch.ids.tolist() == [1, 3]
    assert [part.tolist() for part in batch.removals] == [[2, 1], [1, 2]]
    assert reasons(batch) == {"m1": "it may remove rows, and has no 'id' that says which"}


def test_ids_are_texts_or_whole_numbers_not_both():
    rows = [("a", [1]), ("7", [2]), (7, [3]), ("", [5]), ("a", None), (3, None)]
    found = parse(*({"id": name, "row": row} for name, row in rows), {"row": [4]})
    assert found.ids.dtype.kind == "T"
    assert found.ids.tolist() == ["a", "7"]
    assert found.removals.ids.tolist() == found.removed.tolist() == ["a"]
    assert found.offset == {"columns": 1, "text": True}
    assert reasons(found) == {
        "m2": "the id 7 is not a text, as those before it are",
        "m3": "the id is missing",
        "m5": "the id 3 is not a text, as those before it are",
        "m6": "it has no id, and the ids of this stream are texts",
    }
    assert "cannot hold" in reasons(parse({"id": "a\0b", "row": [1]}))["m0"]
    texts = arrow(id=["a"], v=vectors([1]))
    batch = parse(texts, arrow(v=vectors([2])), arrow(id=[7], v=vectors([2])), format="arrow")
    assert batch.ids.tolist() == ["a"]
    assert reasons(batch) == {
        "m1": "it has no ids, and the ids of this stream are texts",
        "m2, row 0": "the id 7 is not a text, as those before it are",
    }


def test_a_tombstone_removes_the_id_that_is_its_key():
    for layout, row in (("json", {"id": 7, "row": [1]}), ("arrow", arrow(id=[7], v=vectors([1])))):
        found = parse(row, *[None] * 5, keys=[b"7", b"7", None, b"x", b"", b"\xff"], format=layout)
        assert [part.tolist() for part in found.removals] == [[7], [1]]
        assert reasons(found) == {
            "m2": "the message has no key, which would be its id",
            "m3": "the id 'x' is not a 64-bit integer",
            "m4": "the message has no key, which would be its id",
            "m5": "its key is not UTF-8 text, so it cannot be an id",
        }
    found = parse({"id": "007", "row": [1]}, None, None, keys=[None, b"007", b"7"])
    assert found.removals.ids.tolist() == ["007", "7"]


@pytest.mark.parametrize(
    ("key", "name"), [(b"12", 12), (b"-3", -3), (b"0", 0), (b"007", "007"), (b"-0", "-0")]
)
def test_a_tombstone_before_all_else_is_a_number_if_it_is_written_as_one(key, name):
    assert parse(None, keys=[key]).removals.ids.tolist() == [name]


@pytest.mark.parametrize(
    ("layout", "message", "options"),
    [
        ("json", b"[1]", {}),
        ("f4", raw([1]), {"columns": 1}),
        ("arrow", arrow(v=vectors([1])), {}),
    ],
)
def test_a_tombstone_is_refused_where_ids_are_places(layout, message, options):
    """Its key names something else: to remove the row at that place would be wrong."""
    found = parse(message, None, keys=[b"1", b"0"], format=layout, **options)
    assert (found.ids.tolist(), found.removals) == ([0], None)
    assert "ids='@key'" in reasons(found)["m1"]
    again = MessageParser(layout, **options).resumed(found.offset)
    assert again.batch(as_messages(None, keys=[b"0"]), {}).removals is None


@pytest.mark.parametrize("layout", ["json", "f4"])
def test_keys_may_be_the_ids(layout):
    one, options = (raw([1]), {"columns": 1}) if layout == "f4" else (b"[1]", {})
    options |= {"keys": [b"7", b"x", b"9", b"7", None], "format": layout}
    whole = parse(one, one, one, None, one, id_key="@key", **options)
    assert (whole.ids.tolist(), whole.removals.ids.tolist()) == ([7, 9], [7])
    assert list(reasons(whole)) == ["m1", "m4"]
    texts = parse(one, one, one, None, one, id_key="@key:text", **options)
    assert (texts.ids.tolist(), texts.removals.ids.tolist()) == (["7", "x", "9"], ["7"])
    bad = parse(raw([np.nan]), raw([1]), keys=[b"x", b"7"], format="f4", columns=1, id_key="@key")
    assert bad.ids.tolist() == [7]  # what is bad decides nothing
    two = parse(raw([1], [2]), keys=[b"7"], format="f4", columns=1, id_key="@key")
    assert reasons(two) == {"m0": "it has 2 rows, and its key can name only one"}


def test_ids_of_many_rows_are_made_of_partition_offset_and_row():
    rows = raw([1], [np.nan], [3])
    places = [(1 << 48) + 5, (1 << 32) - 1, 1 << 32]
    messages = [Message(place, f"m{place}", rows) for place in places]
    batch = MessageParser("f4", columns=1).batch(messages, {})
    last = ((1 << 32) - 1) << 16
    assert batch.ids.tolist() == [(1 << 48) + 5 * FIRST, (1 << 48) + 5 * FIRST + 2, last, last + 2]
    assert "offsets below 4,294,967,296 and at most 65,536 rows" in batch.rejects[-1].reason
    same = MessageParser("arrow").batch([Message(1, "m", arrow(v=vectors([1], [2])))], {})
    assert same.ids.tolist() == [FIRST, FIRST + 1]


def test_arrow_columns_are_those_of_arrow_files():
    lists = parse(arrow(id=["a"], v=vectors([1, 2]), w=["x"]), format="arrow", keep="w")
    assert contents(lists)[:4] == (["a"], [[1, 2]], None, [["x"]])
    assert lists.rows.dtype == np.float32
    fixed = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2, 3, 4]), 2)
    assert parse(arrow(v=fixed), format="arrow").rows.tolist() == [[1, 2], [3, 4]]
    named = arrow(label=[1], v=vectors([5]), name=[3])
    assert contents(parse(named, format="arrow", columns="v", id_key="name"))[:2] == ([3], [[5]])
    assert (
        "'label', which by its name is not"
        in reasons(parse(arrow(label=[1], x=[1.0]), format="arrow"))["m0"]
    )
    numbers = {"id": [7], "x": [1.0], "y": [2.0]}
    swapped = {"y": [4.0], "x": [3.0], "id": [8]}
    found = parse(arrow(numbers), arrow(swapped), arrow(x=[1.0]), format="arrow")
    assert found.rows.tolist() == [[1, 2], [3, 4]]  # by name, as the first has them
    assert found.offset["names"] == ["x", "y"]
    assert reasons(found) == {"m2": "it has no column 'y'; it has x"}
    resumed = MessageParser("arrow").resumed(json.loads(json.dumps(found.offset)))
    assert resumed.batch(as_messages(arrow(swapped)), {}).rows.tolist() == [[3, 4]]
    picked = parse(arrow(numbers), format="arrow", columns=["y", "x"])
    assert picked.rows.tolist() == [[2, 1]]
    assert parse(arrow(v=vectors(kind=pa.float64())), format="arrow").rejects == ()


def test_other_values_are_kept_as_texts():
    found = parse(
        {"id": 1, "row": [1], "text": "\u00e4", "n": 2, "more": {"a": [1, None]}},
        {"id": 2, "row": [1], "text": None, "n": True},
        [3],
        keep=("text", "n", "more"),
    )
    assert found.payload.tolist() == [
        ["\u00e4", "2", '{"a": [1, null]}'],
        [None, "true", None],
        [None, None, None],
    ]
    assert parse({"id": 1, "row": None}, keep="text").payload.shape == (0, 1)
    assert parse({"id": 1, "row": [1], "text": "x"}).payload is None


names = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b", "0", "1"]))
lists = st.lists(st.integers(-2, 2), min_size=1, max_size=2) | st.none()
objects = st.fixed_dictionaries(
    {},
    optional={
        "id": names,
        "row": lists | st.just("no"),
        "v": lists,
        "text": st.sampled_from(["x", None, 5]),
        "gone": st.booleans(),
    },
)
tables = st.lists(st.tuples(st.integers(0, 3), lists, st.booleans()), max_size=4)
texts = st.lists(st.tuples(st.sampled_from("ab"), lists, st.booleans()), min_size=1, max_size=3)


@st.composite
def streams(draw):
    """A format, options that it takes, and messages with their keys."""
    layout = draw(st.sampled_from(["json", "arrow", "f4"]))
    options = {"format": layout}
    if layout == "json":
        values = objects | lists | st.just(b"{") | st.none() | st.just(b"")
        options["columns"] = draw(st.sampled_from([None, 1, 2, "v"]))
    elif layout == "f4":
        values = st.lists(st.sampled_from([0.0, 1.0, np.nan]), max_size=5).map(raw) | st.none()
        options["columns"] = draw(st.integers(1, 2))
    else:
        values = (tables | texts).map(
            lambda rows: arrow(
                {"id": [r[0] for r in rows], "v": vectors(*(r[1] for r in rows))}
                | {"gone": [r[2] for r in rows], "text": ["x"] * len(rows)}
                if rows
                else {"v": vectors()}
            )
        )
        values = values | st.just(b"no") | st.none()
        options["columns"] = draw(st.sampled_from([None, 1, 2, "v"]))
    if layout != "arrow":
        options["id_key"] = draw(st.sampled_from(["id", "@key", "@key:text"]))
    if layout != "f4":
        options |= draw(st.sampled_from([{}, {"keep": ("text",), "removed": "gone"}]))
    keys = st.sampled_from([None, b"0", b"1", b"a", b"\xff", b""])
    return options, draw(st.lists(st.tuples(values, keys), max_size=10))


@settings(max_examples=100)
@given(streams(), st.data())
def test_the_table_is_the_same_in_any_batches_and_from_any_offset(table_of, stream, data):
    """Batches have no influence, and neither does a stop after any of them."""
    options, pairs = stream
    messages = as_messages(*(v for v, _ in pairs), keys=[key for _, key in pairs])
    whole = MessageParser(**options).batch(messages, {})
    table, rejects, kinds = {}, [], set()
    source = MessageParser(**options)
    parser, offset, start = source.resumed({}), {}, 0
    while start < len(messages):
        end = start + data.draw(st.integers(1, 4))
        batch = parser.batch(messages[start:end], {})
        again = source.resumed(offset).batch(messages[start:end], {})
        assert contents(again) == contents(batch)
        table, start, offset = table_of([batch], table), end, json.loads(json.dumps(batch.offset))
        rejects += batch.rejects
        kinds |= {batch.ids.dtype.kind} if len(batch.ids) else set()
        kinds |= {batch.removals.ids.dtype.kind} if batch.removals else set()
    assert table == table_of([whole])
    assert tuple(rejects) == whole.rejects
    assert offset == whole.offset or not messages
    assert len(kinds) <= 1
    gone = [] if whole.removals is None else whole.removals.ids.tolist()
    if options["format"] == "json":
        assert len(gone) + len(whole.ids) + len(rejects) == len(messages)  # nothing is lost
    assert not set(whole.removed.tolist()) & set(table)


@given(st.integers(0), st.integers(0, 255), st.booleans())
def test_a_damaged_arrow_message_is_a_reject_or_rows(place, byte, cut):
    good = arrow(id=["a", "b", "c"], v=vectors([1, 2], [3, 4], [5, 6]))
    place %= len(good)
    damaged = good[:place] if cut else good[:place] + bytes([byte]) + good[place + 1 :]
    batch = parse(damaged, format="arrow")
    assert len(batch.ids) == len(batch.rows)


def test_the_example_of_the_page_on_messages():
    page = (Path(__file__).parents[3] / "docs" / "messages.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(compile(example, "messages.md", "exec"), names)
    batch = parse(names["payload"], format="arrow")
    assert batch.ids.tolist() == [f"doc-{i}" for i in range(256)]
    assert np.array_equal(batch.rows, names["rows"])
