"""`streambits inspect`: everything that streambits writes."""

from pathlib import Path

import numpy as np
import pytest

import streambits as sb
from streambits._locks import Lock
from streambits.io.codes import open_codes


def test_a_learner(command, job):
    learner = sb.load(job / "model.safetensors")
    got = command("inspect", job / "model.safetensors", "--json").json
    assert (got["kind"], got["rows"], got["bits"], got["epoch"]) == ("learner", 5000, 16, 1)
    assert (got["columns"], got["epochs"], got["rotation"]) == (8, 3000, "itq")
    assert (got["certificate"], got["bytes"]) == (learner.certificate, learner.nbytes)
    energies = np.array(got["spectrum"])
    assert len(energies) == 60
    assert (np.diff(energies) <= 0).all()
    expected = learner.certificate / (learner.sketch.weight * energies.sum())
    assert got["certificate_relative"] == pytest.approx(expected)
    assert [look["rows"] for look in got["drift"]][-1] == learner.drift[-1].rows


@pytest.mark.parametrize("kind", ["index", "codes"])
def test_an_index_and_codes(command, job, tmp_path, kind):
    index = open_codes(job / "codes").index()
    path = job / "codes"
    if kind == "index":
        path = tmp_path / "some.index"
        sb.save(index, path)
    got = command("inspect", path, "--json").json
    assert (got["kind"], got["codes"], got["bits"], got["epochs"]) == (kind, 5000, 16, [0, 1])
    for one in got["each"]:
        bits = np.concatenate([c.unpack() for _, c in index.items() if c.epoch == one["epoch"]])
        assert one["codes"] == len(bits)
    assert "codes by epoch" in command("inspect", path).out


def test_a_job_from_its_beginning_to_its_end(command, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", rows)
    options = "--bits 16 --out job --set n_landmarks=60 --set refresh=500"
    assert command("online", "rows.npy", *options.split()).code == 0
    got = command("inspect", "job", "--json").json
    assert (got["kind"], got["running"], got["finished"]) == ("job", False, True)
    assert (got["progress"]["rows"], got["progress"]["rejects"]) == (5000, 0)
    assert got["job"]["settings"]["bits"] == 16
    assert (got["codes"]["codes"], got["model"]["rows"]) == (5000, 5000)
    text = command("inspect", "job").out
    for expected in ("finished", "rows.npy", "5,000", "auto", "certificate"):
        assert expected in text
    lock = Lock(Path("job/lock"), "works", "wait")
    assert command("inspect", "job", "--json").json["running"]
    assert "running" in command("inspect", "job").out
    lock.release()
    np.save("rows.npy", rows[:10])  # what it read is gone, and it had read all of it
    got = command("inspect", "job", "--json").json
    assert (got["finished"], got["endless"]) == (True, False)
    Path("job/model.safetensors").unlink()  # as if killed before that was written
    assert command("inspect", "job", "--json").json["finished"] is False


def test_a_users_mistakes(fails, misused, tmp_path):
    assert "does not exist" in fails("inspect", tmp_path / "nowhere")
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    assert "not a streambits file" in fails("inspect", tmp_path / "model.safetensors")
    assert "no Parquet files" in fails("inspect", tmp_path)
    assert "Missing argument" in misused("inspect")
