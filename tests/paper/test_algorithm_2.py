"""Algorithm 2, Gaussian affinity, and the kernel of Section 3.1."""

import numpy as np
import pytest

import streambits as sb


@pytest.mark.parametrize("sigma", [0.05, 1.0, 30.0])
@pytest.mark.parametrize(("dtype", "precision"), [(np.float64, 1e-12), (np.float32, 3e-5)])
def test_affinities_are_those_of_the_double_loop(sigma, dtype, precision, literal):
    """'W[i] = exp(-||q - p||^2 / sigma)' for every p in S_train."""
    rng = np.random.default_rng(0)
    train, test = (rng.random((n, 6)).astype(dtype) for n in (15, 40))
    wanted = [literal.gaussian_affinity(q, train.astype(float), sigma) for q in test.astype(float)]
    found = sb.features.GaussianAffinity(train, sigma)(test)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=precision, atol=1e-37)


def test_both_printed_denominators():
    """Algorithm 2 divides by sigma, Section 3.1 by sigma^2: both can be had (paper-notes 3)."""
    rng = np.random.default_rng(0)
    train, q = rng.standard_normal((60, 4)), rng.standard_normal((1, 4))
    distances = np.sqrt(((train[:, None] - train) ** 2).sum(axis=2))
    sigma = np.sort(distances, axis=1)[:, 30].mean()
    squares = ((q - train) ** 2).sum(axis=1)
    by_sigma = sb.features.GaussianAffinity(train, sb.bandwidth.nearest(30, power=1))(q)[0]
    by_square = sb.features.GaussianAffinity(train, sb.bandwidth.nearest(30))(q)[0]
    np.testing.assert_allclose(by_sigma, np.exp(-squares / sigma), rtol=1e-10)
    np.testing.assert_allclose(by_square, np.exp(-squares / sigma**2), rtol=1e-10)


def test_only_the_square_has_the_right_unit():
    """In other units of length the affinities are the same by sigma^2 and others by sigma (3)."""
    train = np.random.default_rng(0).standard_normal((60, 4))
    for power, same in ((2, True), (1, False)):
        metres, feet = (
            sb.features.GaussianAffinity(rows, sb.bandwidth.nearest(30, power=power))(rows)
            for rows in (train, 3.28084 * train)
        )
        assert np.allclose(metres, feet) == same
