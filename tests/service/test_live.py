"""The writer thread: what it groups, what it refuses, and how it goes on after a source."""

import threading
from pathlib import Path

import numpy as np
import pytest

from streambits import StreamIndex
from streambits.errors import InputError, StorageError
from streambits.io.rows import open_source
from streambits.model.batches import Reject, Removals, RowBatch
from streambits.service import panels
from streambits.service.live import BusyError, Query, Service, UnavailableError, changes_of

ROWS = np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)


@pytest.fixture
def index(tmp_path):
    with StreamIndex.open(tmp_path / "index", bits=32, n_landmarks=50) as found:
        yield found


def test_changes_that_wait_are_one_record(index):
    service = Service(index, queue_length=100)
    parts = [slice(start, start + 10) for start in range(0, 100, 10)]
    added = [service.add(np.arange(100)[part], ROWS[:100][part]) for part in parts]
    removed = [service.remove(np.array(ids)) for ids in ([1, 2], [2, 3], [500])]
    again = service.add(np.array([1]), ROWS[:1])
    with service:
        assert [one.result(20) for one in added] == [10] * 10
        assert [one.result(20) for one in removed] == [2, 1, 0]
        assert again.result(20) == 1
        assert service.commits == 3
        assert len(index) == 98
        assert 1 in index


def test_one_that_is_refused_does_not_harm_its_neighbours(index):
    service = Service(index)
    good = service.add(np.array([1, 2]), ROWS[:2])
    bad = service.add(np.array([3]), ROWS[:1, :5].copy())
    last = service.add(np.array([4]), ROWS[3:4])
    with service:
        assert (good.result(20), last.result(20)) == (2, 1)
        with pytest.raises(InputError):
            bad.result(20)
        assert sorted(i for i in range(6) if i in index) == [1, 2, 4]


def test_what_was_cancelled_is_not_done_and_ends_nothing(index):
    service = Service(index)
    first, cancelled = (service.add(np.array([i]), ROWS[i : i + 1]) for i in (1, 2))
    assert cancelled.cancel()
    service.search(Query(ROWS[:1], 1)).cancel()
    with service:
        assert first.result(20) == service.add(np.array([3]), ROWS[3:4]).result(20) == 1
        assert service.search(Query(ROWS[1:2], 1)).result(20).ids.tolist() == [[1]]
        assert service.ready
        assert [i in index for i in (1, 2, 3)] == [True, False, True]


def test_a_writer_that_fails_answers_all_who_wait_and_says_so(index, monkeypatch):
    service = Service(index)
    monkeypatch.setattr(service, "_committed", lambda _: 1 / 0)
    waiting = [service.add(np.array([i]), ROWS[i : i + 1]) for i in range(3)]
    waiting.append(service.renew())
    with service:
        for one in waiting:
            with pytest.raises(StorageError, match="'streambits write' has failed: ZeroDivision"):
                one.result(20)
        assert not service.alive
        assert not service.ready
        assert "has failed: ZeroDivisionError" in panels.status(service)["sentence"]
        for call in (service.renew, lambda: service.search(Query(ROWS[:1], 1))):
            with pytest.raises(StorageError, match="start the service again"):
                call()


@pytest.mark.filterwarnings("ignore:500 rows wait:streambits.errors.LandmarkWarning")
def test_rows_that_no_coder_can_be_fitted_to_are_said_to_be_unhealthy(tmp_path):
    with (
        StreamIndex.open(tmp_path / "index", bits=32, n_landmarks=50) as index,
        Service(index) as service,
    ):
        for start in range(0, 600, 100):
            rows = np.eye(8, dtype=np.float32)[np.arange(100) % 8]
            assert service.add(np.arange(start, start + 100), rows).result(20) == 100
        status = panels.status(service)
        assert not status["healthy"]
        assert "500 rows wait, and no coder can be fitted" in status["sentence"]
        assert service.ready  # searches compare true distances


def test_a_full_queue_refuses_and_says_when_to_come_again(index):
    service = Service(index, queue_length=2)
    waiting = [service.add(np.array([i]), ROWS[i : i + 1]) for i in range(2)]
    with pytest.raises(BusyError, match="2 changes wait") as refused:
        service.add(np.array([9]), ROWS[:1])
    assert (refused.value.seconds, service.refused) == (1, 1)
    with service:
        assert [one.result(20) for one in waiting] == [1, 1]


def test_what_waits_is_committed_at_the_end_and_nothing_enters_after_it(tmp_path):
    index = StreamIndex.open(tmp_path / "index", bits=32, n_landmarks=50)
    service = Service(index)
    waiting = service.add(np.array([1]), ROWS[:1])
    service.start().close()
    assert waiting.result(0) == 1
    with pytest.raises(BusyError, match="stopping"):
        service.add(np.array([2]), ROWS[:1])
    with StreamIndex.open(tmp_path / "index") as again:
        assert len(again) == 1


def test_searches_are_those_of_the_index_and_too_many_are_refused(index, monkeypatch):
    index.add(ROWS, np.arange(3000))
    with Service(index, queue_length=1) as service:
        found = service.search(Query(ROWS[:3], 5)).result(20)
        assert np.array_equal(found.ids, index.search(ROWS[:3], 5).ids)
        with pytest.raises(UnavailableError, match="--keep-rows"):
            service.search(Query(ROWS[:1], by="true")).result(20)
        held = threading.Event()
        monkeypatch.setattr(service, "found", lambda _: held.wait(20))
        waiting = [service.search(Query(ROWS[:1])) for _ in range(8)]
        with pytest.raises(BusyError, match="8 searches wait"):
            service.search(Query(ROWS[:1]))
        held.set()
        assert all(one.result(20) for one in waiting)


def test_a_journal_that_cannot_be_written_is_an_error_of_that_change(index, monkeypatch):
    def fail(record):
        raise StorageError("the disk is full")

    with Service(index) as service:
        monkeypatch.setattr(index._folder.journal, "append", fail)
        with pytest.raises(StorageError, match="full"):
            service.add(np.array([1]), ROWS[:1]).result(20)
        monkeypatch.undo()
        assert service.add(np.array([1]), ROWS[:1]).result(20) == 1


class Stream:
    """Batches of 100 rows; every third removes an id of the batch before."""

    name, length = "a stream", None

    def __init__(self, stop=None):
        self.stop = stop

    def identity(self):
        return {"stream": 1}

    def read(self, offset=None):
        for start in range(offset or 0, 3000, 100):
            if start == self.stop:
                return
            ids = np.arange(start, start + 100)
            gone = Removals(np.array([start - 50]), np.array([5])) if start % 300 == 200 else None
            bad = [Reject(f"row {start}", "it is bad")] if start == 1800 else []
            rows = ROWS[start : start + 100]
            yield RowBatch(ids, rows, start + 100, rejects=bad, removals=gone)


def test_a_source_goes_on_where_the_journal_ends(tmp_path):
    for stop in (700, 1600, None):
        index = StreamIndex.open(tmp_path / "index", bits=32, n_landmarks=50)
        with Service(index, source=Stream(stop)) as service:
            service._threads[-1].join(30)
            assert (service.source_state, service.rejects) == ("ended", int(stop is None))
    whole = StreamIndex(bits=32, n_landmarks=50)
    for batch in Stream().read():
        if batch.removals is not None:
            whole.remove(batch.removals.ids)
        whole.add(batch.rows, batch.ids)
    with StreamIndex.open(tmp_path / "index") as found:
        assert found.note == {"source": {"stream": 1}, "offset": 3000}
        assert (found.seen, len(found)) == (3000, 2990)
        assert np.array_equal(found.search(ROWS[:50]).ids, whole.search(ROWS[:50]).ids)


def test_the_journal_of_many_files_grows_with_their_number_alone(tmp_path):
    (tmp_path / "rows").mkdir()
    sizes = []
    for count in (40, 80):  # the second time it goes on
        for i in range(count - 40, count):
            np.save(tmp_path / "rows" / f"{i:03}.npy", ROWS[i : i + 1])
        index = StreamIndex.open(tmp_path / "index", bits=32, n_landmarks=50)
        before = index.journal_bytes
        with Service(index, source=open_source(tmp_path / "rows")) as service:
            service._threads[-1].join(30)
            assert (service.source_state, service.source_error) == ("ended", "")
            sizes.append(index.journal_bytes - before)
            names = [Path(one["path"]).name for one in index.note["evidence"]]
            assert names == [f"{i:03}.npy" for i in range(count)]
    assert sizes[1] < 1.1 * sizes[0]
    np.save(tmp_path / "rows" / "007.npy", ROWS[:3])
    index = StreamIndex.open(tmp_path / "index")
    with Service(index, source=open_source(tmp_path / "rows")) as service:
        service._threads[-1].join(30)
        assert "007.npy" in service.source_error


def test_another_source_is_refused_and_the_service_goes_on(tmp_path):
    index = StreamIndex.open(tmp_path / "index", bits=32, n_landmarks=50)
    index.add(ROWS[:5], note={"source": {"other": 2}, "offset": 5})
    with Service(index, source=Stream()) as service:
        service._threads[-1].join(30)
        assert service.source_state == "failed"
        assert "was fed from {'other': 2}" in service.source_error
        assert service.search(Query(ROWS[:1], 1)).result(20).ids.tolist() == [[0]]


@pytest.mark.parametrize(
    ("ids", "gone", "at", "kinds"),
    [
        ([1, 2], [], [], ["add"]),
        ([1, 2], [3], [1], ["remove", "add"]),  # the last has the note
        ([1, 2], [1], [2], ["add", "remove"]),  # it comes and goes
        ([1, 2], [1], [0], ["add"]),  # it goes and comes
        ([], [3], [0], ["remove"]),
    ],
)
def test_a_batch_is_as_few_changes_as_can_be(ids, gone, at, kinds):
    rows = np.zeros((len(ids), 3), np.float32)
    removals = Removals(np.array(gone, np.int64), np.array(at, np.int64))
    batch = RowBatch(np.array(ids, np.int64), rows, 7, removals=removals)
    found = changes_of(batch, "note")
    assert [one.kind for one in found] == kinds
    assert [one.note for one in found] == [*[None] * (len(kinds) - 1), "note"]


def test_a_stream_that_moves_is_an_alarm_and_an_epoch_in_the_events(index):
    with Service(index) as service:
        for start in range(0, 12_000, 1000):
            rows = np.random.default_rng(start).standard_normal((1000, 8)).astype(np.float32)
            rows += 8 * (start >= 6000)
            service.add(np.arange(start, start + 1000), rows).result(60)
        kinds = [event.kind for event in service.events_since(1)]
        assert "alarm" in kinds
        assert "epoch" in kinds
        assert service.events_since(service.last_event) == []
        assert service.rate > 0
