"""Records of a journal: whole or not there, and damage is named."""

from contextlib import nullcontext

import numpy as np
import pytest

from streambits.errors import InputError, StorageError
from streambits.journal import Journal, JournalReader, Record


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


def test_damage_is_named_and_never_applied_but_a_torn_last_record_is_cut_off(tmp_path):
    path = tmp_path / "journal"
    journal, ends = Journal(path, 0, 7), []
    for count in range(1, 5):
        journal.append(Record("add", np.arange(count), np.ones((count, 3))))
        ends.append(journal.position)
    whole = path.read_bytes()
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        before, found = sum(end <= place for end in ends), []
        reader = JournalReader(path, 7)
        damaged = pytest.raises(StorageError, match=f"damaged in record {7 + before}, at byte")
        with damaged if before < 3 else nullcontext():
            found.extend(len(record.ids) for record in reader.read())
        assert found == list(range(1, before + 1))
    with pytest.raises(StorageError, match="cannot be written"):
        Journal(tmp_path / "none" / "journal", 0, 0)
    with pytest.raises(StorageError, match="cannot be read"):
        JournalReader(tmp_path / "none", 0)
