import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from paper.methods.sketches import HadamardDirections
from paper.methods.sketches.hadamard import hadamard_transform


def decaying(count, seed=0, width=12):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(99).standard_normal((width, width)))[0]
    return rng.standard_normal((count, width)) * 0.7 ** np.arange(width) @ turn + 3.0


def fed(sketch, rows, step):
    for start in range(0, len(rows), step):
        sketch.update(rows[start : start + step])
    return sketch


def scatter(sketch):
    vectors, energies = sketch.directions(1, extra=sketch.width)
    return vectors * energies @ vectors.T


@given(st.integers(0, 8), st.integers(1, 5), st.integers(0, 1000))
def test_the_transform_is_the_hadamard_matrix(power, width, seed):
    rows = np.random.default_rng(seed).standard_normal((2**power, width))
    expected = scipy.linalg.hadamard(2**power) @ rows
    assert np.allclose(hadamard_transform(rows), expected, atol=1e-10)


@pytest.mark.parametrize("count", [100, 128, 1000])
def test_sampled_rows_keep_the_scatter_in_expectation(count):
    """The mean over many seeds; nothing is shrunk away, so only sampling errs."""
    rows = decaying(count)
    found = np.zeros((12, 12))
    for seed in range(400):
        sketch = HadamardDirections(12, 60, 40, seed=seed)
        sketch.update(rows)
        found += scatter(sketch) / 400
    expected = np.cov(rows.T, bias=True)
    assert np.linalg.norm(found - expected, 2) < 0.04 * np.linalg.norm(expected, 2)


def test_a_single_large_row_is_not_missed():
    """What the transform is for: plain sampling of 32 in 1024 rows would lose it."""
    rows = np.random.default_rng(0).standard_normal((1024, 12)) * 0.01
    rows[500, 3] += 100
    for seed in range(20):
        sketch = HadamardDirections(12, 16, seed=seed)
        sketch.update(rows)
        vectors, energies = sketch.directions(1)
        assert abs(vectors[3, 0]) > 0.999
        assert energies[0] == pytest.approx(100**2 / 1024 * (1 - 1 / 1024), rel=0.05)
