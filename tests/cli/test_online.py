"""`streambits online` and `learn` as a user calls them; kills are in tests/jobs."""

import json

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes.parquet import read_codes

SETTINGS = ("--bits", 8, "--set", "n_landmarks=40")


@pytest.fixture
def rows_file(tmp_path, mixture):
    """rows.csv with a header, a column of ids and 1000 rows; line 8 is bad."""
    lines = ["key," + ",".join("abcdefgh")]
    lines += [f"{i + 100}," + ",".join(map(str, row)) for i, row in enumerate(mixture(1000))]
    lines[7] = "106,1,2,x,4,5,6,7,8"
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "rows.csv"


def test_a_job(command, rows_file, tmp_path):
    arguments = ["online", rows_file, *SETTINGS, "--ids", "key", "--out", tmp_path / "job"]
    done = command(*arguments, "--skip-bad", "--json")
    assert done.code == 0, done.err
    counts = {"rows": 999, "new_rows": 999, "bytes": 999 * 8 * 8, "rejects": 1, "stopped": False}
    facts = {"streambits": sb.__version__, "verb": "online", "out": str(tmp_path / "job")}
    zeros = ("removed", "waiting", "out_of_reach", "epoch")
    measured = dict.fromkeys(("seconds", "rows_per_second", "certificate"), 0)
    assert done.json | measured == facts | counts | dict.fromkeys(zeros, 0) | measured
    assert "1 bad rows are in" not in done.err
    assert "1 bad row is in" in done.err
    [reject] = map(json.loads, (tmp_path / "job" / "rejects.jsonl").read_text().splitlines())
    assert reject["where"] == f"{rows_file}:8"
    assert reject["reason"] == "column 'c' is 'x', which is not a number"
    [(ids, codes)] = read_codes(tmp_path / "job" / "codes")
    assert (len(ids), ids.min(), ids.max(), codes.bits) == (999, 100, 1099, 8)
    assert sb.load(tmp_path / "job" / "model.safetensors").seen == 999
    assert list(sb.load(tmp_path / "job" / "coders.safetensors")) == [0]


def test_learn_makes_a_model_and_nothing_else(command, mixture, tmp_path, fingerprint):
    np.save(tmp_path / "rows.npy", mixture(3000))
    arguments = ("learn", tmp_path / "rows.npy", *SETTINGS, "--set", "seed=3")
    done = command(*arguments, "--out", tmp_path / "job", "--json")
    assert (done.json["verb"], done.json["rows"], done.json["epoch"]) == ("learn", 3000, 0)
    learner = sb.Settings(8, n_landmarks=40, seed=3).learner([mixture(3000)[:400]])
    found = sb.load(tmp_path / "job" / "model.safetensors")
    assert fingerprint(found) == fingerprint(learner.learn(mixture(3000)))
    names = {file.name for file in (tmp_path / "job").iterdir()}
    assert names == {"job.json", "checkpoint.safetensors", "model.safetensors"}


def test_what_cannot_be_done_is_one_line(fails, rows_file, tmp_path):
    out = ["--out", tmp_path / "job"]
    assert "does not exist" in fails("online", tmp_path / "no.csv", *SETTINGS, *out)
    assert "no setting 'epsilon'" in fails(
        *("online", rows_file, *SETTINGS, "--skip-bad", "--ids", "key"),
        *("--set", "method=linear", "--set", "epsilon=1", "--out", tmp_path / "itq"),
    )
    long = ("--bits", 64, *SETTINGS[2:], "--ids", "key", "--skip-bad", "--out", tmp_path / "long")
    assert "at most 40" in fails("online", rows_file, *long)
    assert "cannot be used: Not a directory" in fails(
        "online", rows_file, *SETTINGS, "--out", rows_file / "job"
    )


def test_epochs_that_were_retired_are_left_out_of_searches_and_this_is_said(
    command, mixture, tmp_path
):
    np.save(tmp_path / "rows.npy", mixture(2600))
    learning = "--bits 8 --set n_landmarks=20 --set epochs=600 --set keep_epochs=2"
    done = command("online", tmp_path / "rows.npy", *learning.split(), "--out", tmp_path / "job")
    assert done.code == 0, done.err
    np.save(tmp_path / "queries.npy", mixture(2600)[:2])
    done = command("search", tmp_path / "job", "--query", tmp_path / "queries.npy", "-k", 3000)
    assert "codes of epochs before 3, whose coders were retired (keep_epochs)" in done.err
    assert min(done.lines[0]["ids"]) >= 1500
    found = done.lines[0]["ids"]
    assert sorted(found) == list(range(min(found), 2600))
