"""Messages as rows, removals, payload and rejects; whatever a broker is between."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streambits.errors import InputError
from streambits.io.rows.message_parser import Message, MessageParser


def as_messages(*values, keys=()):
    """JSON values, or bytes or None as they are, at the places 0, 1, ..."""
    data = [v if v is None or isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    keys = [*keys, *[None] * (len(data) - len(keys))]
    return [Message(i, f"m{i}", one, keys[i]) for i, one in enumerate(data)]


def parse(*values, keys=(), **options):
    return MessageParser(**options).batch(as_messages(*values, keys=keys), {})


def reasons(batch):
    return {reject.where: reject.reason for reject in batch.rejects}


def known(batch):
    """What a batch holds, to be compared."""
    removals = None if batch.removals is None else [part.tolist() for part in batch.removals]
    payload = None if batch.payload is None else batch.payload.tolist()
    return batch.ids.tolist(), batch.rows.tolist(), removals, payload, batch.rejects


def test_the_vector_is_under_row_or_the_only_list_of_numbers():
    assert parse({"v": [9], "row": [1, 2]}).rows.tolist() == [[1, 2]]
    found = parse({"id": 4, "text": "hello", "tags": ["a"], "embedding": [1, 2]})
    assert (found.ids.tolist(), found.rows.tolist()) == ([4], [[1, 2]])
    assert found.offset == {"columns": 2, "row_key": "embedding"}
    two = parse({"a": [1], "b": [2]}, {"id": [1], "text": "x"}, {})
    assert reasons(two) == {
        "m0": "it must have one list of numbers, or columns names it; got several: a, b",
        "m1": "it must have one list of numbers, or columns names it; got none in id, text",
        "m2": "it must have one list of numbers, or columns names it; got none in nothing",
    }
    assert two.offset == {"columns": None}
    assert parse({"a": [1], "b": [2]}, columns="b").rows.tolist() == [[2]]
    assert parse({"a": [1], "b": [2]}, columns=("b",)).rows.tolist() == [[2]]


@pytest.mark.parametrize("first", [{"row": [1, 2]}, [1, 2]])
def test_the_first_good_message_decides_where_the_vector_is(first):
    found = parse({"row": "no"}, first, {"embedding": [3, 4]})
    assert list(reasons(found)) == ["m0", "m2"]
    assert reasons(found)["m2"] == "it has no 'row', but embedding"
    assert found.offset == {"columns": 2}  # as it always was
    found = parse({"embedding": [3, 4]}, {"row": [1, 2]}, first)
    assert list(reasons(found)) == (["m1"] if isinstance(first, list) else ["m1", "m2"])


@pytest.mark.parametrize("layout", ["json", "f4"])
def test_columns_may_be_a_number(layout):
    def data(row):
        return np.array(row, "<f4").tobytes() if layout == "f4" else row

    for columns in (2, "2", ["2"]):
        found = parse(data([1]), data([1, 2]), format=layout, columns=columns)
        assert (found.rows.tolist(), list(reasons(found))) == ([[1, 2]], ["m0"])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"columns": ["a", "b"]}, "for a broker it is the number of values per row, or the name"),
        ({"columns": []}, r"columns is \[\]"),
        ({"columns": 0}, "columns"),
        ({"columns": 1.5}, "columns"),
        ({"columns": "v", "format": "f4"}, "columns names a part of an object"),
        ({"keep": ("text",), "format": "f4"}, "keep names a part of an object"),
        ({"removed": "gone", "format": "f4"}, "removed names a part of an object"),
        ({"keep": ("a", "a")}, "each of them once"),
        ({"keep": [1]}, "it must be names"),
        ({"removed": "id"}, "removed is 'id', which is the name of something else"),
    ],
)
def test_options_that_do_not_fit(options, complaint):
    with pytest.raises(InputError, match=complaint):
        MessageParser(**options)


def test_the_identity_has_only_what_was_asked_for():
    always = {"format": "json", "id_key": "id", "row_key": "row", "columns": None}
    assert MessageParser().identity() == always
    assert MessageParser(row_key="row").identity() == always
    assert MessageParser(columns="v").identity() == {**always, "row_key": "v"}
    more = MessageParser(keep="text", removed="gone").identity()
    assert more == {**always, "keep": ["text"], "removed": "gone"}
    parser = MessageParser()
    parser.batch(as_messages({"v": [1, 2]}), {})
    assert parser.identity() == always  # before and after reading


def test_a_null_removes_and_says_where_in_the_batch():
    found = parse(
        {"id": 7, "row": None},
        {"id": 7, "row": [1]},
        {"id": 8, "row": [2]},
        {"id": 7, "row": None},
        {"id": 9, "row": [3]},
        {"id": 8, "row": None},
    )
    assert found.ids.tolist() == [7, 8, 9]
    assert [part.tolist() for part in found.removals] == [[7, 7, 8], [0, 2, 3]]
    assert found.removals.ids.dtype == found.removals.at.dtype == np.int64
    assert found.removed.tolist() == [7, 8]
    assert found.rejects == ()
    assert parse({"id": 7, "row": [1]}).removals is None


def test_a_null_is_where_the_vector_would_be():
    gone = parse({"id": 7, "embedding": None}, {"id": 1, "row": None, "text": "x"})
    assert gone.removals.ids.tolist() == [7, 1]  # the name is not yet known
    marked = parse({"id": 7, "v": None, "gone": False}, removed="gone")
    assert marked.removals.ids.tolist() == [7]
    keyed = parse({"id": 1, "v": None}, keys=[b"7"], id_key="@key")
    assert keyed.removals.ids.tolist() == [7]
    found = parse(
        {"id": 1, "embedding": [1], "text": "x"},
        {"id": 7, "embedding": None, "text": "x"},
        {"id": 8, "text": None},
        {"id": 8, "row": None},
        {"embedding": None},
        {"id": None, "embedding": None},
        {"id": 8, "embedding": None, "text": None},
    )
    assert found.removals.ids.tolist() == [7, 8]
    assert reasons(found) == {
        "m2": "it has no 'embedding', but id, text",
        "m3": "it has no 'embedding', but id, row",
        "m4": "it removes a row, and has no 'id' that says which",
        "m5": "the id is missing",
    }


def test_a_mark_removes():
    found = parse(
        {"id": 1, "row": [1], "gone": False},
        {"id": 2, "row": [1], "gone": True},
        {"id": 3, "gone": "true"},
        {"id": 4, "row": [4], "gone": "false"},
        {"id": 5, "row": [5], "gone": None},
        {"id": 6, "row": [5], "gone": "maybe"},
        {"row": [5], "gone": True},
        {"id": 1, "row": None},
        removed="gone",
    )
    assert found.ids.tolist() == [1, 4, 5]
    assert [part.tolist() for part in found.removals] == [[2, 3, 1], [1, 1, 3]]
    assert reasons(found) == {
        "m5": "'gone' is 'maybe', neither true nor false",
        "m6": "it removes a row, and has no 'id' that says which",
    }


def test_ids_are_texts_or_whole_numbers_not_both():
    found = parse(
        {"id": "a", "row": [1]},
        {"id": "7", "row": [2]},
        {"id": 7, "row": [3]},
        {"row": [4]},
        {"id": "", "row": [5]},
        {"id": "a", "row": None},
        {"id": 3, "row": None},
    )
    assert found.ids.dtype.kind == "T"
    assert found.ids.tolist() == ["a", "7"]
    assert found.removals.ids.tolist() == found.removed.tolist() == ["a"]
    assert found.offset == {"columns": 1, "text": True}
    assert reasons(found) == {
        "m2": "the id '7' is a whole number, and the ids of this stream are texts",
        "m3": "it has no id, and the ids of this stream are texts",
        "m4": "the id is missing",
        "m6": "the id '3' is a whole number, and the ids of this stream are texts",
    }
    found = parse([1], {"id": "a", "row": [1]})
    assert reasons(found)["m1"] == (
        "the id 'a' is a text, and the ids of this stream are whole numbers"
    )


@pytest.mark.parametrize("name", ["a\0b", "\ud83d"])
def test_texts_that_no_file_can_hold_are_no_ids(name):
    assert "cannot hold" in reasons(parse({"id": name, "row": [1]}))["m0"]


def test_a_tombstone_removes_the_id_that_is_its_key():
    found = parse({"id": 7, "row": [1]}, None, None, None, None, keys=[b"7", b"7", None, b"x", b""])
    assert [part.tolist() for part in found.removals] == [[7], [1]]
    assert reasons(found) == {
        "m2": "the message has no key, which would be its id",
        "m3": "the id 'x' is a text, and the ids of this stream are whole numbers",
        "m4": "the message has no key, which would be its id",
    }
    found = parse({"id": "007", "row": [1]}, None, None, keys=[None, b"007", b"7"])
    assert found.removals.ids.tolist() == ["007", "7"]
    bad = parse({"id": 7, "row": [1]}, None, b"", keys=[None, b"\xff", b"7"])
    assert reasons(bad) == {
        "m1": "its key is not UTF-8 text, so it cannot be an id",
        "m2": "the message is empty",
    }


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (b"12", 12),
        (b"-3", -3),
        (b"0", 0),
        (b"007", "007"),
        (b"-0", "-0"),
        (b"1" * 5000, "1" * 5000),
    ],
)
def test_a_tombstone_before_all_else_is_a_number_if_it_is_written_as_one(key, name):
    assert parse(None, keys=[key]).removals.ids.tolist() == [name]


def test_a_tombstone_is_refused_where_ids_are_places():
    """Its key names something else: to remove the row at that place would be wrong."""
    found = parse([1], [2], None, keys=[b"1", b"0", b"1"])
    assert found.ids.tolist() == [0, 1]
    assert "ids='@key'" in reasons(found)["m2"]
    assert found.offset == {"columns": 1, "places": True}
    raw = np.ones(1, "<f4").tobytes()
    assert list(reasons(parse(raw, None, keys=[None, b"0"], format="f4"))) == ["m1"]


@pytest.mark.parametrize("layout", ["json", "f4"])
def test_keys_may_be_the_ids(layout):
    raw = np.ones(1, "<f4").tobytes() if layout == "f4" else b"[1]"
    keys = [b"7", b"x", b"9", b"7", None]
    whole = parse(raw, raw, raw, None, raw, keys=keys, id_key="@key", format=layout)
    assert (whole.ids.tolist(), whole.removals.ids.tolist()) == ([7, 9], [7])
    assert list(reasons(whole)) == ["m1", "m4"]
    texts = parse(raw, raw, raw, None, raw, keys=keys, id_key="@key:text", format=layout)
    assert (texts.ids.tolist(), texts.removals.ids.tolist()) == (["7", "x", "9"], ["7"])
    first = parse(raw, raw, keys=[b"x", b"7"], id_key="@key", format=layout)
    assert first.ids.tolist() == ["x", "7"]


def test_with_keys_an_object_needs_no_id_to_remove():
    found = parse({"id": 1, "v": [1]}, {"v": None}, keys=[b"7", b"7"], id_key="@key")
    assert (found.ids.tolist(), found.removals.ids.tolist()) == ([7], [7])


def test_other_values_are_kept_as_texts():
    found = parse(
        {"id": 1, "row": [1], "text": "\u00e4", "n": 2, "more": {"a": [1, None]}},
        {"id": 2, "row": [1], "text": None, "n": True},
        [3],
        {"id": 4, "row": [4], "text": "half \ud83d", "n": ""},
        keep=("text", "n", "more"),
    )
    assert found.payload.tolist() == [
        ["\u00e4", "2", '{"a": [1, null]}'],
        [None, "true", None],
        [None, None, None],
        ["half \ufffd", "", None],
    ]
    assert found.payload.dtype == object
    assert parse({"id": 1, "row": None}, keep="text").payload.shape == (0, 1)
    assert parse({"id": 1, "row": [1], "text": "x"}).payload is None


def test_a_removal_before_all_rows_decides_the_kind_of_ids_for_those_who_resume_too():
    parser = MessageParser()
    first = parser.batch(as_messages({"id": 7, "row": None}), {})
    for one in (parser, MessageParser().resumed(first.offset)):
        assert list(reasons(one.batch(as_messages({"id": "a", "row": [1]}), {}))) == ["m0"]


names = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b", "0", "1"]))
vectors = st.lists(st.integers(-2, 2), min_size=1, max_size=2) | st.none() | st.just("no")
objects = st.fixed_dictionaries(
    {},
    optional={
        "id": names,
        "row": vectors,
        "v": vectors,
        "text": st.sampled_from(["x", None, 5]),
        "gone": st.booleans(),
    },
)
values = st.one_of(objects, st.none(), vectors, st.just(b""), st.just(b"{"))
keys = st.sampled_from([None, b"0", b"1", b"a", b"\xff", b""])
choices = st.fixed_dictionaries(
    {},
    optional={
        "id_key": st.sampled_from(["id", "@key", "@key:text"]),
        "columns": st.sampled_from([1, 2, "v"]),
        "keep": st.just(("text",)),
        "removed": st.just("gone"),
    },
)


@settings(max_examples=100)
@given(st.lists(st.tuples(values, keys), max_size=12), choices, st.data())
def test_the_table_is_the_same_in_any_batches_and_from_any_offset(table_of, stream, options, data):
    """Batches have no influence, and neither does a stop after any of them."""
    messages = as_messages(*(v for v, _ in stream), keys=[key for _, key in stream])
    whole = MessageParser(**options).batch(messages, {})
    table, rejects, kinds = {}, [], set()
    source = MessageParser(**options)
    parser, offset, start = source.resumed({}), {}, 0
    while start < len(messages):
        end = start + data.draw(st.integers(1, 4))
        batch = parser.batch(messages[start:end], {})
        assert known(source.resumed(offset).batch(messages[start:end], {})) == known(batch)
        table, start, offset = table_of([batch], table), end, json.loads(json.dumps(batch.offset))
        rejects += batch.rejects
        kinds |= {batch.ids.dtype.kind} if len(batch.ids) else set()
        kinds |= {batch.removals.ids.dtype.kind} if batch.removals else set()
    assert table == table_of([whole])
    assert tuple(rejects) == whole.rejects
    assert offset == whole.offset or not messages
    assert len(kinds) <= 1
    gone = [] if whole.removals is None else whole.removals.ids.tolist()
    assert len(gone) + len(whole.ids) + len(rejects) == len(messages)  # nothing is lost
    assert not set(whole.removed.tolist()) & set(table)
    assert set(gone) - set(table) <= set(whole.removed.tolist())


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.integers(0, 9)), max_size=20))
def test_the_last_word_on_an_id_counts(table_of, words):
    """Against a table that is kept by hand."""
    wanted = {}
    for removes, name, number in words:
        wanted.pop(name, None)
        wanted |= {} if removes else {name: [[number], None]}
    messages = [{"id": n, "row": None if removes else [v]} for removes, n, v in words]
    assert table_of([parse(*messages)]) == wanted
