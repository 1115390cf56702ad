"""`streambits encode`: as a filter, and into a folder."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import streambits as sb

SCRIPT = Path(sys.executable).with_name("streambits")


@pytest.fixture
def model(train, tmp_path):
    learner = sb.ssbc(train, 12)
    sb.save(learner, tmp_path / "model.safetensors")
    return learner


def as_csv(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in rows.tolist()).encode()


def hexadecimal(codes):
    return [code.tobytes().hex() for code in codes.packed]


def test_a_filter(command, model, rows, tmp_path):
    done = command("encode", tmp_path / "model.safetensors", "-", stdin=as_csv(rows[:50]))
    assert done.code == 0, done.err
    assert done.lines == [
        {"id": i, "code": code, "epoch": 0}
        for i, code in enumerate(hexadecimal(model.coder().encode(rows[:50])))
    ]
    assert "standard output: 50 rows, epoch 0" in done.err


def test_the_example_of_the_issue(model, rows, tmp_path):
    (tmp_path / "rows.csv").write_bytes(as_csv(rows[:20]))
    line = f"cat {tmp_path}/rows.csv | {SCRIPT} encode {tmp_path}/model.safetensors - | head -3"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
    found = [json.loads(text)["code"] for text in done.stdout.splitlines()]
    assert found == hexadecimal(model.coder().encode(rows[:3]))


def test_someone_who_stops_listening(model, rows, tmp_path):
    np.save(tmp_path / "rows.npy", np.tile(rows, (10, 1)))
    line = f"{SCRIPT} encode {tmp_path}/model.safetensors {tmp_path}/rows.npy --quiet | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == "streambits: standard output: Broken pipe\n"


@pytest.mark.parametrize("kind", ["coder", "coders"])
def test_other_models(kind, command, model, rows, tmp_path):
    coder, coders = model.coder(), sb.Coders()
    coders.note(coder, rows[:9], coder.encode(rows[:9]))
    sb.save(coder if kind == "coder" else coders, tmp_path / "other.safetensors")
    np.save(tmp_path / "rows.npy", rows[:50])
    done = command("encode", tmp_path / "other.safetensors", tmp_path / "rows.npy")
    assert [line["code"] for line in done.lines] == hexadecimal(coder.encode(rows[:50]))


def test_bad_rows(command, fails, model, rows, tmp_path):
    text = as_csv(rows[:3]) + b"1,2\n" + as_csv(rows[3:5])
    arguments = ["encode", tmp_path / "model.safetensors", "-"]
    done = command(*arguments, stdin=text)
    assert done.code == 1
    assert "standard input:4: 2 cells, where 8 belong; --skip-bad" in done.err
    assert command(*arguments, "--skip-bad", stdin=text).code == 2
    done = command(*arguments, "--skip-bad", "--rejects", tmp_path / "bad.jsonl", stdin=text)
    assert [line["id"] for line in done.lines] == [0, 1, 2, 4, 5]
    assert f"1 bad row is in {tmp_path / 'bad.jsonl'}" in done.err
    [reject] = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert json.loads(reject)["where"] == "standard input:4"
    again = fails(*arguments, "--skip-bad", "--rejects", tmp_path / "bad.jsonl", stdin=text)
    assert "exists already" in again


def test_a_folder(command, fails, model, rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows)
    arguments = ["encode", tmp_path / "model.safetensors", tmp_path / "rows.npy"]
    to = ["--to", tmp_path / "codes.index", "--out", tmp_path / "job"]
    assert command(*arguments, *to, "--json").json["rows"] == len(rows)
    index = sb.load(tmp_path / "codes.index")
    assert (len(index), index.bits) == (len(rows), 12)
    sb.save(sb.ssbc(rows[:70], 12), tmp_path / "model.safetensors")
    assert "belongs to another job: model is" in fails(*arguments, *to)


@pytest.mark.parametrize(
    "arguments", [["--to", "x.jsonl"], ["--json"], ["--rejects", "x"], ["--skip-bad"]]
)
def test_wrong_use(command, model, tmp_path, arguments):
    done = command("encode", tmp_path / "model.safetensors", "-", *arguments)
    assert (done.code, done.out) == (2, "")


def test_what_is_no_model(fails, tmp_path, rows):
    sb.save(sb.HammingIndex(8), tmp_path / "a.index")
    assert "holds a HammingIndex: name" in fails("encode", tmp_path / "a.index", "-")
    assert "does not exist" in fails("encode", tmp_path / "no.safetensors", "-")
    assert "model.safetensors does not exist" in fails("encode", tmp_path, "-")
