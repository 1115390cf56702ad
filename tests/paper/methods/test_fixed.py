"""The methods whose work is in their features: what their papers say of the codes."""

import numpy as np
import pytest
from scipy import integrate, stats

from paper import methods as rivals


def pairs_apart(distances, width=6, seed=0):
    """Pairs of rows at these distances, in random directions."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((len(distances), width))
    steps *= (np.asarray(distances) / np.linalg.norm(steps, axis=1))[:, None]
    start = rng.standard_normal((len(distances), width))
    return start, start + steps


def share_differing(build, distances, seeds=20):
    """The share of 1024 bits that differ, over several seeds, for each distance."""
    left, right = pairs_apart(distances)
    found = []
    for seed in range(seeds):
        coder = build(left, seed).coder()
        differing = coder.encode(left).unpack() ^ coder.encode(right).unpack()
        found.append(differing.mean(axis=1))
    return np.mean(found, axis=0)


def test_bits_of_lsbc_differ_as_the_series_of_its_paper_says():
    """8 / pi^2 sum over m of (1 - K(m u)) / (4 m^2 - 1), K(u) = exp(-u^2 / bandwidth)."""
    bandwidth, distances = 2.0, np.array([0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.5, 5.0])
    m = np.arange(1, 2000)[:, None]
    kernel = np.exp(-((m * distances) ** 2) / bandwidth)
    expected = 8 / np.pi**2 * np.sum((1 - kernel) / (4 * m**2 - 1), axis=0)
    found = share_differing(
        lambda train, seed: rivals.lsbc(train, 1024, bandwidth=bandwidth, seed=seed), distances
    )
    assert np.allclose(found, expected, atol=5 * 0.5 / np.sqrt(20 * 1024))
    assert np.all(np.diff(found) > 0)
    assert found[-1] == pytest.approx(4 / np.pi**2, abs=0.02)


def test_bits_of_e2lsh_differ_as_a_triangle_wave_of_normal_steps():
    width, distances = 1.5, np.array([0.0, 0.2, 0.5, 1.0, 2.0, 6.0])

    def expected(distance):
        def differ(t):  # stripes of width 1, moved at random: the chance to cross an odd number
            u = abs(t) * distance / width % 2
            return min(u, 2 - u) * stats.norm.pdf(t)

        return integrate.quad(differ, -8, 8, limit=500)[0]

    found = share_differing(
        lambda train, seed: rivals.e2lsh(train, 1024, width=width, seed=seed), distances
    )
    wanted = [expected(distance) for distance in distances]
    assert np.allclose(found, wanted, atol=5 * 0.5 / np.sqrt(20 * 1024))
