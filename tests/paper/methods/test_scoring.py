from itertools import product

import numpy as np
import pytest

from paper import methods as rivals
from paper.methods.scoring import Asymmetric, ProductAffinity, scorer, spherical_distance
from streambits import Codes
from streambits.errors import InputError


def random_codes(count, bits, seed=0, epoch=0):
    return Codes.from_bits(np.random.default_rng(seed).random((count, bits)) < 0.5, epoch)


# Spherical hashing


@pytest.mark.parametrize("bits", [3, 8, 70])
def test_spherical_distance_is_differing_over_shared_bits(bits):
    left, right = random_codes(20, bits), random_codes(30, bits, 1)
    found = spherical_distance(left, right)
    for (i, a), (j, b) in product(enumerate(left.unpack()), enumerate(right.unpack())):
        differing, shared = np.sum(a != b), np.sum(a & b)
        expected = 0 if differing == 0 else differing / shared if shared else np.inf
        assert found[i, j] == pytest.approx(expected)


# Multidimensional spectral hashing


def test_product_affinity_is_the_sum_over_all_products_of_bits():
    """Three dimensions of 2, 1 and 2 bits: every choice of at most one bit from each."""
    groups, weights = np.array([0, 0, 1, 2, 2]), np.array([1.0, 0.7, 0.9, 0.4, 0.2])
    left, right = random_codes(12, 5), random_codes(9, 5, 1)
    choices = product(*([None, *np.flatnonzero(groups == g)] for g in range(3)))
    sets = [[b for b in chosen if b is not None] for chosen in choices]
    sets = [chosen for chosen in sets if chosen]
    assert len(sets) == 3 * 2 * 3 - 1
    found = ProductAffinity(weights, groups)(left, right)
    y, z = (2.0 * codes.unpack() - 1 for codes in (left, right))
    for i, j in product(range(12), range(9)):
        expected = sum(np.prod(weights[s]) * np.prod(y[i, s]) * np.prod(z[j, s]) for s in sets)
        assert found[i, j] == pytest.approx(expected)


# Real-valued queries


@pytest.mark.parametrize("method", ["lsh", "ssbc", "mdsh", "spherical", "lsbc"])
def test_asymmetric_distances_are_those_of_a_double_loop(method, train, rows, monkeypatch):
    coder = rivals.METHODS[method](train, 9).coder()
    values, bits = coder.project(rows[:500]).astype(np.float64), coder.encode(rows[:500]).unpack()

    def mean(j, b):
        return values[bits[:, j] == b, j].mean() if np.any(bits[:, j] == b) else 0.0

    table = np.array([[mean(j, b) for b in (0, 1)] for j in range(9)])
    monkeypatch.setattr("paper.methods.scoring.BLOCK", 16)
    measure = Asymmetric(coder, rows[:500])
    assert np.allclose(measure.table, table)
    codes = coder.encode(rows[600:650])
    found, z = measure.distances(rows[:7], codes), coder.project(rows[:7]).astype(np.float64)
    for i, j in product(range(7), range(50)):
        code = codes.unpack()[j]
        expected = sum((z[i, b] - table[b, int(code[b])]) ** 2 for b in range(9))
        assert found[i, j] == pytest.approx(expected, rel=1e-6)


# Choosing


def test_scorer_refuses_other_names_and_codes_without_weights(train):
    coder = rivals.lsh(train, 6).coder()
    with pytest.raises(InputError, match="choose one of hamming, product, spherical"):
        scorer("cosine", coder)
    with pytest.raises(InputError, match="mdsh"):
        scorer("product", coder)
