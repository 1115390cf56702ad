"""`streambits encode`: as a filter, and into a folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import streambits as sb
from streambits.jobs.folder import Checkpoint

SCRIPT = Path(sys.executable).with_name("streambits")


@pytest.fixture
def model(train, tmp_path):
    learner = sb.ssbc(train, 12)
    sb.save(learner, tmp_path / "model.safetensors")
    return learner


def as_csv(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in rows.tolist()).encode()


def test_a_filter(command, model, rows, tmp_path):
    done = command("encode", tmp_path / "model.safetensors", "-", stdin=as_csv(rows[:50]))
    assert done.code == 0, done.err
    assert done.lines == [
        {"id": i, "code": code.tobytes().hex(), "epoch": 0}
        for i, code in enumerate(model.coder().encode(rows[:50]).packed)
    ]
    assert "standard output: 50 rows, epoch 0" in done.err


def test_someone_who_stops_listening(model, rows, tmp_path):
    np.save(tmp_path / "rows.npy", np.tile(rows, (10, 1)))
    line = f"{SCRIPT} encode {tmp_path}/model.safetensors {tmp_path}/rows.npy | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.splitlines()[-1] == "streambits: standard output: Broken pipe"


def test_bad_rows(command, fails, model, rows, tmp_path):
    text = as_csv(rows[:3]) + b"1,2\n" + as_csv(rows[3:5])
    arguments = ["encode", tmp_path / "model.safetensors", "-"]
    done = command(*arguments, stdin=text)
    assert done.code == 1
    assert "standard input:4: expected 8 cells, got 2; --skip-bad" in done.err
    assert command(*arguments, "--skip-bad", stdin=text).code == 2
    done = command(*arguments, "--skip-bad", "--rejects", tmp_path / "bad.jsonl", stdin=text)
    assert [line["id"] for line in done.lines] == [0, 1, 2, 4, 5]
    assert f"1 bad row is in {tmp_path / 'bad.jsonl'}" in done.err
    [reject] = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert json.loads(reject)["where"] == "standard input:4"
    again = fails(*arguments, "--skip-bad", "--rejects", tmp_path / "bad.jsonl", stdin=text)
    assert "exists already" in again


@pytest.mark.parametrize(
    "arguments",
    [["--to", "x.jsonl"], ["--json"], ["--keep", "text"], ["--rejects", "x"], ["--skip-bad"]],
)
def test_wrong_use(command, model, tmp_path, arguments):
    done = command("encode", tmp_path / "model.safetensors", "-", *arguments)
    assert (done.code, done.out) == (2, "")


def test_what_is_no_model(fails, tmp_path, rows):
    sb.save(sb.HammingIndex(8), tmp_path / "a.index")
    assert "holds an index, and a model is needed" in fails("encode", tmp_path / "a.index", "-")
    assert "does not exist" in fails("encode", tmp_path / "no.safetensors", "-")
    assert "has no coders.safetensors or model.safetensors" in fails("encode", tmp_path, "-")


def test_a_job_that_goes_on(command, fails, job, tmp_path):
    """What it has committed encodes queries, but codes of a folder need a model that stays."""
    parts = {"coders": sb.load(job / "coders.safetensors")}
    (tmp_path / "job").mkdir()
    shutil.copy(job / "job.json", tmp_path / "job")
    file = tmp_path / "job" / "checkpoint.safetensors"
    sb.save(Checkpoint(None, None, {"rows": 5000}, parts), file)
    queries = job.parent / "queries.npy"
    done = command("encode", tmp_path / "job", queries)
    assert done.lines == command("encode", job, queries).lines
    failed = fails("encode", tmp_path / "job", queries, "--out", tmp_path / "again")
    assert "its next commit replaces the model: wait until it has ended" in failed
    assert not (tmp_path / "again").exists()
