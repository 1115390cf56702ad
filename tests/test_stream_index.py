"""StreamIndex: any batches, saved or read from another process, it is the same index."""

import os
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambits as sb
from streambits import index_folder, stream_index
from streambits.errors import InputError, StorageError
from streambits.stream_index import StreamIndex

SMALL = {"bits": 16, "n_landmarks": 30}  # 300 rows wait for landmarks
KINDS = {
    "plain": {**SMALL, "epochs": 700},
    "refined": {**SMALL, "refine": 4},
    "product": {**SMALL, "method": "product", "refine": 4},
    "certified": {**SMALL, "refine": 4, "certified": True, "epochs": 700},
}


@pytest.fixture(scope="session")
def contents(fingerprint):
    """contents(index): all that it holds, to the last bit, whatever files it came from."""

    def found(index):
        codes = [
            (batch.ids.tolist(), batch.codes.epoch, _bytes(batch.codes))
            for batch in index.codes.items(10_000)
        ]
        parts = (index.learner, index.coders, index.note, index.seen, index.removed)
        waiting = {key: row.tobytes() for key, row in index._waiting.items()}
        return [*map(fingerprint, parts), codes, waiting, index._next]

    return found


def _bytes(codes):
    refinement = b"" if codes.refinement is None else codes.refinement.tobytes()
    return codes.packed.tobytes() + refinement


def changes(count, texts=False, seed=0, width=6):
    """Changes of an index, some of them of ids that are there, with their numbers as notes."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((5, width)) * 3
    for number in range(count):
        size = int(rng.integers(1, 90))
        ids = rng.integers(0, 900, size).tolist()
        ids = [f"row {i}" for i in ids] if texts else ids
        rows = centres[rng.integers(5, size=size)] + rng.standard_normal((size, width))
        if number % 4 == 3:
            yield lambda index, ids=ids, n=number: index.remove(ids, note=n)
        else:
            some = rows.astype(np.float32)
            yield lambda index, ids=ids, rows=some, n=number: index.add(rows, ids, note=n)


USUAL = [("plain", False), ("refined", True), ("product", False), ("certified", True)]
OTHERS = [pytest.param(kind, not keep, marks=pytest.mark.slow) for kind, keep in USUAL]


@pytest.mark.parametrize(("kind", "keep_rows"), USUAL + OTHERS)
def test_reopened_at_any_time_it_is_as_if_it_had_never_stopped(
    kind, keep_rows, contents, tmp_path, monkeypatch
):
    monkeypatch.setattr(index_folder, "JOURNALLED", 20_000)
    monkeypatch.setattr(stream_index, "REENCODE_ROWS", 256)
    alone = StreamIndex(**KINDS[kind], keep_rows=keep_rows)
    held = StreamIndex.open(tmp_path / "a", **KINDS[kind], keep_rows=keep_rows)
    reader = StreamIndex.open(tmp_path / "a", read_only=True)
    queries = np.random.default_rng(1).standard_normal((4, 6))
    for number, change in enumerate(changes(50, texts=kind == "refined")):
        change(alone)
        change(held)
        if number % 7 == 6:
            held.close()
            held = StreamIndex.open(tmp_path / "a")
        if number == 30:
            assert alone.renew() == held.renew()
        if number % 10 == 9:
            assert contents(held) == contents(alone)
            wanted, found = alone.search(queries, 5), reader.search(queries, 5)
            assert found.ids.tolist() == wanted.ids.tolist()
            assert found.distances.tolist() == wanted.distances.tolist()
    assert len(alone) == len(reader) > 400
    assert [epoch.rows for epoch in alone.epochs] == [epoch.rows for epoch in reader.epochs]
    held.compact()
    assert len(reader) == len(alone)
    held.save(tmp_path / "b")
    reader.save(tmp_path / "c")  # a backup while another process writes
    for copy in ("b", "c"):
        assert contents(StreamIndex.open(tmp_path / copy, read_only=True)) == contents(alone)


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 3000), max_size=8), keep_rows=st.booleans())
def test_any_batches_give_the_same_index(cuts, keep_rows, mixture, contents):
    rows, ids = mixture(3000), np.arange(3000) % 2500
    whole = StreamIndex(**KINDS["plain"], keep_rows=keep_rows)
    whole.add(rows, ids)
    parts = StreamIndex(**KINDS["plain"], keep_rows=keep_rows)
    bounds = [0, *sorted(cuts), 3000]
    for start, end in pairwise(bounds):
        parts.add(rows[start:end], ids[start:end])
    assert contents(parts) == contents(whole)


def test_what_needs_raw_rows_says_so(mixture):
    index = StreamIndex(**SMALL)
    index.add(mixture(400))
    for call in (
        index.reencode,
        lambda: index.rows([1]),
        lambda: index.search(mixture(1), rerank=9),
    ):
        with pytest.raises(InputError, match="keep_rows=True"):
            call()
    with pytest.raises(InputError, match="5 columns"):
        index.search(mixture(2, 5))


def test_rows_keep_their_precision(mixture, tmp_path):
    single, double = mixture(400), mixture(10, dtype=np.float64)
    index = StreamIndex.open(tmp_path / "index", **SMALL, keep_rows=True)
    for rows, ids in ((single, None), (double, np.arange(5, 15))):
        index.add(rows, ids)
    for _ in range(3):
        assert index.rows([1, 2]).dtype == np.float32
        assert index.rows([1, 5]).tolist() == [single[1].tolist(), double[0].tolist()]
        assert len(index._rows) <= 410
        index.compact()
        index.close()
        index = StreamIndex.open(tmp_path / "index")


def test_removing_rows_that_wait_is_linear(mixture):
    index, calls = StreamIndex(**{**SMALL, "n_landmarks": 300}), [0]
    index.add(mixture(2900))

    def count(_, event, __):
        calls[0] += event == "c_call"

    sys.setprofile(count)
    try:
        assert index.remove(np.arange(2000)) == 2000
    finally:
        sys.setprofile(None)
    assert calls[0] < 500


@pytest.mark.parametrize("method", ["linear", "ssbc", "auto"])
def test_rows_of_too_few_directions_wait_until_there_are_enough(method, mixture, tmp_path):
    index = StreamIndex.open(tmp_path / "index", **SMALL, method=method)
    same, far = np.ones((299, 20), np.float32), mixture(700, 20)
    index.add(same)
    assert index.blocked is None
    with pytest.warns(sb.errors.LandmarkWarning, match="searched by true distances"):
        index.add(same[:5])
    index.add(same[:5])  # warned of once
    assert (index.waiting, index.epochs) == (309, ())
    assert index.blocked.startswith("300 rows wait, and no coder can be fitted to them: ")
    index.close()
    index = StreamIndex.open(tmp_path / "index")
    assert index.blocked.startswith("300 rows wait")
    index.add(far)
    assert (index.waiting, index.blocked, len(index)) == (0, None, 1009)
    assert index.search(far[:5], 5, allow=[309, 310]).ids.shape == (5, 2)


def test_settings_folders_and_a_second_writer(mixture, tmp_path):
    with pytest.raises(InputError, match="unexpected keyword argument 'bit'"):
        StreamIndex(bit=3)
    with pytest.raises(InputError, match="pass one of them"):
        StreamIndex(sb.Settings(), bits=3)
    with pytest.raises(StorageError, match="there is no index"):
        StreamIndex.open(tmp_path / "none", read_only=True)
    index = StreamIndex.open(tmp_path / "index", **SMALL)
    with pytest.raises(StorageError, match="read_only=True"):
        StreamIndex.open(tmp_path / "index")
    reader = StreamIndex.open(tmp_path / "index", read_only=True, bits=16)
    with pytest.raises(InputError, match="read only"):
        reader.add(mixture(10))
    index.close()
    with pytest.raises(InputError, match="bits is 32, and the index in"):
        StreamIndex.open(tmp_path / "index", bits=32)
    with pytest.raises(InputError, match="keep_rows is True"):
        StreamIndex.open(tmp_path / "index", keep_rows=True)
    with pytest.raises(StorageError, match="not part of an index: choose an empty folder"):
        StreamIndex(**SMALL).save(tmp_path)
    with StreamIndex.open(tmp_path / "index", bits=16) as again:
        again.add(mixture(10))
        assert len(reader) == 10


def test_damage_is_named_and_nothing_of_it_is_applied(mixture, tmp_path):
    index = StreamIndex.open(tmp_path / "index", **SMALL)
    for start in range(0, 500, 100):
        index.add(mixture(500)[start : start + 100])
    index.close()
    [journal] = (tmp_path / "index").glob("journal-*")
    whole = journal.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    journal.write_bytes(flipped)
    for read_only in (False, True):
        with pytest.raises(StorageError, match="damaged in record 2, at byte"):
            StreamIndex.open(tmp_path / "index", read_only=read_only)
    journal.write_bytes(whole[:-1])
    with StreamIndex.open(tmp_path / "index") as torn:
        assert len(torn) == 400
    [snapshot] = (tmp_path / "index").glob("snapshot-*/state.safetensors")
    content = bytearray(snapshot.read_bytes())
    content[-1] ^= 1
    snapshot.write_bytes(content)
    with pytest.raises(StorageError, match=r"state\.safetensors"):
        StreamIndex.open(tmp_path / "index")


def refusing(monkeypatch, number):
    """Have the adding of a batch fail, the one of this number from now on."""
    usual, left = StreamIndex._add, [number]

    def add(self, ids, rows):
        left[0] -= 1
        if not left[0]:
            raise InputError("a check of another version")
        usual(self, ids, rows)

    monkeypatch.setattr(StreamIndex, "_add", add)


def test_changes_that_cannot_be_read_again_are_not_left_out(mixture, tmp_path, monkeypatch):
    with StreamIndex.open(tmp_path / "index", **SMALL) as index:
        for _ in range(3):
            index.add(mixture(10))
    for read_only in (True, False):
        refusing(monkeypatch, 2)
        with pytest.raises(StorageError, match="another version"):
            StreamIndex.open(tmp_path / "index", read_only=read_only)
    monkeypatch.undo()
    assert len(StreamIndex.open(tmp_path / "index", read_only=True)) == 30
    refusing(monkeypatch, 3)  # the last was perhaps never acknowledged
    with StreamIndex.open(tmp_path / "index") as index:
        assert len(index) == 20
        index.add(mixture(10))
        assert len(StreamIndex.open(tmp_path / "index", read_only=True)) == 30


def test_a_change_that_was_interrupted_stays_for_those_who_read_it(mixture, tmp_path, monkeypatch):
    index = StreamIndex.open(tmp_path / "index", **SMALL)
    index.add(mixture(10))
    reader, usual = StreamIndex.open(tmp_path / "index", read_only=True), StreamIndex._apply

    def interrupt(self, record):
        if self is index:
            assert len(reader) == 15
            raise KeyboardInterrupt
        usual(self, record)

    monkeypatch.setattr(StreamIndex, "_apply", interrupt)
    with pytest.raises(KeyboardInterrupt):
        index.add(mixture(5))
    monkeypatch.undo()
    assert index.closed
    index.close()
    with StreamIndex.open(tmp_path / "index") as again:
        for size in (20, 25):
            again.add(mixture(5))
            assert len(again) == len(reader) == size


def test_a_record_that_was_taken_back_does_not_mislead_a_reader(mixture, tmp_path, monkeypatch):
    """Its place is taken by another one, of the same length."""
    index = StreamIndex.open(tmp_path / "index", **SMALL)
    index.add(mixture(10))
    reader = StreamIndex.open(tmp_path / "index", read_only=True)

    def fail(_):
        assert len(reader) == 15
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="No space left"):
        index.add(mixture(5))
    monkeypatch.undo()
    index.add(mixture(5, seed=1))
    assert reader.rows(range(15)).tolist() == index.rows(range(15)).tolist()


def test_threads_share_a_reader_that_begins_anew(mixture, tmp_path):
    """It misses snapshots, and one thread loads the new one while others wait."""
    index = StreamIndex.open(tmp_path / "index", **SMALL, epochs="never")
    index.add(mixture(400))
    reader, wrong = StreamIndex.open(tmp_path / "index", read_only=True), []

    def look():
        try:
            for _ in range(15):
                assert len(reader) <= reader.seen
                assert reader.search(mixture(1), 3).ids.shape == (1, 3)
        except BaseException as error:  # noqa: BLE001  raised below
            wrong.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    locks = reader._changes, reader._gate
    for thread in threads:
        thread.start()
    for _ in range(8):
        index.add(mixture(5))
        index.compact()
    for thread in threads:
        thread.join()
    assert not wrong
    assert (reader.seen, len(reader)) == (index.seen, len(index)) == (440, 440)
    assert (reader._changes, reader._gate) == locks


def test_searches_see_one_moment_while_the_index_changes(mixture):
    """All rows are moved together, again and again; an answer never mixes two places."""
    rows, index = mixture(400), StreamIndex(**KINDS["refined"])
    index.add(rows)
    found, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            found.append(index.search(rows[:1], 400, candidates="all").distances[0])

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(30):
        index.add(rows + 100 * (step % 2), np.arange(400))
    stop.set()
    for thread in threads:
        thread.join()
    assert all(far.max() < 60 or far.min() > 60 for far in found)
    assert len(found) > 3
