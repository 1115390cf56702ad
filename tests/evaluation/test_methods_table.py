import json

import numpy as np
import pytest

from streambits.evaluation import methods, truth
from streambits.methods import METHODS

RNG = np.random.default_rng(2)
ROWS = (RNG.random((900, 16)) / np.arange(1, 17)).astype(np.float32)
BOARD = methods.Board("small", ROWS[:100], ROWS[100:], truth.find(ROWS[100:], np.arange(50), 0.3))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_cell_with_figures_or_a_reason(method):
    cell = methods.measure(BOARD, method, 12)
    text = methods.line(cell)
    if cell.reason:
        assert "n/a: " in text
    else:
        assert 0 < cell.map <= 1
        assert 0 <= cell.recall <= 1
        assert cell.asymmetric > 0
        assert (cell.own is None) == (METHODS[method].distance == "hamming")
        assert cell.nbytes > 0


def test_more_bits_than_columns_say_why():
    cell = methods.measure(BOARD, "itq", 32)
    assert cell.map is None
    assert cell.reason == "at most 16 bits: one per column"


@pytest.mark.parametrize("method", methods.FAISS)
def test_faiss_stands_in_the_same_table(method):
    pytest.importorskip("faiss")
    cell = methods.measure_faiss(BOARD, method, 16)
    assert cell.reason or 0 < cell.map <= 1


def test_the_command_prints_lines_or_json(capsys, monkeypatch):
    monkeypatch.setattr(methods, "board", lambda *_, **__: BOARD)
    chosen = ["--data", "uniform", "--bits", "8", "--methods", "lsh", "exact_d"]
    assert methods.main(chosen) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert "MAP" in header
    assert [line.split()[2] for line in lines] == ["lsh", "exact_d"]
    assert methods.main([*chosen, "--json"]) == 0
    assert [json.loads(x)["method"] for x in capsys.readouterr().out.splitlines()] == [
        "lsh",
        "exact_d",
    ]


def test_data_that_are_not_here_are_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("STREAMBITS_DATA", str(tmp_path))
    assert methods.main(["--data", "sift", "--methods", "lsh"]) == 1
    assert "sift" in capsys.readouterr().err
