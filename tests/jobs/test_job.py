"""Signals, locks, bad rows, full disks: committed work is safe, and the same command goes on."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes.parquet import read_codes
from streambits.jobs.folder import JobFolder

SETTINGS = ["--bits", "8", "--set", "n_landmarks=40", "--set", "refresh=700"]
SMALL = ["--set", "commit_rows=300"]


def begun(folder):
    """Wait for the first checkpoint, at most a minute: from then on it listens to signals."""
    for _ in range(600):
        if (folder / "checkpoint.safetensors").exists():
            return
        time.sleep(0.1)


def over(folder):
    """Whether a job has committed all: from then on a signal ends the process as usual."""
    found = JobFolder(folder, {}).checkpoint()
    return found is not None and found.ended


@pytest.fixture
def whole(jobs, moving_files, tmp_path, content):
    """The bytes of an uninterrupted run."""
    command = ["online", moving_files, *SETTINGS, "--skip-bad", "--set", "quiet=true"]
    seconds = jobs.whole([*command, "--out", tmp_path / "alone"])
    return content(tmp_path / "alone"), seconds


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_commits_and_is_exit_0(which, jobs, whole, *, moving_files, tmp_path, content):
    wanted, seconds = whole
    command = ["online", moving_files, *SETTINGS, "--skip-bad", "--out"]
    stops = tries = 0
    while stops < 3:
        tries += 1
        code = -1
        while code or "stopped" in jobs.said:
            after = float(jobs.rng.uniform(0.1, seconds))
            folder = tmp_path / f"job{tries}"
            code = jobs.run([*command, folder], seconds=after, signal=which, rows=20)
            began = "rows" in jobs.said
            assert code == 0 or not began or over(folder)  # it came before the job, or after it
            stops += "stopped, and all of that is committed: the same command" in jobs.said
        assert content(folder) == wanted


def test_a_second_process_is_refused(moving_files, tmp_path, jobs):
    reading, writing = os.pipe()
    command = [sys.executable, "-c", "from streambits.cli.app import main; main()"]
    arguments = ["online", "-", *SETTINGS, "--out", str(tmp_path / "job"), "--set", "quiet=true"]
    with subprocess.Popen([*command, *arguments], stdin=reading) as first:
        try:
            begun(tmp_path / "job")
            assert jobs.run(arguments) == 1
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
    assert "holds thesis.txt and no job" in jobs.said
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_command_that_is_corrected_takes_the_folder(jobs, moving_files, tmp_path, content):
    """Whether the wrong one fails or is killed, and wherever the right one is killed at first."""
    command = ["online", moving_files, "--set", "method=itq", "--skip-bad", "--set", "quiet=true"]
    seconds = jobs.whole([*command, "--bits", 8, "--out", tmp_path / "alone"])
    wanted = content(tmp_path / "alone")
    for number in range(6):
        out = ["--out", tmp_path / f"job{number}"]
        wrong, right = [*command, "--bits", 9, *out], [*command, "--bits", 8, *out]
        after = jobs.rng.uniform(0, seconds, 2) if number else (60, 60)
        assert jobs.run(wrong, seconds=after[0]) in (1, -9)
        assert jobs.run(right, seconds=after[1]) in (0, -9), jobs.said
        jobs.whole(right)
        assert content(tmp_path / f"job{number}") == wanted
        assert jobs.run(wrong) == 1
        assert "bits is 8 there and 9 here" in jobs.said


def test_a_finished_job_says_so(jobs, moving_files, tmp_path, content):
    command = ["online", moving_files, *SETTINGS, "--skip-bad", "--out", tmp_path / "job"]
    jobs.whole(command)
    before = content(tmp_path / "job")
    jobs.whole(command)
    assert "finished before: there is nothing new" in jobs.said
    assert content(tmp_path / "job") == before


def test_a_bad_row_is_an_error_and_what_came_before_is_kept(jobs, moving_files, tmp_path, content):
    command = ["online", moving_files, *SETTINGS, *SMALL, "--out", tmp_path / "job"]
    assert jobs.run(command, rows=20) == 1
    assert "a.parquet, row 77: value 4 of 8 is NaN; --skip-bad puts" in jobs.said
    assert len(jobs.said.strip().splitlines()) == 2
    assert not (tmp_path / "job" / "rejects.jsonl").exists()
    jobs.whole([*command, "--skip-bad", "--json"])
    assert '"rejects": 18' in jobs.said
    assert "18 bad rows are in" in jobs.said
    jobs.whole(["online", moving_files, *SETTINGS, "--skip-bad", "--out", tmp_path / "alone"])
    assert content(tmp_path / "job") == content(tmp_path / "alone")
    [first, *_] = (tmp_path / "job" / "rejects.jsonl").read_text().splitlines()
    assert json.loads(first)["where"].endswith("a.parquet, row 77")


def test_a_file_that_is_cut_off(jobs, whole, moving, *, as_parquet, tmp_path, content):
    wanted, _ = whole
    as_parquet(tmp_path / "a.parquet", moving[:5200])
    as_parquet(tmp_path / "b.parquet", moving[5200:])
    good = (tmp_path / "b.parquet").read_bytes()
    damaged = bytearray(good)
    damaged[30_000:34_000] = bytes(4000)
    (tmp_path / "b.parquet").write_bytes(damaged)
    names = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    command = ["online", *names, *SETTINGS, "--skip-bad", "--out", tmp_path / "job"]
    assert jobs.run(command) == 1
    assert "b.parquet cannot be read as Parquet from row" in jobs.said
    assert "rows are committed and safe" in jobs.said
    (tmp_path / "b.parquet").write_bytes(good)
    jobs.whole(command)
    found = content(tmp_path / "job")
    assert found.pop("rejects.jsonl")
    assert found.items() <= wanted.items()


def test_a_width_that_changes(jobs, mixture, as_parquet, tmp_path):
    as_parquet(tmp_path / "a.parquet", mixture(900))
    as_parquet(tmp_path / "b.parquet", mixture(900, width=7))
    names = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert jobs.run(["online", *names, *SETTINGS, "--out", tmp_path / "job"]) == 1
    assert "b.parquet has rows of 7 numbers, and" in jobs.said
    assert sum(len(ids) for ids, _ in read_codes(tmp_path / "job" / "codes")) == 900


def test_a_model_of_other_dimensions(jobs, mixture, as_parquet, tmp_path):
    as_parquet(tmp_path / "a.parquet", mixture(900, width=7))
    sb.save(sb.ssbc(mixture(60), 8), tmp_path / "model.safetensors")
    assert jobs.run(["encode", tmp_path / "model.safetensors", tmp_path / "a.parquet"]) == 1
    assert "the rows have 7 numbers, and" in jobs.said
    assert "model.safetensors is for rows of 8" in jobs.said


@pytest.fixture
def small_disk(tmp_path):
    """small_disk(size): a tmpfs, and what makes it larger."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a tmpfs cannot be mounted here")

    yield folder, mount
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


@pytest.mark.parametrize("size", ["100k", "200k", "300k", "400k"])
def test_a_full_disk(size, jobs, whole, *, small_disk, moving_files, content):
    wanted, _ = whole
    folder, mount = small_disk
    mount(f"size={size}")
    command = ["online", moving_files, *SETTINGS, *SMALL, "--skip-bad", "--set", "quiet=true"]
    command += ["--out", folder / "job"]
    for _ in range(2):
        assert jobs.run(command, rows=100) == 1
        assert "No space left on device" in jobs.said
        assert len(jobs.said.strip().splitlines()) == 1
    mount("remount,size=50m")
    jobs.whole(command)
    assert content(folder / "job") == wanted


def test_no_rows_at_all(jobs, tmp_path, as_parquet):
    as_parquet(tmp_path / "a.parquet", np.empty((0, 4), np.float32))
    assert jobs.run(["online", tmp_path / "a.parquet", *SETTINGS, "--out", tmp_path / "job"]) == 1
    assert "there are no rows that can be used" in jobs.said


def test_a_signal_before_there_are_landmarks(jobs, nats_server, mixture, tmp_path):
    rows = [json.dumps(row).encode() for row in mixture(100).astype(float).tolist()]
    name = nats_server.new([*rows, b"rubbish"])
    command = ["online", f"{nats_server.url}/{name}", *SETTINGS, "--skip-bad", "--out"]
    follow = [*command, tmp_path / "job", "--follow", "--json"]
    assert jobs.run(follow, seconds=2, signal=signal.SIGTERM) == 0, jobs.said
    assert '"rows": 100, "new_rows": 100' in jobs.said
    assert '"waiting": 100' in jobs.said
    jobs.whole([*command, tmp_path / "job", "--json"])
    assert '"rows": 100, "new_rows": 0' in jobs.said
    assert '"waiting": 0' in jobs.said
    assert '"rejects": 1' in jobs.said


def test_a_process_that_follows_ends_quietly(nats_server, mixture, tmp_path):
    rows = [json.dumps(row).encode() for row in mixture(500).astype(float).tolist()]
    name = nats_server.new(rows)
    arguments = [
        f"{nats_server.url}/{name}",
        *SETTINGS,
        "--follow",
        "--set",
        "quiet=true",
        "--json",
    ]
    command = [sys.executable, "-c", "from streambits.cli.app import main; main()", "online"]
    out = tmp_path / "job"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    more = ["--set", "commit_seconds=0.2", "--out", str(out)]
    with subprocess.Popen([*command, *arguments, *more], **pipes) as process:
        try:
            begun(out)
            process.send_signal(signal.SIGINT)
            said, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, b"")
    assert json.loads(said)["stopped"]
