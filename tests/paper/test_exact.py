"""Exact-D and Exact-R (Section 5): eigenvectors of the affinity matrix of all points."""

import numpy as np
import pytest

import streambits as sb
from paper import methods as rivals
from paper.methods import kernel
from streambits.errors import InputError

BITS = 10


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(0).standard_normal((120, 3))


@pytest.fixture(scope="module")
def w(points):
    return np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / 2.0)


@pytest.fixture(scope="module")
def u(w):
    values, vectors = np.linalg.eigh(w)
    assert values[-BITS] > 1e-6  # W is positive definite, and these are clear of rounding
    return vectors[:, ::-1][:, :BITS]


def test_w_times_u_has_the_signs_of_u(w, u):
    """W U = U Lambda with Lambda > 0, so sign(W U_k) = sign(U_k) (METHODS, Exact)."""
    np.testing.assert_array_equal(w @ u > 0, u > 0)


def test_exact_d_takes_the_sign_of_u(points, u, literal):
    """'The i-th row of sign(U_k) provides a binary code': bit for bit, up to column signs."""
    coder = rivals.exact_d(points, BITS, bandwidth=2.0).coder()
    assert literal.equal_up_to_signs(coder.encode(points).unpack(), u > 0)
    values = coder.project(points) / len(points) ** 0.5
    np.testing.assert_allclose(np.abs(values), np.abs(u), atol=1e-8)


def test_exact_d_is_the_printed_ssbc_when_the_sketch_loses_nothing(points, literal):
    """The same by Frequent Directions with l > n: ssbc(paper=True) on its own landmarks."""
    ssbc = sb.ssbc(points, BITS, bandwidth=2.0, epsilon=BITS / 120, paper=True)
    assert ssbc.sketch.size > len(points)
    exact = rivals.exact_d(points, BITS, bandwidth=2.0)
    found, wanted = (one.coder().encode(points).unpack() for one in (ssbc, exact))
    assert literal.equal_up_to_signs(found, wanted)


def test_exact_r_is_exact_d_rotated(points):
    """'it multiplies U_k by a random rotation matrix R, and then takes the sign'.

    The paper prints R as n x n; U_k R needs k x k.
    """
    exact_d = rivals.exact_d(points, BITS, bandwidth=2.0).coder().project(points)
    coder = rivals.exact_r(points, BITS, bandwidth=2.0, seed=4).coder()
    exact_r = coder.project(points)
    rotation = np.linalg.lstsq(exact_d, exact_r)[0]
    np.testing.assert_allclose(exact_d @ rotation, exact_r, atol=1e-8)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(BITS), atol=1e-8)
    assert np.abs(rotation).max() < 0.95  # no permutation, no identity
    np.testing.assert_array_equal(coder.encode(points).unpack(), exact_r > 0)


def test_exact_methods_refuse_what_does_not_fit(points, monkeypatch):
    """'in order to load the whole n by n weight matrix in RAM': the bytes are said beforehand."""
    monkeypatch.setattr(kernel, "EXACT_BYTES", 4 * 8 * 120**2 - 1)
    with pytest.raises(InputError, match=r"460,800 bytes"):
        rivals.exact_d(points, BITS)
