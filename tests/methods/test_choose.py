"""Choosing between kernel and linear features."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from streambits.index import HammingIndex
from streambits.methods import choose, linear, ssbc
from streambits.methods.choose import choose_features
from streambits.methods.settings import Settings
from streambits.model.codes import Codes


def curved(count, seed=0, columns=40):
    """Points of a surface of 2 dimensions that bends through all columns."""
    rng = np.random.default_rng(seed)
    waves = 2 * np.random.default_rng(99).standard_normal((2, columns))
    return np.sin(rng.random((count, 2)) @ waves) + 0.01 * rng.standard_normal((count, columns))


def decaying(count, seed=0, columns=128):
    """A Gaussian of many dimensions, some stronger than others."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, columns)) * np.arange(1, columns + 1) ** -0.3


def heavy_tailed(count, seed=0, columns=128):
    """Student's t, by which linear codes lose some of the nearest rows, but decode better."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    return (rng.standard_t(3, (count, columns)) * np.arange(1, columns + 1) ** -0.5) @ turn


def test_recall_is_that_of_a_real_valued_search(monkeypatch):
    values = np.random.default_rng(0).standard_normal((300, 24)).astype(np.float32)
    near = np.random.default_rng(1).permuted(np.tile(np.arange(200, 300), (50, 1)), axis=1)[:, :3]
    index, depths = HammingIndex(24), (1, 4, 60)
    index.add(Codes.from_bits(values > 0))
    ids = index.search(values[:50], 300).ids
    others = ids[ids != np.arange(50)[:, None]].reshape(50, 299)  # a row is not its own neighbour
    shares = [(others[:, :d, None] == near[:, None, :]).any(axis=1).mean() for d in depths]
    monkeypatch.setattr(choose, "DEPTHS", depths)
    assert choose._recall(values, near) == pytest.approx(np.mean(shares), abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_refined_codes_prefer_features_that_decode_better(seed):
    rows = heavy_tailed(5000, seed)
    plain = choose_features(rows, 64, seed=seed)
    refined = choose_features(rows, 64, refine=8, seed=seed)
    assert (plain.method, refined.method) == ("ssbc", "linear")
    assert refined[1:3] == plain[1:3]
    assert refined.reason == plain.reason + ", and decode better"
    assert Settings(64, seed=seed).resolved([rows]).method == "ssbc"
    assert Settings(64, refine=8, seed=seed).resolved([rows]).method == "linear"


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("seed", [0, 1])
def test_kernels_win_on_a_curved_surface(bits, seed):
    choice = choose_features(curved(3000, seed), bits, seed=seed)
    assert choice.method == "ssbc"
    assert choice.ssbc > choice.linear + 0.02


@pytest.mark.parametrize("columns", [128, 600])  # exact directions, and by iteration
@pytest.mark.parametrize("seed", [0, 1])
def test_linear_features_win_on_a_gaussian_of_many_dimensions(columns, seed):
    choice = choose_features(decaying(3000, seed, columns), 64, seed=seed)
    assert choice.method == "linear"
    assert choice.linear > choice.ssbc
    assert f"{choice.linear:.3f}" in choice.reason


def test_the_choice_is_the_same_for_any_number_of_threads():
    rows = decaying(1500, columns=40)
    found = set()
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            found.add(choose_features(rows, 32, n_landmarks=150, seed=3))
    assert len(found) == 1


@given(
    offset=st.sampled_from([0.0, 1.0, -4096.0]),
    exponent=st.sampled_from([-300, -60, 0, 60, 300]),
)
@settings(max_examples=10, deadline=None)
def test_units_and_origin_do_not_matter(offset, exponent):
    rows = np.random.default_rng(0).integers(-50, 50, (600, 12)).astype(np.float64)
    plain = choose_features(rows, 8, n_landmarks=60)
    moved = choose_features(np.ldexp(rows + offset, exponent), 8, n_landmarks=60)
    assert moved.method == plain.method
    assert moved.ssbc == pytest.approx(plain.ssbc, abs=0.01)
    assert moved.linear == pytest.approx(plain.linear, abs=0.01)


@st.composite
def odd_rows(draw):
    """Rows with duplicates and constant columns, of both precisions."""
    count, kinds, columns = (draw(st.integers(1, most)) for most in (700, 700, 20))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    distinct = rng.standard_normal((kinds, columns))
    distinct[:, : draw(st.integers(0, columns))] = 7
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return distinct[rng.integers(kinds, size=count)].astype(dtype)


@given(rows=odd_rows(), bits=st.integers(1, 40), seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_what_was_measured_can_be_built(rows, bits, seed):
    choice = choose_features(rows, bits, n_landmarks=50, seed=seed)
    assert choice.reason
    if bits > rows.shape[1]:
        assert choice.method == "ssbc"
    if choice.linear is not None:
        assert linear(rows, bits).learn(rows).coder().bits == bits
        assert ssbc(rows, bits).learn(rows).coder().bits == bits
