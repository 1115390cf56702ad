"""Wherever a job dies or fails, nothing is lost or doubled, and the same job comes to the same end.

All crash points of small jobs in the slow tests, some of them in the others; and real kills.
"""

import json
import os
import re
import subprocess
import sys
from signal import SIGKILL

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import crashes
import streambits as sb
from streambits.io.codes.parquet import ParquetSink, read_codes
from streambits.io.rows import open_source
from streambits.jobs.folder import JobFolder
from streambits.jobs.job import Job, Pace
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Encoding, Learning, Online

SETTINGS = sb.Settings(8, n_landmarks=30, epochs=512, refresh=256).checked()
COUNT = 1300


@pytest.fixture(scope="module")
def rows(mixture):
    rows = mixture(COUNT)
    rows[77::400, 3] = np.nan
    return rows


@pytest.fixture(scope="module")
def source(rows, tmp_path_factory):
    """Rows with ids that come again and go; some are bad."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)
    ids = np.arange(COUNT) % 900
    table = pa.table({"id": ids, "v": lists, "gone": np.arange(COUNT) % 7 == 3})
    path = tmp_path_factory.mktemp("source") / "rows.parquet"
    parquet.write_table(table, path, row_group_size=200)
    return path


@pytest.fixture
def job(source, rows, tmp_path, monkeypatch):
    """job(kind, name): what does that job in that folder, or goes on with it."""
    monkeypatch.setattr("streambits.jobs.reader.TOGETHER", 200)
    good = rows[np.isfinite(rows).all(axis=1)]
    coder = SETTINGS.learner([good]).learn(good).coder()

    def job(kind, name):
        folder = tmp_path / name

        def work():
            todo = {
                "learn": lambda: Learning(SETTINGS),
                "online": lambda: Online(SETTINGS, 2),
                "encode": lambda: Encoding(coder, "model"),
            }[kind]()
            reading = open_source(source, rows=200, ids="id", removed="gone")
            with JobFolder(folder, {"verb": kind}) as place:
                sink = None if kind == "learn" else ParquetSink(place.codes, 8, rows=300)
                rejects = Rejects(place.rejects_file, skip=True)
                Job(reading, todo, sink, rejects, place, pace=Pace(450, 1e9)).run()

        return folder, work

    return job


def result(folder):
    """What a job leaves for others: bytes of models and rejects, and its codes by id."""
    files = [*folder.glob("*.safetensors"), *folder.glob("epochs/*"), *folder.glob("rejects.jsonl")]
    files = [file for file in files if file.name != "checkpoint.safetensors"]
    found = {str(file.relative_to(folder)): file.read_bytes() for file in sorted(files)}
    if (folder / "codes").exists():
        batches = list(read_codes(folder / "codes"))
        ids = [i for ids, _ in batches for i in ids.tolist()]
        codes = [(codes.epoch, bytes(code)) for _, codes in batches for code in codes.packed]
        assert len(set(ids)) == len(ids)
        found["codes"] = dict(zip(ids, codes, strict=True))
    return found


def points(work, every):
    """Numbers of crash points: all, or 3 of them."""
    count = crashes.count(work)
    assert count > 20
    return range(1, count + 1, 1 if every else -(-count // 3))


EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])


@EVERY
@pytest.mark.parametrize("kind", ["online", "learn", "encode"])
def test_a_job_that_was_killed_goes_on(kind, every, job):
    folder, work = job(kind, "alone")
    numbers = points(work, every)
    wanted = result(folder)
    if kind == "online":
        assert {epoch for epoch, _ in wanted["codes"].values()} >= {1, 2}
        assert not {number for number in wanted["codes"] if number % 7 == 3 and number >= 400}
    for n in numbers:
        folder, work = job(kind, f"killed {n}")
        assert crashes.exits(work, n)
        work()
        assert result(folder) == wanted, n
        assert not list(folder.rglob("*.new"))


@EVERY
def test_a_job_whose_disk_was_full_goes_on(every, job):
    folder, work = job("online", "alone")
    numbers = points(work, every)
    wanted = result(folder)
    for n in numbers:
        folder, work = job("online", f"failed {n}")
        error = crashes.fails(work, n)
        assert not error or re.match("StorageError: .*No space left on device", error), n
        work()
        assert result(folder) == wanted, n


@EVERY
def test_a_folder_without_rows_is_taken_by_another_job_wherever_that_was_killed(every, job):
    folder, work = job("learn", "alone")
    work()
    wanted = result(folder)

    def begun(name):
        with JobFolder(job("learn", name)[0], {"verb": "online"}):
            pass

    begun("count")
    for n in points(job("learn", "count")[1], every):
        begun(f"killed {n}")
        folder, work = job("learn", f"killed {n}")
        assert crashes.exits(work, n)
        work()
        assert result(folder) == wanted


def test_codes_and_rejects_are_on_the_disk_before_the_checkpoint_counts_them(job, monkeypatch):
    folder, work = job("online", "job")
    synced, commit, fsync, seen = {}, JobFolder.commit, os.fsync, []

    def noted_fsync(descriptor):
        fsync(descriptor)
        synced[os.fstat(descriptor).st_ino] = os.fstat(descriptor).st_size

    def noted_commit(self, checkpoint):
        rejects, size = folder / "rejects.jsonl", checkpoint.counts["size"]
        assert not size or synced[rejects.stat().st_ino] == size
        parts = list((folder / "codes").glob("*.parquet"))
        assert all(synced[part.stat().st_ino] == part.stat().st_size for part in parts)
        seen.append((checkpoint.counts["rows"], size, checkpoint.ended))
        commit(self, checkpoint)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(JobFolder, "commit", noted_commit)
    work()
    assert len(seen) > 3
    assert seen[-1][1] > 0
    assert [ended for _, _, ended in seen] == [False] * (len(seen) - 1) + [True]


def payloads(rows):
    """Messages that write, change and remove documents with text ids, in an order."""
    rng = np.random.default_rng(5)
    for number, row in enumerate(rows.tolist()):
        yield {"id": f"doc-{number % 700}", "embedding": row, "title": f"version {number}"}
        if number % 3 == 2:
            yield {"id": f"doc-{rng.integers(700)}", "embedding": None}


@pytest.mark.slow
@pytest.mark.parametrize("which", ["files", "nats_server", "kafka_cluster"])
def test_a_real_kill(which, jobs, mixture, moving_files, *, tmp_path, committed, request):
    """A process that was killed after a commit; of messages with deletes, texts as ids and more."""
    settings = ["--bits", 8, "--set", "n_landmarks=40", "--set", "refresh=700"]
    settings += ["--set", "commit_rows=300"]
    if which == "files":
        command = ["online", moving_files, *settings, "--skip-bad"]
    else:
        broker, items = request.getfixturevalue(which), list(payloads(mixture(2000)))
        name = broker.new([json.dumps(item).encode() for item in items])
        more = ["--ids", "id", "--columns", "embedding", "--keep", "title"]
        command = ["online", f"{broker.url}/{name}", *settings, *more]
    jobs.whole([*command, "--out", tmp_path / "alone"])
    wanted = result(tmp_path / "alone")
    if which != "files":
        live = {}
        for item in items:
            live.pop(item["id"], None)
            if item["embedding"] is not None:
                live[item["id"]] = item["title"]
        table = parquet.read_table(tmp_path / "alone" / "codes").to_pydict()
        assert dict(zip(table["id"], table["title"], strict=True)) == live
    program = "from streambits.cli.app import main; main()"
    words = [*command, "--out", tmp_path / "killed"]
    with subprocess.Popen([sys.executable, "-c", program, *map(str, words)]) as process:
        committed(tmp_path / "killed", 300)
        process.send_signal(SIGKILL)
    assert process.returncode in (-SIGKILL, 0)
    jobs.whole(words)
    assert result(tmp_path / "killed") == wanted
