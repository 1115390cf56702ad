"""`streambits evaluate` as a user calls it: a model or a job, and rows."""

import numpy as np
import pytest

import streambits as sb

ROWS = np.random.default_rng(0).random((1500, 6), dtype=np.float32)


@pytest.fixture
def source(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    return tmp_path / "rows.npy"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    sb.save(sb.ssbc(ROWS[:100], 16).learn(ROWS), path)
    return path


def test_figures_are_those_of_the_library(command, model, source):
    done = command("evaluate", model, source, "--lengths", "8,16", "--bytes", "2,4", "--json")
    assert done.code == 0, done.err
    assert done.out.count("\n") == 1
    wanted = sb.evaluate(sb.load(model), ROWS, lengths=(8, 16), bytes=(2, 4)).as_dict()
    assert done.json == {"streambits": sb.__version__, **wanted}


def test_people_get_tables_advice_and_a_plot(command, model, source, tmp_path):
    plot = tmp_path / "plot.png"
    done = command("evaluate", model, source, "--lengths", "8,16", "--bytes", "2,4", "--plot", plot)
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    for expected in ("first 10", "re-rank", "16 bits reach", "product codes", "16 bits + 2 bytes"):
        assert expected in text
    assert "learning codes of 8 bits + 1 byte" in done.err
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert done.err.splitlines()[-1] == f"plot: {plot}"


def test_the_folder_of_a_job(command, job):
    found = command(
        "evaluate", job, job.parent / "rows.npy", "--lengths", "8", "--bytes", "", "--json"
    )
    assert all("recall" in one for one in found.json["lengths"])


def test_queries_and_columns_of_ones_own(command, tmp_path):
    head = "id,a,b,c\n"
    lines = [f"{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(ROWS[:500, :3])]
    (tmp_path / "rows.csv").write_text(head + "".join(lines[50:]))
    (tmp_path / "queries.csv").write_text(head + "".join(lines[:50]))
    sb.save(sb.ssbc(ROWS[:100, :2], 8).learn(ROWS[:, :2]), tmp_path / "m.safetensors")
    done = command(
        "evaluate", tmp_path / "m.safetensors", tmp_path / "rows.csv",
        "--queries", tmp_path / "queries.csv", "--columns", "a,b", "--ids", "id",
        "--lengths", "", "--bytes", "", "--k", 5, "--sample", 400, "--json"
    )  # fmt: skip
    assert done.code == 0, done.err
    got = done.json
    assert (got["queries"], got["rows"], got["columns"], got["k"]) == (50, 400, 2, 5)
    assert got["lengths"] == []


def test_mistakes_are_one_line(fails, misused, model, source, tmp_path):
    np.save(tmp_path / "wide.npy", ROWS[:, :4])
    np.save(tmp_path / "few.npy", ROWS[:8])
    sb.save(sb.HammingIndex(8), tmp_path / "x.index")
    assert "have 4 numbers" in fails("evaluate", model, tmp_path / "wide.npy")
    assert "8 rows" in fails("evaluate", model, tmp_path / "few.npy")
    assert "does not exist" in fails("evaluate", model, tmp_path / "none.npy")
    assert "none.safetensors" in fails("evaluate", tmp_path / "none.safetensors", source)
    assert "an index" in fails("evaluate", tmp_path / "x.index", source)
    assert "cannot be written" in fails(
        "evaluate", model, source, "--plot", tmp_path / "no" / "x.png"
    )
    assert "should end in one of .png" in fails("evaluate", model, source, "--plot", "x.gif")
    assert "--lengths is '8;16': write numbers" in misused(
        "evaluate", model, source, "--lengths", "8;16"
    )
    assert "Missing argument" in misused("evaluate", model)
