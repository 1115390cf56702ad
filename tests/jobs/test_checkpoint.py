"""What a checkpoint says of the end of a job; checkpoints from before it said so."""

import json
import os
import signal

import numpy as np
import pytest

from streambits.errors import StorageError
from streambits.io.codes import open_sink
from streambits.io.codes.code_files import read_codes
from streambits.io.rows import open_source
from streambits.jobs import checkpoint
from streambits.jobs.encoding import Encoding
from streambits.jobs.folder import Folder
from streambits.jobs.rejects import Rejects
from streambits.jobs.run import Job, Pace


@pytest.fixture
def ended(learner, rows, monkeypatch, tmp_path):
    """ended(watcher, sink): what the checkpoint says after every commit of a job, and at last."""
    monkeypatch.setattr("streambits.jobs.reader.TOGETHER", 1000)
    np.save(tmp_path / "rows.npy", rows)

    def ended(watcher=None, sink=None):
        found = []

        def note(event, standing):
            if event == "commit":
                found.append(folder.checkpoint().ended)
                if watcher:
                    watcher(standing)

        source = open_source(tmp_path / "rows.npy", rows=1000)
        work, rejects = Encoding(learner.coder(), "model"), Rejects(None, skip=False)
        with Folder(tmp_path / "job", {}) as folder:
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

    def ask(standing):
        if standing.rows == 3000 and not asked:
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


class Checkpoint(checkpoint.Checkpoint):
    """As it was once written."""

    def state(self):
        found = super().state()
        plain = json.loads(found["plain"])
        del plain["ended"]
        return found | {"plain": json.dumps(plain)}


def test_one_from_before_is_gone_on_from(ended, rows, learner, tmp_path):
    def crash(standing):
        if standing.rows == 3000:
            raise StorageError("the disk is full")

    assert ended(crash, open_sink(str(tmp_path / "codes"), 12)) == [*[False] * 3, "failed", False]
    folder = Folder(tmp_path / "job", {})
    new = folder.checkpoint()
    folder.keep(Checkpoint(new.offset, new.sink, new.counts, new.parts))
    assert folder.checkpoint().ended is None
    assert ended(sink=open_sink(str(tmp_path / "codes"), 12)) == [*[False] * 3, True]
    [packed] = [codes.packed for _, codes in read_codes(tmp_path / "codes")]
    assert np.array_equal(packed, learner.coder().encode(rows).packed)
