import numpy as np
import pytest

from paper import methods as rivals
from paper.methods.features import Cosines
from streambits.errors import InputError


def parts(inputs=4, count=7, dtype=np.float64):
    rng = np.random.default_rng(0)
    shapes = ((inputs, count), (count,), (count,), (inputs,))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def test_features_are_shifted_cosines_of_linear_forms():
    frequencies, phases, offsets, centre = parts()
    rows = np.random.default_rng(1).standard_normal((20, 4))
    found = Cosines(frequencies, phases, offsets, centre)(rows)
    for i in range(20):
        for j in range(7):
            angle = sum((rows[i, c] - centre[c]) * frequencies[c, j] for c in range(4))
            assert found[i, j] == pytest.approx(np.cos(angle + phases[j]) + offsets[j])


@pytest.mark.parametrize("bandwidth", [0.5, 3.0])
def test_products_of_random_fourier_features_are_half_the_affinity(mixture, bandwidth):
    rows = mixture(30, width=3, dtype=np.float64) / 3
    features = Cosines.random(rows, 40000, bandwidth, seed=5)(rows)
    squared = ((rows[:, None] - rows) ** 2).sum(axis=-1)
    error = 2 * features @ features.T / 40000 - np.exp(-squared / bandwidth)
    assert np.abs(error).max() < 6 * 40000**-0.5


def test_box_gives_the_analytic_eigenfunctions_of_a_uniform_box():
    rng = np.random.default_rng(0)
    sides = np.array([3.0, 1.9, 1.1])
    train = rng.uniform(0, sides, (4000, 3))
    train = np.concatenate([train, sides - train])  # centred, and axes are principal up to 1 %
    features = Cosines.box(train, 8)
    all_modes = sorted((m / s, d, m) for d, s in enumerate(sides) for m in range(1, 10))[:8]
    rows = rng.uniform(0, sides, (2000, 3))
    for j, (frequency, dimension, _) in enumerate(all_modes):
        expected = np.cos(np.pi * frequency * rows[:, dimension])
        assert abs(np.corrcoef(features(rows)[:, j], expected)[0, 1]) > 0.97
    lengths = np.linalg.norm(features.frequencies, axis=0)
    assert np.allclose(lengths, [np.pi * f for f, *_ in all_modes], rtol=0.05)
    assert np.all(np.diff(lengths) >= 0)


@pytest.mark.parametrize("value", [1e-18, 0.1, 1e30, 1e-200])
@pytest.mark.parametrize("method", [rivals.sh, rivals.ssh, rivals.mdsh])
def test_equal_rows_are_refused_though_their_mean_is_rounded(method, value):
    for count in range(2, 60, 7):
        with pytest.raises(InputError, match="equal"):
            method(np.full((count, 3), value) * [1.0, 0.0, 1.0], 2)
