"""`python -m paper` on a tiny grid: stopped, killed, gone on with, and asked wrongly."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paper import __main__ as command
from paper import runs
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


def finished(out):
    return {path: path.stat().st_mtime_ns for path in (out / "results").glob("uniform-*.json")}


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on(grid, tmp_path):
    out = tmp_path / "report"
    line = [sys.executable, "-m", "paper", "--grid", grid, "--out", out, "--workers", "2"]
    running = subprocess.Popen(line, cwd=ROOT)
    while len(finished(out)) < 1:
        assert running.poll() is None
        time.sleep(0.01)
    running.kill()
    running.wait(60)
    before = finished(out)
    assert len(before) < COUNT
    done = call("--grid", grid, "--out", out, "--workers", 2, "--json")
    assert done.exit_code == 0, done.stderr
    assert before.items() <= finished(out).items()  # not one of them was done again
    got = json.loads(done.stdout)
    assert got["cells"] == len(finished(out)) == COUNT
    assert Path(got["report"]).read_text().startswith("<!doctype html>")
    assert Path(got["picture"]).read_bytes().startswith(b"\x89PNG")
    verdicts = {claim["claim"]: claim["verdict"] for claim in got["claims"]}
    assert verdicts["Frequent Directions"] == "holds"
    assert verdicts["highest precision"] == "not measured"
    everything = {p: p.stat().st_mtime_ns for p in (out / "results").iterdir()}
    again = call("--grid", grid, "--out", out)
    assert {p: p.stat().st_mtime_ns for p in (out / "results").iterdir()} == everything
    assert f"report: {out / 'index.html'}" in again.stdout


def test_ctrl_c_says_that_the_same_command_goes_on(grid, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "run", interrupted)
    done = call("--grid", grid, "--out", tmp_path / "report")
    assert (done.exit_code, done.stdout) == (130, "")
    said = "stopped: 0 of 18 cells are done; the same command goes on from here"
    assert done.stderr.splitlines()[-1] == said


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
    [b"[]", b"[" * 100_000, b'{"digest": "0"}'],
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


@pytest.fixture(autouse=True)
def _same_surroundings(monkeypatch):
    """--data sets a variable for the workers: it is put back after each test."""
    monkeypatch.setenv("STREAMBITS_DATA", os.environ.get("STREAMBITS_DATA", "data"))
