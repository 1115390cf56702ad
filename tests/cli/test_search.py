"""`streambits search`: across epochs, by values, ranked again, within a radius."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes import open_codes
from streambits.jobs.folder import Checkpoint

SCRIPT = Path(sys.executable).with_name("streambits")


@pytest.fixture(scope="session")
def asked(job):
    return job.parent / "queries.npy"


def as_lines(hits):
    return [
        {"query": i, "ids": ids.tolist(), "distances": far.tolist()}
        for i, (ids, far) in enumerate(zip(hits.ids, hits.distances, strict=True))
    ]


def test_all_epochs_on_one_scale(command, job, asked, rows):
    coders, index = sb.load(job / "coders.safetensors"), open_codes(job / "codes").index()
    for options, real in (
        ([], True),
        (["--set", "real=true"], True),
        (["--set", "real=false"], False),
    ):
        done = command("search", job, "--query", asked, "-k", 4, *options)
        assert done.lines == as_lines(coders.search(index, rows[:3], 4, real=real))
        assert "searching 5,000 codes" in done.err


def test_a_radius(command, job, asked, rows):
    done = command("search", job, "--query", asked, "--radius", 1)
    coders = sb.load(job / "coders.safetensors")
    found = open_codes(job / "codes").index().within(coders.encode(rows[:3]), 1)
    assert [line["ids"] for line in done.lines] == [hits.ids.tolist() for hits in found]


def test_ranked_again_by_the_rows(command, job, asked, rows):
    done = command("search", job, "--query", asked, "-k", 3, "--rerank", job.parent / "rows.npy")
    for i, line in enumerate(done.lines):
        assert (line["ids"][0], line["distances"][0]) == (i, 0)
        true = np.linalg.norm(rows[line["ids"]].astype(float) - rows[i], axis=1)
        assert line["distances"] == pytest.approx(true.tolist())


def test_standard_input_and_bad_rows(command, job, rows):
    text = "\n".join([",".join(map(str, rows[0])), "1,2,nonsense,4,5,6,7,8", "1,2,3,4,5,6,7,8"])
    done = command("search", job, "--query", "-", "-k", 1, stdin=text.encode())
    assert [line["query"] for line in done.lines] == [0, 2]
    assert "left out: " in done.err


def test_a_job_that_is_not_finished(command, job, asked, tmp_path):
    folder = tmp_path / "job"
    shutil.copytree(job / "codes", folder / "codes")
    parts = {"coders": sb.load(job / "coders.safetensors")}
    sb.save(Checkpoint(None, None, {"rows": 5000}, parts), folder / "checkpoint.safetensors")
    done = command("search", folder, "--query", asked)
    assert done.lines == command("search", job, "--query", asked).lines
    sb.save(sb.CoderSet(), folder / "coders.safetensors")  # of an earlier run that was stopped
    again = command("search", folder, "--query", asked)
    assert again.lines == done.lines, again.err
    (folder / "coders.safetensors").unlink()
    sb.save(Checkpoint(None, None, {"rows": 0}, {}), folder / "checkpoint.safetensors")
    assert "name one with --model" in command("search", folder, "--query", asked).err


def test_ids_in_files(command, job, asked, tmp_path):
    (tmp_path / "ids.txt").write_text("5\n9\n")
    np.save(tmp_path / "ids.npy", [9, 5])
    found = [
        command("search", job, "--query", asked, "--allow", given).lines
        for given in ("5,9", tmp_path / "ids.txt", tmp_path / "ids.npy")
    ]
    assert found[0] == found[1] == found[2]
    assert {name for line in found[0] for name in line["ids"]} == {5, 9}


def test_models_that_do_not_fit(fails, job, asked, tmp_path, train):
    ask = ("search", job, "--query", asked)
    assert "knows only epoch 1" in fails(*ask, "--model", job / "model.safetensors")
    sb.save(sb.ssbc(train, 12).coder(), tmp_path / "short.safetensors")
    assert "codes of 16 bits, and the model" in fails(
        *ask, "--model", tmp_path / "short.safetensors"
    )
    sb.save(sb.ssbc(train[:, :5], 16).coder(), tmp_path / "narrow.safetensors")
    told = fails("search", job, "--query", asked, "--model", tmp_path / "narrow.safetensors")
    assert "have 8 numbers, and the model" in told
    assert "was learned from rows of 5" in told
    sb.save(sb.HammingIndex(16), tmp_path / "some.index")
    assert "holds an index" in fails(*ask, "--model", tmp_path / "some.index")


def test_a_users_mistakes(fails, misused, job, asked, tmp_path):
    ask, rows = ("search", job, "--query", asked), np.load(job.parent / "rows.npy")
    np.save(tmp_path / "narrow.npy", rows[:2, :5])
    assert "have 5 numbers" in fails("search", job, "--query", tmp_path / "narrow.npy")
    assert "name it with --model" in fails("search", job.parent / "rows.npy", "--query", asked)
    assert "does not exist" in fails("search", job, "--query", "nowhere.npy")
    np.save(tmp_path / "few.npy", rows[:4])
    assert "has no row of the id" in fails(*ask, "--rerank", tmp_path / "few.npy")
    assert "cannot be read as ids" in fails(*ask, "--allow", "nowhere.txt")
    assert "no row that can be used" in fails("search", job, "--query", "-", stdin=b"a,b\n")
    assert "--radius goes without" in misused(*ask, "--radius", 1, "--set", "real=true")
    assert "Missing option '--query'" in misused("search", job)
