import pytest

from streambits.evaluation.cells import Cell, measure


@pytest.fixture(scope="module")
def found():
    return {m: measure(Cell("digits", m, 8), queries=20) for m in ("ssbc", "ssbc-paper", "exact_d")}


def test_one_bandwidth_serves_all_kernels_and_is_the_threshold_squared(found):
    """'the average distance of all train datapoints to their 30-th nearest neighbour'."""
    for figures in found.values():
        sigma = figures["thresholds"]["sigma_30"]
        assert figures["bandwidth"] == pytest.approx(sigma**2, rel=1e-6)


def test_exact_methods_have_all_columns_of_w(found):
    assert found["exact_d"]["m"] == 1700
    assert found["ssbc"]["m"] == 200


@pytest.mark.parametrize("level", ["sigma_30 / 4", "sigma_all"])
def test_levels_are_those_of_the_landmarks_for_exact_methods_too(level):
    wide = measure(Cell("digits", "exact_r", 8, level=level), queries=20)
    assert wide["bandwidth"] == pytest.approx(wide["thresholds"][level] ** 2, rel=1e-6)


def test_what_cannot_be_says_why():
    figures = measure(Cell("digits", "itq", 100), queries=20)
    assert "at most 64" in figures["reason"]
    assert "map" not in figures


def test_real_distances_have_no_radii():
    pytest.importorskip("faiss")
    figures = measure(Cell("digits", "faiss-rabitq", 64), queries=20)
    assert "matched" not in figures
    assert figures["own"]["sigma_30"] == figures["map"]["sigma_30"] > 0.8
