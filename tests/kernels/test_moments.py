"""Means and sums of products, against NumPy in double precision."""

import numpy as np
import pytest

from streambits.kernels.moments import add_scatter, centre


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
def test_rows_are_centred(count):
    rows = np.random.default_rng(count).random((count, 33), dtype=np.float32)
    rows[:, 0] = 0.1  # equal values have no rounding
    mean, centred = np.empty(33), rows.copy()
    centre(centred, mean)
    assert np.allclose(mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-7)
    assert np.array_equal(centred, rows - mean.astype(np.float32))
    assert not centred[:, 0].any()


def test_scatters_add_up():
    rng = np.random.default_rng(0)
    total, step = rng.random((20, 20)), rng.random(20)
    scatter = rng.random((20, 20), dtype=np.float32)
    expected = total + scatter.astype(np.float64) + np.outer(step, step)
    assert add_scatter(total, scatter, step) == pytest.approx(np.trace(scatter))
    assert np.allclose(total, expected, rtol=1e-14)
