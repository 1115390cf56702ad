"""Section 2.1: what the paper says of the methods it compares with, where we have them."""

import numpy as np
import pytest

from paper import methods as rivals


def test_lsh_agrees_by_the_angle():
    """'taking dot product with a collection of k random vectors, and assigning each bit ...
    according to the sign': two points agree in a bit with chance 1 - angle / pi.
    """
    angles = np.array([0.0, 0.3, 1.0, 2.0, 3.0])
    turned = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    train = np.vstack([turned, -turned])  # their mean, which LSH subtracts, is the origin
    agree = np.zeros(5)
    for seed in range(4):
        bits = rivals.lsh(train, 4096, seed=seed).coder().encode(turned).unpack()
        agree += (bits == bits[0]).mean(axis=1) / 4
    np.testing.assert_allclose(agree, 1 - angles / np.pi, atol=0.02)  # five standard deviations


@pytest.mark.parametrize("bits", [5, 15])
def test_nystrom_approximates_the_kernel_matrix(bits):
    """'G = C W_k^+ C', C the affinities to the sample, W_k the best rank k of its own matrix."""
    rng = np.random.default_rng(0)
    rows, sample = rng.random((100, 3)), rng.random((20, 3))

    def gaussian(left, right):
        return np.exp(-((left[:, None] - right) ** 2).sum(axis=2) / 0.2)

    values, vectors = np.linalg.eigh(gaussian(sample, sample))
    inverse = (vectors[:, -bits:] / values[-bits:]) @ vectors[:, -bits:].T
    c = gaussian(rows, sample)
    z = rivals.nystrom(sample, bits, bandwidth=0.2).coder().project(rows)
    np.testing.assert_allclose(z @ z.T / 20**0.5, c @ inverse @ c.T, atol=1e-8)
