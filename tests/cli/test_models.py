"""Codes of `streambits encode` are searched by the model that made them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes import open_codes

MODEL, CODERS = "model.safetensors", "coders.safetensors"


@pytest.fixture(scope="session")
def later(job, mixture):
    """The learner of the job after some more rows."""
    return sb.load(job / MODEL).learn(mixture(500, seed=9))


@pytest.fixture(scope="session")
def queries(job, rows, later):
    """Rows that the models tell apart."""
    differ = (
        later.coder().encode(rows).unpack() != sb.load(job / CODERS).newest.encode(rows).unpack()
    )
    return rows[differ.any(axis=1)][:3]


@pytest.fixture
def here(job, queries, tmp_path, monkeypatch, command):
    """job/ and again/, encoded by its model as a user types it, below the current directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(job, "job")
    shutil.copy(job.parent / "rows.npy", "rows.npy")
    np.save("queries.npy", queries)
    assert command("encode", "job/", "rows.npy", "--out", "again/").code == 0
    return tmp_path


@pytest.fixture
def asked(command, here):
    """asked(where, *more): the answers, and the file of the model that gave them."""

    def asked(where, *more):
        done = command("search", where, "--query", here / "queries.npy", "-k", 20, *more)
        assert done.code == 0, done.err
        return done.lines, Path(done.err.split(" codes by ")[1].strip()).resolve()

    return asked


def test_distances_are_those_of_the_model(asked, here, queries):
    coder = sb.load(here / "job" / CODERS).newest
    hits = open_codes(here / "again" / "codes").index().search(coder.encode(queries), 20)
    assert hits.distances[:, 0].tolist() == [0, 0, 0]
    lines, file = asked("again", "--set", "real=false")
    assert file == here / "job" / CODERS
    assert [line["ids"] for line in lines] == hits.ids.tolist()
    assert [line["distances"] for line in lines] == hits.distances.tolist()


@pytest.mark.parametrize("where", ["again", "again/codes", "again/all.index"])
def test_so_they_are_with_the_folder_of_its_job(asked, here, command, where, later):
    command("index", "again", "--out", "again/all.index")
    lines, file = asked(where)
    assert file == here / "job" / CODERS
    assert asked(where, "--model", "job/") == (lines, file)
    assert asked(where, "--model", here / "job" / MODEL)[0] == lines
    sb.save(later, "later.safetensors")
    other, file = asked(where, "--model", "later.safetensors")  # a file is opened as it is named
    assert other != lines
    assert file == here / "later.safetensors"


def test_one_that_is_gone_or_has_changed_is_told_by_its_path(fails, here, later):
    ask = ("search", "again", "--query", "queries.npy")
    then = json.loads(Path("again/job.json").read_bytes())["settings"]["model"]
    sb.save(later, "job/coders.safetensors")
    said = fails(*ask)
    assert "codes of again were made by job/coders.safetensors, which has changed" in said
    assert f"({then} then, " in said
    assert "name a copy from then (--model)" in said
    assert said == fails("reencode", "again", "rows.npy", "--out", "new")
    Path("job").rename("elsewhere")
    assert f"made by job ({then}), which is not there: name where it is" in fails(*ask)
