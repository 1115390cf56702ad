"""Those who are told where a job is: operators, logs, people."""

import io
import json
import logging
import math
import re
from urllib.request import urlopen

import numpy as np
import pytest

from jobs.conftest import Source
from streambits.cli import output as shown
from streambits.epochs.detector import DriftMeasurement
from streambits.errors import InputError
from streambits.jobs import progress as progress_of
from streambits.jobs.job import Job, Pace
from streambits.jobs.progress import JsonLog, Progress
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Online
from streambits.methods.settings import Settings

DRIFT = DriftMeasurement(512, 0.5, 0.1, math.nan, 0.2, 3.0, 1.0, 1)
HERE = Progress(1000, 4000, 3, 500, 2.0, 1, 0.25, DRIFT, 7, 2003)


def run(rows, *watchers):
    work = Online(Settings(8, n_landmarks=40).checked())
    rejects = Rejects(None, skip=False)
    return Job(Source(rows), work, None, rejects, pace=Pace(500, 60), watchers=watchers).run()


def test_a_job_tells_how_it_goes(moving, monkeypatch):
    monkeypatch.setattr("streambits.jobs.reader.TOGETHER", 100)
    told = []
    end = run(np.nan_to_num(moving), lambda event, progress: told.append((event, progress)))
    events = [event for event, _ in told]
    assert (events[0], events[-1]) == ("start", "end")
    assert {"commit", "epoch"} <= set(events)
    rows = [progress.rows for _, progress in told]
    assert rows == sorted(rows)
    assert (end.rows, end.fresh, end.total, end.left) == (9000, 9000, 9000, 0)
    assert end.epoch > 0
    assert end.certificate >= 0
    assert end.drift.rows == 8704


def served(metrics):
    with urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
        text = answer.read().decode()
    return {k: float(v) for k, v in re.findall(r"^(\w\S*) (\S+)$", text, re.MULTILINE)}


def test_metrics():
    pytest.importorskip("prometheus_client")
    with progress_of.Metrics(0) as metrics:
        assert metrics._server.server_address[0] == "127.0.0.1"
        metrics("start", Progress(500, 2000, 1, 0, 0.0))
        metrics("commit", HERE)
        found = served(metrics)
        metrics("end", Progress(0, 0, 0, 0, 1.0))  # stopped before it could commit
        assert served(metrics)["streambits_rows_total"] == 1000
        with pytest.raises(InputError, match=f"cannot be served on port {metrics.port}: Address"):
            progress_of.Metrics(metrics.port)
    assert found["streambits_rows_total"] == 1000
    assert found["streambits_bytes_total"] == 4000
    assert found["streambits_rejects_total"] == 3
    assert found["streambits_commits_total"] == 1
    assert found["streambits_epoch"] == 1
    assert found["streambits_certificate"] == 0.25
    assert found["streambits_lag"] == 7
    assert found["streambits_rows_per_second"] == 250
    assert found['streambits_drift{statistic="affinity"}'] == 0.5
    assert math.isnan(found['streambits_drift{statistic="shift"}'])


def test_logs():
    out = io.StringIO()
    log = JsonLog("online", out)
    for event in ("start", "step", "commit", "end"):
        log(event, HERE if event != "start" else Progress(500, 2000, 0, 0, 0.0))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["start", "rejects", "commit", "end"]
    assert lines[1]["new"] == 3
    assert lines[2]["rows"] == 1000
    assert lines[2]["drift"]["shift"] is None
    assert all(line["job"] == "online" and line["time"] for line in lines)


def test_in_words():
    assert shown.progress_line(HERE) == (
        "1,000 of 2,003 rows, 250 rows/s, 0:00:04 left, certificate 0.25, epoch 1, 7 waiting, 3 bad"
    )
    assert shown.progress_line(Progress(5, 1, 0, 0, 0.0)) == "5 rows, 0 rows/s, epoch 0"


class Broken(io.StringIO):
    """A log nobody reads, or on a disk that is full."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, _):
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left"), ValueError()])
def test_a_log_that_cannot_be_written_does_not_end_the_job(error, moving):
    log = JsonLog("online", Broken(error))
    assert run(np.nan_to_num(moving[:1000]), log).rows == 1000
    log.emit(logging.makeLogRecord({"msg": "a server went away"}))


def test_a_watcher_whose_terminal_is_gone_does_not_end_the_job(moving):
    def watch(event, progress):
        raise OSError(5, "Input/output error")

    assert run(np.nan_to_num(moving[:1000]), watch).rows == 1000
