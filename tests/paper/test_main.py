"""`python -m paper` on a tiny grid: stopped, killed, gone on with, and asked wrongly."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paper import __main__ as command
from paper import progress, runs
from paper.measure import Cell

ROOT = Path(__file__).parents[2]
TINY = """
queries = 30
[[cells]]
streams = ["uniform"]
methods = ["lsh", "ssbc", "mdsh"]
bits = [8]
seeds = [0, 1, 2, 3, 4, 5]
[theory]
data = ["uniform"]
rows = 200
"""
COUNT = 18


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def start(grid, out, *more):
    line = [sys.executable, "-m", "paper", "--grid", grid, "--out", out, "--workers", "2", *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def finished(out):
    return {path: path.stat().st_mtime_ns for path in (out / "results").glob("uniform-*.json")}


def wait_for(running, out, count):
    """Until so many cells are done."""
    while len(finished(out)) < count:
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.slow
def test_a_run_that_was_stopped_and_killed_goes_on(grid, tmp_path):
    out = tmp_path / "report"
    running = start(grid, out)
    wait_for(running, out, 1)
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert (running.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1].startswith("stopped: ")
    assert stderr.splitlines()[-1].endswith(
        f"of {COUNT} cells are done; the same command goes on from here"
    )
    before = finished(out)

    running = start(grid, out)
    wait_for(running, out, len(before) + 1)
    workers = children(running.pid)
    running.kill()
    running.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)
    between = finished(out)
    assert before.items() <= between.items()
    assert len(between) < COUNT

    running = start(grid, out, "--json")
    stdout, stderr = running.communicate(timeout=120)
    assert running.returncode == 0, stderr
    assert f"{len(between)} of {COUNT} cells" in stderr
    assert between.items() <= finished(out).items()  # not one of them was done again
    assert len(finished(out)) == COUNT
    got = json.loads(stdout)
    assert stdout.count("\n") == 1
    assert got["cells"] == COUNT
    assert Path(got["report"]).read_text().startswith("<!doctype html>")
    assert Path(got["table"]).exists()
    assert Path(got["picture"]).read_bytes().startswith(b"\x89PNG")
    verdicts = {claim["claim"]: claim["verdict"] for claim in got["claims"]}
    assert verdicts["Frequent Directions"] == "holds"
    assert verdicts["highest precision"] == "not measured"

    everything = {p: p.stat().st_mtime_ns for p in (out / "results").iterdir()}
    again = call("--grid", grid, "--out", out)
    assert again.exit_code == 0, again.stderr
    assert {p: p.stat().st_mtime_ns for p in (out / "results").iterdir()} == everything
    assert "not measured" in again.stdout
    assert f"report: {out / 'index.html'}" in again.stdout


def call(*arguments):
    return CliRunner().invoke(command.app, list(map(str, arguments)))


@pytest.mark.parametrize("arguments", [(), ("quick", "--grid", "mine.toml"), ("paper",)])
def test_wrong_use_is_exit_2(arguments):
    assert call(*arguments).exit_code == 2


def test_a_mistake_is_one_line_on_stderr(grid, tmp_path, monkeypatch, capsys):
    grid.write_text("cells = [")
    monkeypatch.setattr(sys, "argv", ["paper", "--grid", str(grid), "--out", str(tmp_path / "r")])
    with pytest.raises(SystemExit) as end:
        command.main()
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (1, "")
    assert said.err.startswith("paper: ")
    assert said.err.count("\n") == 1
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "content",
    [b"{}", b"[]", b"null", b"[" * 100_000, b'{"figures": {}}', b'{"digest": "0"}'],
)
def test_a_damaged_result_is_named(grid, tmp_path, content):
    grid.write_text('[[cells]]\nstreams=["uniform"]\nmethods=["lsh"]\nbits=[8]\n')
    folder = tmp_path / "report/results"
    folder.mkdir(parents=True)
    runs.file_of(folder, Cell("uniform", "lsh", 8)).write_bytes(content)
    done = call("--grid", grid, "--out", tmp_path / "report")
    assert done.exit_code == 1
    assert "delete it, and run again" in str(done.exception)


@pytest.mark.slow
def test_lines_instead_of_a_report(grid, tmp_path):
    grid.write_text(
        'queries = 20\n[[cells]]\nstreams = ["digits"]\nmethods = ["lsh", "itq"]\nbits = [100]\n'
    )
    asked = ("--grid", grid, "--out", tmp_path / "report", "--workers", 1, "--cells")
    done = call(*asked)
    assert done.exit_code == 0, done.stderr
    header, lsh, itq = done.stdout.splitlines()
    assert header.split()[:4] == ["data", "bits", "method", "MAP"]
    assert lsh.split()[:3] == ["digits", "100", "lsh"]
    assert all(0 < float(value) <= 1 for value in lsh.split()[3:6])
    assert "n/a: bits is 100" in itq
    objects = [json.loads(line) for line in call(*asked, "--json").stdout.splitlines()]
    assert [one["cell"]["method"] for one in objects] == ["lsh", "itq"]
    assert objects[0]["figures"]["recall"]["100"] > 0
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["results"]


def test_missing_data_are_one_sentence(grid, tmp_path):
    grid.write_text(TINY.replace('["uniform"]', '["pamap2 small"]', 1))
    done = call("--grid", grid, "--out", tmp_path / "report", "--data", tmp_path)
    assert done.exit_code == 1
    assert "the data set pamap2 is read from" in str(done.exception)
    assert str(tmp_path) in str(done.exception)


def test_an_unwritable_place_is_told_before_the_work(grid, tmp_path):
    (tmp_path / "file").touch()
    done = call("--grid", grid, "--out", tmp_path / "file")
    assert done.exit_code == 1
    assert "cannot be made" in str(done.exception)


@pytest.fixture(autouse=True)
def _same_surroundings(monkeypatch):
    """--data sets a variable for the workers: it is put back after each test."""
    monkeypatch.setenv("STREAMBITS_DATA", os.environ.get("STREAMBITS_DATA", "data"))


# What remains


def test_what_remains_is_told_with_what_runs(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    cells = [Cell("digits", "lsh", 8, seed) for seed in range(4)]
    state = progress.Remaining(cells, done=6, workers=2)
    assert (
        str(state) == "6 of 10 cells, now digits, LSH, 8 bits, seed 0; digits, LSH, 8 bits, seed 1"
    )
    now[0] = 30.0
    state.finish(cells[0])
    assert str(state).startswith("7 of 10 cells, 90 s left, now digits, LSH, 8 bits, seed 1;")
    for cell in cells:
        state.finish(cell)
    assert str(state) == "10 of 10 cells, 0 s left"


def test_a_cell_in_words():
    cell = Cell("cbm", "ssbc", 32, 1, "sorted", "sigma_all", "online")
    assert progress.describe(cell) == "cbm, SSBC (ours), 32 bits, sorted, sigma_all, online, seed 1"
