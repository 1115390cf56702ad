"""The whole of `python -m benchmarks`, on tiny sizes."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from benchmarks.__main__ import PARTS, circumstances, joined, main, tables
from benchmarks.shares import Own
from streambits.features.affinity import GaussianAffinity

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Raw results of all parts."""
    path = tmp_path_factory.mktemp("bench") / "results.json"
    with warnings.catch_warnings(), threadpool_limits(1):  # beside other tests, more are slower
        warnings.simplefilter("ignore")  # of scikit-learn, about so few rows
        main(["--small", "--json", str(path)])
    return path


def test_every_line_of_the_issue_is_measured(results):
    whats = [line["what"] for line in json.loads(results.read_text())["lines"]]
    for word in ("encode 8", "learn 8", "refined 8 bytes", "encode one row", "row by row"):
        assert any(word in what for what in whats)
    for word in (
        "first coder",
        "refresh",
        "encode_online",
        "64 queries",
        "one query",
        "refined codes",
    ):
        assert any(word in what for what in whats)


def test_every_time_is_positive(results):
    found = json.loads(results.read_text())
    assert all(min(line["ours"] + line["theirs"]) > 0 for line in found["lines"])
    assert all(min(found["growth"][setting]["learn"]) > 0 for setting in ("rows", "bits"))


def test_shares_add_up_and_name_files(results):
    for its in json.loads(results.read_text())["shares"].values():
        assert sum(its.values()) == pytest.approx(1)
        assert all(".py:" in name for name in its)


def test_the_page_is_written_from_results(results, tmp_path, capsys):
    page = tmp_path / "performance.md"
    page.write_text(PAGE.read_text())
    main(["--from", str(results), "--page", str(page), "--markdown"])
    text, printed = page.read_text(), capsys.readouterr().out
    assert "Measured in one run of" in text
    for _, table in tables(json.loads(results.read_text())).values():
        row = "| " + " | ".join(table[-1]) + " |"
        assert row in text
        assert row in printed
    assert (tmp_path / "performance.png").exists()


def test_runs_of_parts_are_joined_and_said_to_be(results):
    whole = json.loads(results.read_text())
    some = {**whole, "growth": None, "shares": None, "lines": whole["lines"][:2]}
    rest = {**whole, "lines": whole["lines"][2:]}
    found = joined([some, rest])
    assert (found["lines"], found["growth"]) == (whole["lines"], whole["growth"])
    assert found["machine"] == whole["machine"]
    assert "Measured in 2 runs, one for each part," in circumstances(found)


def test_parts_that_were_not_asked_for_are_left_out(tmp_path):
    path = tmp_path / "results.json"
    main(["--small", "--only", "search", "--json", str(path)])
    found = json.loads(path.read_text())
    assert len(found["lines"]) == 2
    assert found["growth"] is found["shares"] is None
    assert set(PARTS) > {"search"}


def test_own_time_is_that_of_the_innermost_function_of_the_package():
    rows = np.random.default_rng(0).random((20_000, 64), dtype=np.float32)
    features = GaussianAffinity(rows[:200])
    features(rows)  # its kernels are loaded at the first call
    own = Own().of(lambda: features(rows))
    assert sum(own.values()) == pytest.approx(1)
    files = ("features/affinity.py:", "kernels/affinity.py:")
    assert sum(share for name, share in own.items() if name.startswith(files)) > 0.95
    assert next(iter(own)) == "features/affinity.py:GaussianAffinity._products"  # the innermost
