"""`streambits index`: codes of all kinds in, an index, FAISS or Parquet out."""

import json

import pytest

import streambits as sb
from streambits.io.codes import open_codes


def pairs(index):
    return [
        (name, codes.epoch, code.tobytes())
        for ids, codes in index.items()
        for name, code in zip(ids.tolist(), codes.packed, strict=True)
    ]


@pytest.fixture
def expected(job):
    return pairs(open_codes(job / "codes").index())


def test_a_job_becomes_an_index(command, job, tmp_path, expected):
    out = tmp_path / "index.safetensors"
    done = command("index", job, "--out", out, "--json")
    assert done.code == 0, done.err
    assert done.json == {
        "out": str(out),
        "codes": 5000,
        "bits": 16,
        "epochs": [0, 1],
        "bytes": out.stat().st_size,
    }
    assert pairs(sb.load(out)) == expected
    assert "5,000 codes of 16 bits" in command("index", job, "--out", out).out


def test_round_the_formats(command, job, tmp_path, expected):
    first, second = tmp_path / "a.parquet", tmp_path / "b.index"
    assert command("index", job / "codes", "--out", first).code == 0
    assert command("index", first, "--out", second).code == 0
    assert pairs(sb.load(second)) == expected


def test_faiss_and_back(command, one_epoch, tmp_path):
    pytest.importorskip("faiss")
    there, back = tmp_path / "x.faiss", tmp_path / "x.safetensors"
    assert command("index", one_epoch, "--out", there).code == 0
    assert command("index", there, "--out", back, "--epoch", 1).code == 0
    assert pairs(sb.load(back)) == pairs(open_codes(one_epoch / "codes").index())


@pytest.mark.parametrize("name", ["codes.npy", "codes.jsonl", "codes.parquet"])
def test_there_and_back(command, job, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert command("index", job, "--out", name).code == 0
    assert command("index", name).code == 0
    assert pairs(sb.load("index.safetensors")) == pairs(open_codes(job / "codes").index())


def test_standard_input_and_the_last_code_of_an_id(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [{"id": 1, "code": "00", "epoch": 0}, {"id": 2, "code": "01", "epoch": 0}]
    lines += [{"id": 1, "code": "ff", "epoch": 1}]
    text = "\n".join(map(json.dumps, lines)).encode()
    assert command("index", "-", stdin=text).code == 0
    assert pairs(sb.load("index.safetensors")) == [(2, 0, b"\x01"), (1, 1, b"\xff")]


def test_a_users_mistakes(fails, misused, job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "nowhere does not exist" in fails("index", "nowhere")
    assert "holds a Learner, not an index" in fails("index", job / "model.safetensors")
    assert "rows are encoded first" in fails("index", job.parent / "rows.npy")
    assert "line 1 of standard input holds no code" in fails("index", "-", stdin=b"1,2\n")
    (tmp_path / "empty").mkdir()
    assert "empty has no Parquet files" in fails("index", "empty")
    (tmp_path / "learned").mkdir()
    (tmp_path / "learned" / "job.json").write_text("{}")
    assert "without codes: it has made none" in fails("index", "learned")
    (tmp_path / "learned" / "job.json").write_text('{"sink": "x.jsonl"}')
    assert "they went to x.jsonl" in fails("index", "learned")
    (tmp_path / "bad.faiss").write_bytes(b"nonsense")
    assert "cannot be read by FAISS" in fails("index", "bad.faiss")
    assert ".jsonl, .ndjson, .npy, .faiss" in misused("index", job, "--out", "x.bin")
    assert "cannot be written" in fails("index", job, "--out", "nowhere/x.index")
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "learned", "bad.faiss"}
