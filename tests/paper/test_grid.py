import itertools

import pytest

from paper import grid
from paper.comparisons import RIVALS
from paper.grid import GRIDS, read_grid
from paper.measure import STREAMS, Cell
from paper.methods import METHODS
from paper.report.tables import SUMMARY_BITS, line
from streambits.errors import InputError, StorageError

GOOD = """
queries = 50
[[cells]]
streams = ["digits"]
methods = ["ssbc", "lsh"]
bits = [16, 8]
levels = ["sigma_30", "sigma_all"]
[[cells]]
streams = ["digits"]
methods = ["ssbc"]
bits = [8]
seeds = [1, 0]
"""


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "grid.toml"
        path.write_text(content)
        return read_grid(path)

    return read


def test_all_combinations_once_and_one_level_without_a_kernel(read):
    found = read(GOOD)
    assert found.queries == 50
    assert found.absent == []
    assert len(found.cells) == len(set(found.cells)) == 7
    assert Cell("digits", "lsh", 16) in found.cells
    assert Cell("digits", "lsh", 16, level="sigma_all") not in found.cells
    assert [cell.seed for cell in found.cells] == [0] * 6 + [1]


def test_absent_data_are_named_and_left_out(read, monkeypatch, tmp_path):
    monkeypatch.setenv("STREAMBITS_DATA", str(tmp_path))
    found = read(GOOD.replace('["digits"]', '["digits", "pamap2 small", "cbm"]'))
    assert found.absent == ["cbm", "pamap2 small"]
    assert {cell.stream for cell in found.cells} == {"digits"}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"lsh"', '"lsj"', "methods has 'lsj'; choose from ssbc, "),
        ('streams = ["digits"]', 'streams = ["cifar"]', "streams has 'cifar'; choose from"),
        ("[16, 8]", "16", r"bits is 16; write a list, such as \[16\]"),
        ("[16, 8]", '["16"]', "bits is '16'; it must be a whole number of at least 1"),
        ("bits = [16, 8]", "", "has no bits"),
        ("queries = 50", "question = 5", "nothing is called 'question'; choose from cells"),
        (GOOD, "", "has no cells"),
        (GOOD, GOOD + '[theory]\ndata = ["cifar"]', "data has 'cifar'"),
    ],
)
def test_a_bad_grid_is_told_in_one_sentence(read, old, new, complaint):
    with pytest.raises(InputError, match=complaint):
        read(GOOD.replace(old, new))


def test_what_is_no_grid(read, tmp_path):
    for content in ("cells = [", f"a = {'[' * 100_000}", f"queries = {'9' * 10_000}"):
        with pytest.raises(StorageError, match="is not TOML"):
            read(content)
    for content in ("cells = 5", "cells = [5]", "theory = 5"):
        with pytest.raises(InputError, match="as tables"):
            read(content)
    with pytest.raises(StorageError, match="does not exist"):
        read_grid(tmp_path / "none.toml")
    with pytest.raises(StorageError, match="cannot be read"):
        read_grid(tmp_path)


@pytest.mark.parametrize("name", ["full", "quick"])
def test_the_grids_of_the_package(name, monkeypatch):
    monkeypatch.setattr(grid.datasets, "available", lambda _: True)
    found = read_grid(GRIDS / f"{name}.toml")
    assert found.cells
    assert found.theory
    streams = {cell.stream for cell in found.cells}
    assert {"uniform", "cbm", "cbm small"} <= streams
    if name == "full":
        assert {"pamap2", "pamap2 small", "dsads", "covtype", "sift", "mnist"} <= streams
        assert found.theory_rows <= 4000
        for method in ("ssbc", "ssbc-paper", "mdsh", "lsh", "sh"):
            mine = {c.bits for c in found.cells if (c.stream, c.method) == ("covtype", method)}
            assert mine >= set(range(20, 51, 5))


@pytest.mark.parametrize("name", ["full", "quick", "methods"])
def test_each_cell_has_a_line_of_its_own_and_the_summary_has_the_rivals(name, monkeypatch):
    monkeypatch.setattr(grid.datasets, "available", lambda _: True)
    cells = read_grid(GRIDS / f"{name}.toml").cells
    assert len({line(cell, {"reason": "none"}) for cell in cells}) == len(cells)
    for stream, bits in itertools.product(STREAMS, SUMMARY_BITS):
        methods = {c.method for c in cells if (c.stream, c.bits) == (stream, bits)}
        assert "itq" not in methods or methods >= set(RIVALS)


def test_the_grid_of_methods_has_every_method(monkeypatch):
    monkeypatch.setattr(grid.datasets, "available", lambda _: True)
    found = {cell.method for cell in read_grid(GRIDS / "methods.toml").cells}
    assert found == {
        *METHODS.keys() - {"linear", "supervised_ibp"},  # no neighbours by distance
        *(f"faiss-{name}" for name in ("lsh", "itq", "rabitq", "pq", "opq")),
    }
