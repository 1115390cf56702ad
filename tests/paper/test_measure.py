import numpy as np
import pytest

from paper import measure as module
from paper.contestants import CONTESTANTS
from paper.measure import Board, Cell, measure
from paper.methods import METHODS
from paper.report.tables import line
from paper.truth import find

RNG = np.random.default_rng(2)
ROWS = (RNG.random((900, 16)) / np.arange(1, 17)).astype(np.float32)


@pytest.fixture(scope="module")
def found():
    return {m: measure(Cell("digits", m, 8), queries=20) for m in ("ssbc", "ssbc-paper")}


def test_one_bandwidth_serves_all_kernels_and_is_the_threshold_squared(found):
    """'the average distance of all train datapoints to their 30-th nearest neighbour'."""
    for figures in found.values():
        sigma = figures["thresholds"]["sigma_30"]
        assert figures["bandwidth"] == pytest.approx(sigma**2, rel=1e-6)


@pytest.mark.parametrize("level", ["sigma_30 / 4", "sigma_all"])
def test_levels_are_those_of_the_landmarks_for_exact_methods_too(level):
    wide = measure(Cell("digits", "exact_r", 8, level=level), queries=20)
    assert wide["bandwidth"] == pytest.approx(wide["thresholds"][level] ** 2, rel=1e-6)
    assert wide["m"] == 1700  # all columns of W


@pytest.fixture
def small(monkeypatch):
    """A board of few rows in place of every stream."""
    found = find(ROWS[100:], np.arange(50), [0.3, 0.1, 0.9])
    monkeypatch.setattr(module, "board", lambda *_: Board(ROWS[:100], ROWS[100:], found))


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"linear", "supervised_ibp"}))
@pytest.mark.usefixtures("small")
def test_every_method_has_figures_or_a_reason(method):
    bits = 16 if method == "product" else 12
    figures = measure(Cell("uniform", method, bits), queries=50)
    text = line(Cell("uniform", method, bits), figures)
    if "reason" in figures:
        assert "n/a: " in text
    else:
        assert 0 < figures["map"]["sigma_30"] <= 1
        assert 0 <= figures["recall"]["100"] <= 1
        assert figures["asymmetric"]["sigma_30"] > 0
        assert ("own" in figures) == (METHODS[method].distance != "hamming")
        assert figures["bytes"]["coder"] > 0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("method", [name for name in CONTESTANTS if name.startswith("faiss-")])
def test_faiss_stands_in_the_same_table(method):
    pytest.importorskip("faiss")
    figures = measure(Cell("uniform", method, 16), queries=50)
    assert "reason" in figures or 0 < figures["map"]["sigma_30"] <= 1
