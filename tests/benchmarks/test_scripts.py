"""The scripts beside the one table still run, on tiny sizes and without data sets."""

import os

import pytest

from benchmarks import (
    asymmetric,
    epochs,
    first_example,
    gpu,
    jobs,
    multi_index,
    search,
    sketches,
    timer,
    trees,
)

LONG = pytest.mark.skipif(
    not os.environ.get("STREAMBITS_SLOW"), reason="compiles much: STREAMBITS_SLOW=1"
)


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(timer, "SETTLE", 0)
    monkeypatch.setattr(timer, "LEAST", 0)
    for module in (asymmetric, epochs, multi_index):
        monkeypatch.setattr(module, "ROUNDS", 1)


@LONG
def test_asymmetric(capsys):
    asymmetric.compare("random", 64, *asymmetric.random_codes(64, 2000))
    printed = capsys.readouterr().out
    assert "True" in printed
    assert "False" not in printed


@LONG
def test_multi_index(capsys):
    multi_index.case("random", 64, None, 2000)
    printed = capsys.readouterr().out
    assert printed.count("True") == 3
    assert "False" not in printed


def test_epochs(capsys, monkeypatch):
    monkeypatch.setattr(epochs, "CODES", 4000)
    epochs.of_index()
    epochs.of_coders(4, 100)
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_sketches(capsys, monkeypatch):
    monkeypatch.setattr(sketches, "SIZES", (4,))
    sketches.main()
    assert len(capsys.readouterr().out.splitlines()) == 3 + len(sketches.FACTORS)


def test_search(capsys, monkeypatch):
    for name, value in {"MANY": 5000, "REMOVED": 1000, "SINGLE": 10}.items():
        monkeypatch.setattr(search, name, value)
    search.removal()
    search.opening([100])
    assert "100 codes: saved in" in capsys.readouterr().out


def test_jobs_with_many_epochs(capsys, tmp_path):
    jobs.of_epochs(tmp_path, 50, 4, 40)
    printed = capsys.readouterr().out
    assert "commit" in printed
    assert "second search of 5 queries, 50 epochs" in printed


def test_trees(tmp_path):
    tasks = trees.tasks(tmp_path)
    for work in tasks.values():
        work()
    assert "encode one row, 100 times" in tasks


def test_without_torch_there_are_no_lines_of_a_device(monkeypatch):
    monkeypatch.setattr(gpu, "find_spec", lambda _: None)
    assert list(gpu.lines(small=True)) == []


def test_the_first_page_says_what_to_type():
    command, code = first_example.first_page((first_example.ROOT / "README.md").read_text())
    assert command == ["pip", "install", "."]
    assert "StreamIndex" in code
    with pytest.raises(ValueError, match="no code to paste"):
        first_example.first_page("# A\n")
