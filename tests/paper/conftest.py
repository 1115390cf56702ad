"""The paper's two algorithms, transcribed to the letter in NumPy: the oracles of this folder."""

import math
from types import SimpleNamespace

import numpy as np
import pytest


def gaussian_affinity(q, train, sigma):
    """Algorithm 2, line by line."""
    w = np.zeros(len(train))
    i = 0
    for p in train:
        w[i] = math.exp(-sum((q - p) ** 2) / sigma)
        i += 1  # noqa: SIM113 - as printed
    return w


def shrinking(rows, size):
    """The loop of Algorithm 1 on affinity rows; gives B and the sum of all Sigma_ll^2."""
    b, total = np.zeros((size, rows.shape[1])), 0.0
    for w in rows:
        b[np.flatnonzero(~b.any(axis=1))[0]] = w  # "Insert w into a full zero row of B"
        if b.any(axis=1).all():  # "if B has no full zero rows"
            _, s, vt = np.linalg.svd(b, full_matrices=False)
            squared = s**2
            last = squared[size - 1] if size <= len(s) else 0.0  # Sigma is size x m
            b = np.zeros_like(b)
            b[: len(s)] = np.sqrt(np.maximum(squared - last, 0))[:, None] * vt
            total += last
    return b, total


def ssbc(train, test, bits, epsilon, sigma):
    """Algorithm 1, line by line: B, the sum of all Sigma_ll^2, and the affinity rows."""
    size = math.ceil(bits + bits / epsilon)
    rows = np.array([gaussian_affinity(p, train, sigma) for p in np.vstack([train, test])])
    b, total = shrinking(rows, size)
    return SimpleNamespace(b=b, shrinkage=total, rows=rows, size=size)


def signs(rows, matrix, bits):
    """y = sign(w V_k), V the right singular vectors."""
    _, _, vt = np.linalg.svd(matrix, full_matrices=False)
    return rows @ vt[:bits].T > 0


def equal_up_to_signs(left, right):
    """Whether each column is the same or the opposite, bit for bit."""
    same = left == right
    return bool((same.all(axis=0) | (~same).all(axis=0)).all())


@pytest.fixture(scope="session")
def literal():
    return SimpleNamespace(
        gaussian_affinity=gaussian_affinity,
        shrinking=shrinking,
        ssbc=ssbc,
        signs=signs,
        equal_up_to_signs=equal_up_to_signs,
    )
