"""`streambits reencode`: all codes in one epoch, in a new place."""

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes import open_codes
from streambits.jobs import reencode as library


@pytest.fixture
def source(job):
    return job.parent / "rows.npy"


def test_a_new_folder_that_can_be_searched(command, job, source, tmp_path, rows):
    done = command("reencode", job, source, "--out", tmp_path / "new", "--json")
    assert done.json["epochs_before"] == [0, 1]
    assert (done.json["codes"], done.json["epoch"]) == (5000, 1)
    codes = sb.load(job / "model.safetensors").coder().encode(rows)
    assert open_codes(tmp_path / "new" / "codes").index().get(range(5000)) == codes
    found = command(
        "search", tmp_path / "new", "--query", job.parent / "queries.npy", "--set", "real=true"
    )
    assert [line["ids"][0] for line in found.lines] == [0, 1, 2]
    assert open_codes(job / "codes").index().epochs == (0, 1)  # what was there stays


def test_a_new_epoch(command, job, source, tmp_path, rows):
    done = command("reencode", job, source, "--out", tmp_path / "new", "--renew")
    assert "all of epoch 2" in done.out
    learner = sb.load(tmp_path / "new" / "model.safetensors")
    assert learner.epoch == 2
    codes = open_codes(tmp_path / "new" / "codes").index().get(range(5000))
    assert codes == learner.coder().encode(rows)


def test_an_index_file_and_the_model_elsewhere(command, job, source, tmp_path):
    out, model = tmp_path / "new.index", tmp_path / "new.safetensors"
    done = command("reencode", job, source, "--out", out, "--renew", "--model-out", model)
    assert done.code == 0, done.err
    assert sb.load(out).epochs == (sb.load(model).epoch,) == (2,)


def test_nothing_is_left_when_it_fails(fails, job, source, tmp_path, monkeypatch):
    out, rows = tmp_path / "new", np.load(source)
    np.save(tmp_path / "few.npy", rows[:10])
    assert "lacks" in fails("reencode", job, tmp_path / "few.npy", "--out", out)
    np.save(tmp_path / "many.npy", np.concatenate([rows, rows[:1]]))
    assert "not in the index" in fails("reencode", job, tmp_path / "many.npy", "--out", out)
    monkeypatch.setattr(library, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    assert "cannot be written: full" in fails("reencode", job, source, "--out", out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few.npy", "many.npy"]


def test_a_users_mistakes(fails, misused, job, tmp_path, train):
    source, out = job.parent / "rows.npy", ("--out", tmp_path / "new")
    assert "exists" in fails("reencode", job, source, "--out", tmp_path)
    told = fails("reencode", job, source, *out, "--renew", "--model", job / "coders.safetensors")
    assert "only a learner is renewed" in told
    sb.save(sb.ssbc(train, 12), tmp_path / "short.safetensors")
    told = fails("reencode", job, source, *out, "--model", tmp_path / "short.safetensors")
    assert "makes codes of 12 bits, and those there have 16" in told
    sb.save(sb.ssbc(train[:, :5], 16), tmp_path / "narrow.safetensors")
    told = fails("reencode", job, source, *out, "--model", tmp_path / "narrow.safetensors")
    assert "was learned from rows of 5" in told
    assert "--model-out" in misused("reencode", job, source, "--out", "x.index", "--renew")
    assert "Missing option '--out'" in misused("reencode", job, source)
