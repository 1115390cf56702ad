from itertools import product

import numpy as np
import pytest

import streambits as sb
from streambits import Codes
from streambits.errors import EpochError, InputError
from streambits.evaluation.quality import average_precision
from streambits.scoring import Asymmetric, ProductAffinity, scorer, spherical_distance


def random_codes(count, bits, seed=0, epoch=0):
    return Codes.from_bits(np.random.default_rng(seed).random((count, bits)) < 0.5, epoch)


def map_of(distances, near):
    """Mean average precision, by the places of a full order."""
    places = np.argsort(np.argsort(distances, axis=1, kind="stable"), axis=1)
    return np.nanmean(average_precision(places, near, distances.shape[1]))


# Spherical hashing


@pytest.mark.parametrize("bits", [3, 8, 70])
def test_spherical_distance_is_differing_over_shared_bits(bits):
    left, right = random_codes(20, bits), random_codes(30, bits, 1)
    found = spherical_distance(left, right)
    for (i, a), (j, b) in product(enumerate(left.unpack()), enumerate(right.unpack())):
        differing, shared = np.sum(a != b), np.sum(a & b)
        expected = 0 if differing == 0 else differing / shared if shared else np.inf
        assert found[i, j] == pytest.approx(expected)


def test_spherical_distance_refuses_what_does_not_compare():
    with pytest.raises(InputError):
        spherical_distance(random_codes(2, 8), random_codes(2, 9))
    with pytest.raises(EpochError):
        spherical_distance(random_codes(2, 8), random_codes(2, 8, epoch=1))


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


def test_product_affinity_goes_block_by_block(monkeypatch):
    weights, groups = np.linspace(0.1, 1, 11), np.arange(11) // 3
    codes = random_codes(50, 11)
    whole = ProductAffinity(weights, groups)(codes, codes)
    monkeypatch.setattr("streambits.scoring.BLOCK", 7)
    assert np.allclose(ProductAffinity(weights, groups)(codes, codes), whole)
    assert np.allclose(np.diag(whole), whole.max(axis=1))


def test_product_affinity_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="one number per bit"):
        ProductAffinity([1.0], [0, 1])
    measure = ProductAffinity([1.0, 1.0], [0, 1])
    with pytest.raises(InputError, match=r"3 bits.*2 bits"):
        measure(random_codes(2, 3), random_codes(2, 3))
    with pytest.raises(EpochError, match="encode the rows again"):
        measure(random_codes(2, 2), random_codes(2, 2, epoch=1))


# Real-valued queries


@pytest.mark.parametrize("method", ["lsh", "ssbc", "mdsh", "spherical", "lsbc"])
def test_asymmetric_distances_are_those_of_a_double_loop(method, train, rows, monkeypatch):
    coder = sb.METHODS[method](train, 9).coder()
    values, bits = coder.project(rows[:500]).astype(np.float64), coder.encode(rows[:500]).unpack()

    def mean(j, b):
        return values[bits[:, j] == b, j].mean() if np.any(bits[:, j] == b) else 0.0

    table = np.array([[mean(j, b) for b in (0, 1)] for j in range(9)])
    monkeypatch.setattr("streambits.scoring.BLOCK", 16)
    measure = Asymmetric(coder, rows[:500])
    assert np.allclose(measure.table, table)
    codes = coder.encode(rows[600:650])
    found, z = measure.distances(rows[:7], codes), coder.project(rows[:7]).astype(np.float64)
    for i, j in product(range(7), range(50)):
        code = codes.unpack()[j]
        expected = sum((z[i, b] - table[b, int(code[b])]) ** 2 for b in range(9))
        assert found[i, j] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("method", ["lsh", "itq", "ssbc"])
def test_asymmetric_search_finds_more_than_hamming(method, train, rows):
    coder = sb.METHODS[method](train, 8).learn(rows).coder()
    queries, others = rows[:200], rows[200:]
    squared = ((queries[:, None] - others) ** 2).sum(axis=-1)
    near = squared <= np.quantile(squared, 0.02)
    codes = coder.encode(others)
    hamming = map_of(coder.encode(queries).hamming(codes), near)
    asymmetric = map_of(Asymmetric(coder, others).distances(queries, codes), near)
    assert asymmetric > hamming + 0.02


def test_a_bit_that_the_sample_never_has_stands_for_the_edge(train, rows):
    coder = sb.lsh(train, 6).coder()
    sample = rows[:1]
    measure, bits = Asymmetric(coder, sample), coder.encode(sample).unpack()[0]
    here = np.arange(6)
    assert np.all(measure.table[here, (~bits).astype(int)] == 0)
    assert np.allclose(measure.table[here, bits.astype(int)], coder.project(sample)[0])


def test_asymmetric_distances_refuse_other_codes(train, rows):
    learner = sb.lsh(train, 6)
    measure = Asymmetric(learner.coder(), rows[:50])
    with pytest.raises(InputError, match="7 bits"):
        measure.distances(rows[:2], random_codes(3, 7))
    with pytest.raises(EpochError, match="epochs 1 and 0"):
        measure.distances(rows[:2], random_codes(3, 6, epoch=1))


# Choosing


def test_scorer_gives_smaller_numbers_for_nearer_codes(train, rows):
    coder = sb.mdsh(train, 6).coder()
    codes = coder.encode(rows[:40])
    assert np.array_equal(scorer("hamming", coder)(codes, codes), codes.hamming(codes))
    assert np.array_equal(
        scorer("spherical", coder)(codes, codes), spherical_distance(codes, codes)
    )
    product_distance = scorer("product", coder)(codes, codes)
    affinity = ProductAffinity(coder.features.weights, coder.features.groups)
    assert np.array_equal(product_distance, -affinity(codes, codes))
    assert np.all(np.diag(product_distance) == product_distance.min(axis=1))


def test_every_method_has_the_scorer_it_declares(method, build, train, rows):
    coder = build(method, train).learn(rows).coder()
    codes = coder.encode(rows[:30])
    declared = sb.METHODS[method].distance if method in sb.METHODS else "hamming"
    distances = scorer(declared, coder)(codes, codes)
    assert distances.shape == (30, 30)
    assert np.all(np.diag(distances) <= distances.min(axis=1) + 1e-12)


def test_scorer_refuses_other_names_and_codes_without_weights(train):
    coder = sb.lsh(train, 6).coder()
    with pytest.raises(InputError, match="choose one of hamming, product, spherical"):
        scorer("cosine", coder)
    with pytest.raises(InputError, match="mdsh"):
        scorer("product", coder)
