"""`streambits evaluate` as a user calls it: a model or a job, and rows."""

import numpy as np
import pytest

import streambits as sb

ROWS = np.random.default_rng(0).random((1500, 6), dtype=np.float32)
FEW = ("--lengths", "8,16", "--bytes", "")


@pytest.fixture
def rows(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    return tmp_path / "rows.npy"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    sb.save(sb.ssbc(ROWS[:100], 16).learn(ROWS), path)
    return path


def test_figures_are_those_of_the_library(command, model, rows):
    done = command("evaluate", model, rows, *FEW, "--json")
    assert done.code == 0, done.err
    assert done.out.count("\n") == 1
    got = done.json
    assert (got["queries"], got["rows"], got["columns"], got["k"]) == (300, 1200, 6, 10)
    assert [one["bits"] for one in got["lengths"]] == [8, 16]
    assert list(got["model"]["recall"]) == ["10", "20", "50", "100", "200"]
    assert got["lengths"][1] == got["model"]
    assert got["lengths"][0]["recall"]["10"] < got["model"]["recall"]["10"]
    assert got["advice"].startswith("16 bits reach")
    assert len(got["bits"]["balance"]) == 16


def test_bytes_are_compared_too(command, model, rows):
    done = command("evaluate", model, rows, "--lengths", "16", "--bytes", "2,4", "--json")
    assert done.code == 0, done.err
    got = done.json
    assert got["itself"] == {
        "kind": "plain", "bytes": 2, "bits": 16, "refine": 0, "recall": got["model"]["recall"]["10"]
    }  # fmt: skip
    found = {(one["kind"], one["bytes"]): one["recall"] for one in got["sizes"]}
    assert found["product", 4] > found["product", 2]
    shown = command("evaluate", model, rows, "--lengths", "16", "--bytes", "2,4")
    for expected in ("product codes", "16 bits + 2 bytes", "Without the rows, 16 bits find"):
        assert expected in " ".join(shown.out.split())
    assert "learning codes of 8 bits + 1 byte" in shown.err


def test_people_get_a_table_advice_and_a_page(command, model, rows, tmp_path):
    page = tmp_path / "page.html"
    done = command("evaluate", model, rows, *FEW, "--html", page)
    assert done.code == 0, done.err
    assert "first 10" in done.out
    assert "re-rank" in done.out
    assert "16 bits reach" in done.out
    assert "learning codes of 8 bits" in done.err
    assert page.read_text().startswith("<!doctype html>")
    assert done.err.splitlines()[-1] == f"page: {page}"


@pytest.mark.parametrize("verb", ["learn", "online"])
def test_the_folder_of_a_job(command, rows, tmp_path, verb):
    job = command(
        verb, rows, "--bits", 16, "--n-landmarks", 50, "--out", tmp_path / "job", "--quiet"
    )
    assert job.code == 0, job.err
    done = command("evaluate", tmp_path / "job", rows, *FEW, "--json")
    assert done.code == 0, done.err
    assert all("recall" in one for one in done.json["lengths"])


def test_queries_and_columns_of_ones_own(command, tmp_path):
    head = "id,a,b,c\n"
    lines = [f"{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(ROWS[:500, :3])]
    (tmp_path / "rows.csv").write_text(head + "".join(lines[50:]))
    (tmp_path / "queries.csv").write_text(head + "".join(lines[:50]))
    sb.save(sb.ssbc(ROWS[:100, :2], 8).learn(ROWS[:, :2]), tmp_path / "m.safetensors")
    done = command(
        "evaluate", tmp_path / "m.safetensors", tmp_path / "rows.csv",
        "--queries", tmp_path / "queries.csv", "--columns", "a,b", "--ids", "id",
        "--lengths", "", "--bytes", "", "--k", 5, "--sample", 400, "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    got = done.json
    assert (got["queries"], got["rows"], got["columns"], got["k"]) == (50, 400, 2, 5)
    assert got["lengths"] == []


def test_mistakes_are_one_line(fails, model, rows, tmp_path):
    np.save(tmp_path / "wide.npy", ROWS[:, :4])
    np.save(tmp_path / "few.npy", ROWS[:8])
    sb.save(sb.HammingIndex(8), tmp_path / "x.index")
    assert "have 4 numbers" in fails("evaluate", model, tmp_path / "wide.npy")
    assert "8 rows" in fails("evaluate", model, tmp_path / "few.npy")
    assert "does not exist" in fails("evaluate", model, tmp_path / "none.npy")
    assert "none.safetensors" in fails("evaluate", tmp_path / "none.safetensors", rows)
    assert "an index" in fails("evaluate", tmp_path / "x.index", rows)
    missing = tmp_path / "none" / "page.html"
    told = fails("evaluate", model, rows, "--html", missing)
    assert "cannot be written" in told


@pytest.mark.parametrize("option", ["--lengths", "--bytes"])
@pytest.mark.parametrize("text", ["8,many", "8;16"])
def test_lengths_that_are_no_numbers_are_wrong_use(command, model, *, rows, option, text):
    assert command("evaluate", model, rows, option, text).code == 2


def test_a_runbook_is_generated_and_played(command, rows, tmp_path):
    book, queries = tmp_path / "book.yaml", tmp_path / "queries.npy"
    np.save(queries, np.random.default_rng(1).random((20, 6), dtype=np.float32))
    made = command("evaluate", "--generate", "sliding_window", "--rows", rows, "--runbook", book)
    assert made.code == 0, made.err
    assert (np.load(tmp_path / "book.npy") == ROWS).all()
    play = (
        "evaluate", "--runbook", book, "--rows", tmp_path / "book.npy", "--queries", queries,
        "--bits", 6, "--refine", 4, "--method", "linear", "--k", 5,
    )  # fmt: skip
    done = command(*play, "--json")
    assert done.code == 0, done.err
    assert (done.json["k"], len(done.json["searches"])) == (5, 100)
    assert done.json["searches"][0]["live"] == 750
    assert done.json["mean"] == 1  # so few rows wait as they are
    shown = command(*play)
    assert "mean recall of the 5 nearest" in shown.out


def test_a_clustered_runbook_has_its_rows_in_order(command, rows, tmp_path):
    book = tmp_path / "book.yaml"
    made = command("evaluate", "--generate", "clustered", "--rows", rows, "--runbook", book)
    assert made.code == 0, made.err
    ordered = np.load(tmp_path / "book.npy")
    assert not (ordered == ROWS).all()
    assert sorted(map(tuple, ordered)) == sorted(map(tuple, ROWS))
    assert book.read_text().startswith("book:\n  max_pts: ")


def test_mistakes_with_runbooks(command, fails, model, rows, tmp_path):
    book = tmp_path / "book.yaml"
    book.write_text("a:\n  1:\n    operation: jump\n")
    asked = ("--rows", rows, "--queries", rows)
    assert "step 1 has the operation 'jump'" in fails("evaluate", "--runbook", book, *asked)
    made = ("--rows", rows, "--runbook", book, "--generate")
    assert "kind is 'other'" in fails("evaluate", *made, "other")
    np.save(tmp_path / "bad.npy", np.full((3, 6), np.nan, np.float32))
    bad = ("--rows", tmp_path / "bad.npy", "--queries", rows)
    assert "a runbook needs every row" in fails("evaluate", "--runbook", book, *bad)
    for wrong in ([], ["--runbook", book], [model], ["--runbook", book, "--rows", rows]):
        assert command("evaluate", *wrong).code == 2
    assert command("evaluate", model, rows, "--runbook", book, *asked).code == 2
