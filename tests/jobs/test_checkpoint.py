"""What a checkpoint says of the end of a job; checkpoints from before it said so."""

import json
import os
import signal

import numpy as np
import pytest

from streambits.errors import StorageError
from streambits.io.codes import open_sink
from streambits.io.codes.parquet import read_codes
from streambits.io.rows import open_source
from streambits.jobs import folder, reader
from streambits.jobs.folder import JobFolder
from streambits.jobs.job import Job, Pace
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Encoding
from streambits.model.batches import Reject


@pytest.fixture
def ended(learner, rows, monkeypatch, tmp_path):
    """ended(watcher, sink): what the checkpoint says after every commit of a job, and at last."""
    monkeypatch.setattr("streambits.jobs.reader.TOGETHER", 1000)
    np.save(tmp_path / "rows.npy", rows)

    def ended(watcher=None, sink=None):
        found = []

        def note(event, progress):
            if event == "commit":
                found.append(folder.checkpoint().ended)
                if watcher:
                    watcher(progress)

        source = open_source(tmp_path / "rows.npy", rows=1000)
        work, rejects = Encoding(learner.coder(), "model"), Rejects(None, skip=False)
        with JobFolder(tmp_path / "job", {}) as folder:
            try:
                Job(source, work, sink, rejects, folder, pace=Pace(1000), watchers=[note]).run()
            except StorageError:
                found.append("failed")
            return [*found, folder.checkpoint().ended]

    return ended


def test_only_the_last_says_that_it_is_the_end(ended):
    assert ended() == [False] * 6 + [True]
    assert ended() == [False, True]  # once more, with nothing new


def test_a_signal_is_not_the_end(ended):
    asked = []

    def ask(progress):
        if progress.rows == 3000 and not asked:
            asked.append(os.kill(os.getpid(), signal.SIGTERM))

    assert ended(ask) == [False] * 5
    assert ended() == [False] * 3 + [True]


def test_it_is_not_the_end_before_the_sink_is_closed(ended, tmp_path, monkeypatch):
    sink = open_sink(str(tmp_path / "codes"), 12)

    def full():
        raise StorageError("the disk is full")

    monkeypatch.setattr(sink, "close", full)
    assert ended(sink=sink) == [*[False] * 6, "failed", False]
    sink._let_go()  # as the end of a process does
    assert ended(sink=open_sink(str(tmp_path / "codes"), 12)) == [False, True]


class Checkpoint(folder.Checkpoint):
    """As it was once written."""

    def state(self):
        found = super().state()
        plain = json.loads(found["plain"])
        del plain["ended"]
        return found | {"plain": json.dumps(plain)}


def test_one_from_before_is_gone_on_from(ended, rows, learner, tmp_path):
    def crash(progress):
        if progress.rows == 3000:
            raise StorageError("the disk is full")

    assert ended(crash, open_sink(str(tmp_path / "codes"), 12)) == [*[False] * 3, "failed", False]
    folder = JobFolder(tmp_path / "job", {})
    new = folder.checkpoint()
    folder.commit(Checkpoint(new.offset, new.sink, new.counts, new.models))
    assert folder.checkpoint().ended is None
    assert ended(sink=open_sink(str(tmp_path / "codes"), 12)) == [*[False] * 3, True]
    [packed] = [codes.packed for _, codes in read_codes(tmp_path / "codes")]
    assert np.array_equal(packed, learner.coder().encode(rows).packed)


def test_codes_and_rejects_are_on_the_disk_before_the_checkpoint_counts_them(
    learner, rows, tmp_path, monkeypatch
):
    monkeypatch.setattr(reader, "TOGETHER", 1000)
    bad = rows.copy()
    bad[::700, 2] = np.nan
    np.save(tmp_path / "rows.npy", bad)
    events, written, fsync = [], {}, os.fsync

    class Sink:
        """Without a state: it is given again what came after the last commit."""

        name, bits, rows = "noted", 12, 0

        def write(self, ids, _codes, _payload):
            self.rows += len(ids)

        def commit(self):
            events.append(("commit", self.rows))

        def close(self):
            pass

    def noted_fsync(descriptor):
        fsync(descriptor)
        written[os.fstat(descriptor).st_ino] = os.fstat(descriptor).st_size

    def noted_keep(self, checkpoint):
        aside = tmp_path / "rejects.jsonl"
        size = written.get(aside.stat().st_ino, 0) if aside.exists() else 0
        events.append(("keep", checkpoint.counts["rows"], checkpoint.counts["size"], size))

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(JobFolder, "commit", noted_keep)
    source = open_source(tmp_path / "rows.npy", rows=1000)
    work, rejects = (
        Encoding(learner.coder(), "model"),
        Rejects(tmp_path / "rejects.jsonl", skip=True),
    )
    with JobFolder(tmp_path / "job", {}) as folder:
        Job(source, work, Sink(), rejects, folder, pace=Pace(1000)).run()
    kept = [event for event in events if event[0] == "keep"]
    assert len(kept) > 3
    assert kept[-1][1] == 5000 - len(bad[::700])
    assert [event[0] for event in events[:2]] == ["commit", "keep"]
    committed = 0
    for event in events:
        committed = event[1] if event[0] == "commit" else committed
        if event[0] == "keep":
            assert committed == event[1]  # rows
            assert event[2] == event[3]  # bytes of rejects
    assert kept[-1][2] > 0


def test_rejects_are_brought_to_the_disk(tmp_path, monkeypatch):
    synced, fsync = set(), os.fsync
    rejects = Rejects(tmp_path / "rejects.jsonl", skip=True)
    rejects.commit()
    rejects.put([Reject("a.csv:7", "no number")])
    monkeypatch.setattr(os, "fsync", lambda d: synced.add(os.fstat(d).st_ino) or fsync(d))
    rejects.commit()
    assert (tmp_path / "rejects.jsonl").stat().st_ino in synced
    rejects.close()
