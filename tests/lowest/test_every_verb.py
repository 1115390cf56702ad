"""Every verb over every kind of file, with nothing but the core dependencies and pytest.

`make test-lowest` runs this with the lowest versions that pyproject.toml allows and no extras.
"""

import json
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import streambits as sb
from streambits.cli.app import main

ROOT = Path(__file__).parents[2]
ROWS = np.random.default_rng(0).normal(size=(1200, 6)).astype(np.float32)
NAMES = [f"x{column}" for column in range(6)]
TABLE = pa.table({"id": np.arange(1200), **dict(zip(NAMES, ROWS.T))})
VERBS = ["demo", "evaluate", "learn", "online", "encode", "index", "search", "inspect"]
VERBS += ["merge", "reencode", "serve", "tune"]


def csv(path):
    lines = [",".join(["id", *NAMES])]
    lines += [f"{i}," + ",".join(map(repr, row)) for i, row in enumerate(ROWS.tolist())]
    path.write_text("\n".join(lines) + "\n")


def json_lines(path):
    lines = [json.dumps({"id": i, "vector": row}) for i, row in enumerate(ROWS.tolist())]
    path.write_text("\n".join(lines) + "\n")


def lists(path):
    column = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 6)
    parquet.write_table(pa.table({"id": np.arange(1200), "vector": column}), path)


FILES = {
    "rows.csv": csv,
    "rows.jsonl": json_lines,
    "rows.parquet": lambda path: parquet.write_table(TABLE, path),
    "lists.parquet": lists,
    "rows.arrow": lambda path: feather.write_feather(TABLE, path, compression="uncompressed"),
    "rows.npy": lambda path: np.save(path, ROWS),
}


@pytest.fixture
def run(monkeypatch, capsys):
    """run(*arguments): what the command prints; it must end well."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["streambits", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run


def test_the_lowest_versions_are_those_that_are_declared():
    """constraints-lowest.txt pins exactly the lower bounds of pyproject.toml."""
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints-lowest.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = dict(re.fullmatch(r"([\w-]+)>=([\w.]+)", need).groups() for need in declared)
    assert {name: pinned.get(name, "")[: len(bound)] for name, bound in bounds.items()} == bounds
    if version("numpy") == pinned["numpy"]:  # this is the run with the lowest versions
        assert {name: version(name) for name in bounds} == {name: pinned[name] for name in bounds}


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help(run, verb):
    assert "--help" in run(*filter(None, [verb]), "--help")


def test_version(run):
    assert sb.__version__ in run("--version")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_verb(run, tmp_path, name):
    rows, learned, job = tmp_path / name, tmp_path / "learned", tmp_path / "job"
    FILES[name](rows)
    ids = [] if name == "rows.npy" else ["--ids", "id"]
    made = ["--bits", 8, "--set", "n_landmarks=40", "--set", "quiet=true", *ids]
    run("learn", rows, *made, "--out", learned)
    run("online", rows, *made, "--set", "refresh=400", "--out", job)
    assert sb.load(job / "model.safetensors").seen == 1200

    codes = run("encode", learned, rows, *ids, "--set", "quiet=true").splitlines()
    assert [json.loads(line)["id"] for line in codes] == list(range(1200))
    expected = sb.load(learned / "model.safetensors").coder().encode(ROWS)
    assert [json.loads(line)["code"] for line in codes] == [
        code.tobytes().hex() for code in expected.packed
    ]

    index = tmp_path / "codes.index"
    run("index", job, "--out", index)
    for where in (job, index):
        found = run("search", where, "--model", job, "--query", rows, *ids, "-k", 3).splitlines()
        assert len(found) == 1200
        assert len(json.loads(found[0])["ids"]) == 3
    run("reencode", job, rows, *ids, "--renew", "--out", tmp_path / "new")
    for what in (job, index, learned / "model.safetensors", tmp_path / "new"):
        assert run("inspect", what)


@pytest.mark.slow
def test_models_merge_and_settings_are_chosen(run, tmp_path):
    first = sb.ssbc(ROWS[:40], 8).learn(ROWS[:600])
    sb.save(first, tmp_path / "1.safetensors")
    sb.save(first.fresh().learn(ROWS[600:]), tmp_path / "2.safetensors")
    run("merge", tmp_path / "1.safetensors", tmp_path / "2.safetensors", "--out", tmp_path / "all")
    assert sb.load(tmp_path / "all").seen == 1200
    np.save(tmp_path / "rows.npy", ROWS)
    assert run("tune", tmp_path / "rows.npy", "--bits", 8)


def test_codes_of_no_rows(run, tmp_path):
    (tmp_path / "none.csv").write_text(",".join(NAMES) + "\n")
    sb.save(sb.ssbc(ROWS[:40], 8).learn(ROWS), tmp_path / "model.safetensors")
    run(
        "encode",
        tmp_path / "model.safetensors",
        tmp_path / "none.csv",
        "--out",
        tmp_path / "job",
        "--set",
        "quiet=true",
    )
    assert run("inspect", tmp_path / "job")
