"""Records of a journal: whole or not there, and damage is named."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from streambits._arrays import TEXT
from streambits.errors import InputError, StorageError
from streambits.journal import SIZE, Journal, JournalReader, Record

texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
numbers = st.lists(st.integers(-(2**63), 2**63 - 1))
shapes = st.tuples(st.integers(0, 5), st.integers(0, 4))
arrays = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda kind: npst.arrays(kind, shapes, elements={"allow_nan": False})
)


@given(
    ids=st.one_of(texts, numbers),
    rows=arrays,
    note=st.none() | st.dictionaries(st.text(), st.integers()),
)
def test_a_record_is_read_as_it_was_written(ids, rows, note):
    named = np.array(ids, TEXT if ids and isinstance(ids[0], str) else np.int64)
    found = Record.decoded(Record("add", named, rows, note).encoded())
    assert (found.kind, found.ids.tolist(), found.note) == ("add", named.tolist(), note)
    assert found.rows.dtype == rows.dtype
    assert found.rows.shape == rows.shape
    assert found.rows.tobytes() == rows.tobytes()


def test_a_note_that_grows_is_written_once_and_read_whole():
    notes = [{"n": i, "files": [{"name": f"file {j}"} for j in range(i)]} for i in range(300)]
    notes += [{"files": [1]}, None, {"files": "x"}, [1, 2], {"files": [{"name": "file 0"}]}]
    before, sizes, ids = None, [], np.empty(0, np.int64)
    for note in notes:
        body = Record("remove", ids, note=note).behind(before).encoded()
        sizes.append(len(body))
        found = Record.decoded(body)
        if found.note is not None:
            before = found.note_behind(before)
            assert before == note
    assert max(sizes) < 2 * min(sizes)
    grown = [{"a": 1}]
    first = Record("remove", ids, note={"files": grown}).behind(None).note_behind(None)
    grown[0]["a"] = 2  # what the caller does with it later is not in the note
    again = Record("remove", ids, note={"files": grown}).behind(first)
    assert again.note_behind(first) == {"files": [{"a": 2}]}
    with pytest.raises(InputError, match="JSON"):
        Record("remove", ids, note={1, 2}).behind(None)


def records(count):
    rng = np.random.default_rng(0)
    return [Record("add", np.arange(i), rng.random((i, 3))) for i in range(1, count + 1)]


@pytest.fixture
def journal(tmp_path):
    """The path of a journal with four records, the first of number 7."""
    held = Journal(tmp_path / "journal", 0, 7)
    for record in records(4):
        held.append(record)
    held.close()
    return held.path


def read(path):
    reader = JournalReader(path, 7)
    found = [(record.ids.tolist(), record.rows.tolist()) for record in reader.read()]
    return found, reader


def whole():
    return [(record.ids.tolist(), record.rows.tolist()) for record in records(4)]


def ends():
    return np.cumsum([SIZE + len(record.encoded()) for record in records(4)]).tolist()


def test_records_are_read_in_order_also_those_that_come_later(journal):
    found, reader = read(journal)
    assert found == whole()
    held = Journal(journal, reader.position, reader.sequence)
    held.append(records(5)[-1])
    assert [record.ids.tolist() for record in reader.read()] == [[0, 1, 2, 3, 4]]
    assert list(reader.read()) == []


@pytest.mark.parametrize("left", range(0, 400, 7))
def test_a_torn_end_is_not_read_and_is_cut_off(journal, left):
    size = min(left, ends()[-1])
    os.truncate(journal, size)
    found, reader = read(journal)
    assert found == whole()[: sum(end <= size for end in ends())]
    held = Journal(journal, reader.position, reader.sequence)
    held.append(records(4)[2])
    assert read(journal)[0] == [*found, whole()[2]]


@pytest.mark.parametrize("place", range(0, 480, 3))
def test_a_flipped_bit_is_noticed_named_and_never_applied(journal, place):
    content = bytearray(journal.read_bytes())
    place %= len(content)
    content[place] ^= 16
    journal.write_bytes(content)
    reader, found = JournalReader(journal, 7), []
    before = sum(end <= place for end in ends())
    with pytest.raises(StorageError, match=f"damaged in record {7 + before}, at byte"):
        found.extend(record.ids.tolist() for record in reader.read())
    assert len(found) == 0 or found == [ids for ids, _ in whole()[: len(found)]]


def test_a_record_that_was_taken_back_is_gone(journal):
    reader = read(journal)[1]
    held = Journal(journal, reader.position, reader.sequence)
    held.append(records(1)[0])
    held.drop_last()
    assert read(journal)[0] == whole()


def test_a_journal_that_cannot_be_written_or_read(tmp_path):
    with pytest.raises(StorageError, match="cannot be written"):
        Journal(tmp_path / "none" / "journal", 0, 0)
    with pytest.raises(StorageError, match="cannot be read"):
        JournalReader(tmp_path / "none", 0)
