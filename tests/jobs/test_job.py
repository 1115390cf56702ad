"""Signals, locks, bad rows, full disks: committed work is safe, and the same command goes on."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes.parquet import read_codes

SETTINGS = ["--bits", "8", "--set", "n_landmarks=40", "--set", "refresh=700"]
SMALL = ["--set", "commit_rows=300"]
PROGRAM = [sys.executable, "-c", "from streambits.cli.app import main; main()"]


def started(arguments, **more):
    """A process of its own, in which Ctrl-C does what it does in a terminal.

    A parent that ignores it, as a shell in the background does, would pass that on.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen([*PROGRAM, *map(str, arguments)], **more)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def whole(jobs, moving_files, tmp_path, content):
    """The bytes of an uninterrupted run."""
    jobs.whole(["online", moving_files, *SETTINGS, "--skip-bad", "--out", tmp_path / "alone"])
    return content(tmp_path / "alone")


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_commits_and_is_exit_0(
    which, jobs, whole, *, moving_files, tmp_path, content, committed
):
    folder = tmp_path / "job"
    command = ["online", moving_files, *SETTINGS, *SMALL, "--skip-bad", "--out", folder]
    stopped = 0
    for rows in (300, 1500, 3000):
        asked = {"act": lambda rows=rows: committed(folder, rows), "stop": True, "which": which}
        assert jobs.during(command, **asked) == 0, jobs.said
        stopped += "stopped, and all of that is committed: the same command" in jobs.said
    assert stopped
    jobs.whole(command)
    assert content(folder) == whole


def test_a_second_process_is_refused(jobs, tmp_path, committed):
    reading, writing = os.pipe()
    command = ["online", "-", *SETTINGS, "--out", str(tmp_path / "job"), "--set", "quiet=true"]
    with started(command, stdin=reading) as first:
        try:
            committed(tmp_path / "job", 0)
            assert jobs.run(command) == 1
            assert f"another process ({first.pid}) works on the job in" in jobs.said
            first.send_signal(signal.SIGTERM)
            assert first.wait(60) == 0  # though standard input stays open
        finally:
            first.kill()
    os.close(reading)
    os.close(writing)


def test_a_folder_of_another_job_is_refused(jobs, moving_files, tmp_path):
    command = ["online", moving_files, *SETTINGS, "--skip-bad", "--set", "quiet=true"]
    jobs.whole([*command, "--out", tmp_path / "job"])
    for other, words in (
        (["--set", "seed=7"], "seed is 0 there and 7 here"),
        (["--to", "postgresql://127.0.0.1:1/x"], "sink is codes there and"),
    ):
        assert jobs.run([*command, *other, "--out", tmp_path / "job"]) == 1
        assert "belongs to another job" in jobs.said
        assert words in jobs.said
    one = ["online", moving_files / "a.parquet", *SETTINGS, "--out", tmp_path / "job"]
    assert jobs.run(one) == 1
    assert f"source files is {moving_files} there and" in jobs.said
    assert jobs.run(["learn", *one[1:6], "--out", tmp_path / "job"]) == 1
    assert "verb is online there and learn here" in jobs.said
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    assert jobs.run([*command, "--out", tmp_path / "mine"]) == 1
    assert "contains thesis.txt, which is not part of a job" in jobs.said
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_finished_job_says_so(jobs, moving_files, tmp_path, content):
    command = ["online", moving_files, *SETTINGS, "--skip-bad", "--out", tmp_path / "job"]
    jobs.whole(command)
    before = content(tmp_path / "job")
    jobs.whole(command)
    assert "finished before: there is nothing new" in jobs.said
    assert content(tmp_path / "job") == before


def test_a_bad_row_is_an_error_and_what_came_before_is_kept(
    jobs, whole, moving_files, tmp_path, content
):
    command = ["online", moving_files, *SETTINGS, *SMALL, "--out", tmp_path / "job"]
    assert jobs.run(command, rows=20) == 1
    assert "a.parquet, row 77: value 4 of 8 is NaN; --skip-bad puts" in jobs.said
    assert len(jobs.said.strip().splitlines()) == 2
    assert not (tmp_path / "job" / "rejects.jsonl").exists()
    jobs.whole([*command, "--skip-bad", "--json"])
    assert '"rejects": 18' in jobs.said
    assert "18 bad rows are in" in jobs.said
    assert content(tmp_path / "job") == whole
    [first, *_] = (tmp_path / "job" / "rejects.jsonl").read_text().splitlines()
    assert json.loads(first)["where"].endswith("a.parquet, row 77")


def test_a_file_that_is_cut_off(jobs, whole, moving, *, as_parquet, tmp_path, content):
    as_parquet(tmp_path / "a.parquet", moving[:5200])
    as_parquet(tmp_path / "b.parquet", moving[5200:])
    good = (tmp_path / "b.parquet").read_bytes()
    damaged = bytearray(good)
    damaged[30_000:34_000] = bytes(4000)
    (tmp_path / "b.parquet").write_bytes(damaged)
    names = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    command = ["online", *names, *SETTINGS, "--skip-bad", "--out", tmp_path / "job"]
    assert jobs.run(command) == 1
    assert "b.parquet cannot be read as Parquet" in jobs.said
    assert "rows are committed and safe" in jobs.said
    (tmp_path / "b.parquet").write_bytes(good)
    jobs.whole(command)
    found = content(tmp_path / "job")
    assert found.pop("rejects.jsonl")
    assert found.items() <= whole.items()


def test_a_folder_that_grows(jobs, moving, as_parquet, tmp_path, content):
    """Parquet files come while the job is not running; newer ones sort first."""
    good = moving[np.isfinite(moving).all(axis=1)]
    for name, cuts in (("one", 1), ("three", 3)):
        files = tmp_path / f"{name}-files"
        files.mkdir()
        for number, part in enumerate(np.array_split(good, cuts)):
            as_parquet(files / f"{5 - number}.parquet", part)
            jobs.whole(["online", files, *SETTINGS, "--out", tmp_path / name])
    assert content(tmp_path / "one") == content(tmp_path / "three")


def test_widths_that_do_not_fit(jobs, mixture, as_parquet, tmp_path):
    as_parquet(tmp_path / "a.parquet", mixture(900))
    as_parquet(tmp_path / "b.parquet", mixture(900, width=7))
    names = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert jobs.run(["online", *names, *SETTINGS, "--out", tmp_path / "job"]) == 1
    assert "b.parquet has rows of 7 numbers, and" in jobs.said
    assert sum(len(ids) for ids, _ in read_codes(tmp_path / "job" / "codes")) == 900
    sb.save(sb.ssbc(mixture(60), 8), tmp_path / "model.safetensors")
    assert jobs.run(["encode", tmp_path / "model.safetensors", tmp_path / "b.parquet"]) == 1
    assert "the rows have 7 numbers, and" in jobs.said
    assert "model.safetensors is for rows of 8" in jobs.said


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs, and what makes it larger."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a tmpfs cannot be mounted here")

    yield folder, mount
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


@pytest.mark.parametrize("size", ["100k", "300k"])
def test_a_disk_that_is_really_full(size, whole, *, small_disk, jobs, moving_files, content):
    """In a process of its own: one that failed lets go of its locks when it ends."""
    folder, mount = small_disk
    mount(f"size={size}")
    command = ["online", moving_files, *SETTINGS, *SMALL, "--skip-bad", "--set", "quiet=true"]
    command += ["--out", folder / "job"]
    with started(command, stderr=subprocess.PIPE, text=True) as process:
        [said] = process.communicate()[1].splitlines()
    assert process.returncode == 1
    assert "No space left on device" in said
    mount("remount,size=50m")
    jobs.whole(command)
    assert content(folder / "job") == whole


def test_no_rows_at_all(jobs, tmp_path, as_parquet):
    as_parquet(tmp_path / "a.parquet", np.empty((0, 4), np.float32))
    assert jobs.run(["online", tmp_path / "a.parquet", *SETTINGS, "--out", tmp_path / "job"]) == 1
    assert "there are no rows that can be used" in jobs.said


def test_a_process_that_follows_ends_quietly_by_ctrl_c(nats_server, mixture, tmp_path, committed):
    rows = [json.dumps(row).encode() for row in mixture(500).astype(float).tolist()]
    url, out = f"{nats_server.url}/{nats_server.new(rows)}", tmp_path / "job"
    command = ["online", url, *SETTINGS, "--set", "follow=true", "--set", "quiet=true", "--json"]
    command += ["--set", "commit_seconds=0.2", "--out", out]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            committed(out, 500)
            process.send_signal(signal.SIGINT)
            said, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, b"")
    assert json.loads(said)["stopped"]
