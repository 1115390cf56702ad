import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambits.errors import RankError
from streambits.sketches import Gram
from streambits.sketches.gram import _count_above, single_suffices


def scatter(rows):
    """The centred scatter, from numpy's covariance."""
    return np.atleast_2d(np.cov(rows.T, bias=True)) * len(rows)


def gram_of(rows, **settings):
    sketch = Gram(rows.shape[1], **settings)
    sketch.update(rows)
    return sketch


@given(st.integers(0, 1000), st.integers(1, 5))
def test_directions_are_the_leading_eigenvectors_of_the_covariance(seed, count):
    rows = np.random.default_rng(seed).standard_normal((100, 6)) * [6, 5, 4, 3, 2, 1] + 10
    vectors, energies = gram_of(rows).directions(count)
    covariance = np.cov(rows.T, bias=True)
    assert np.allclose(vectors.T @ vectors, np.eye(count), atol=1e-12)
    assert np.allclose(energies, np.linalg.eigvalsh(covariance)[::-1][:count])
    assert np.allclose(covariance @ vectors, vectors * energies, atol=1e-8)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_more_directions_than_the_rank_are_an_error_that_names_it(rank):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, rank)) @ rng.standard_normal((rank, 6))
    with pytest.raises(RankError, match=f"have {rank}: ask for at most {rank} bits"):
        gram_of(rows).directions(rank + 1, extra=1)


@pytest.mark.parametrize("offset", [0.0, 10.0, 1e6])
@given(st.integers(0, 1000), st.integers(2, 400))
def test_single_precision_errs_by_less_than_its_certificate(offset, seed, count):
    rows = np.random.default_rng(seed).standard_normal((1000, 6)) * [9, 5, 3, 1, 1, 0.1] + offset
    rows = rows.astype(np.float32)
    sketch = Gram(6, precision="single")
    for start in range(0, 1000, count):
        sketch.update(rows[start : start + count])
    error = np.linalg.norm(sketch.matrix - scatter(rows.astype(np.float64)), 2)
    assert error <= sketch.certificate + 1e-12 * (1 + offset) * len(rows)
    assert sketch.certificate < 1e-2 * np.trace(sketch.matrix)


def test_single_precision_suffices_for_strong_directions_only():
    rng = np.random.default_rng(0)
    strong = rng.standard_normal((300, 6)).astype(np.float32)
    weak = strong * np.array([1e4, 1, 1, 1, 1, 1], np.float32)
    assert single_suffices(strong, 6)
    assert single_suffices(weak, 1)
    assert not single_suffices(weak, 2)
    assert not single_suffices(strong.astype(np.float64), 2)
    assert not single_suffices(strong, 7)


def spread(seed, rows=4000, columns=60):
    """Rows of falling energies, along directions of no special place."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    return (rng.standard_normal((rows, columns)) / np.arange(1, columns + 1)) @ turn


def missed(sketch, vectors):
    return 1 - sketch.captured(vectors)


@pytest.mark.parametrize("seed", range(3))
def test_directions_found_from_the_last_miss_hardly_more_than_those_of_the_eigenproblem(seed):
    rows = spread(seed)
    last = gram_of(rows[:1000]).directions(8)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((8, 8)))[0]
    sketch = gram_of(rows)
    near = sketch.directions_near(last.vectors * last.energies**-0.25 @ turn)
    best = sketch.directions(8)
    assert np.allclose(near.vectors.T @ near.vectors, np.eye(8), atol=1e-11)
    assert missed(sketch, near.vectors) <= 1.02 * missed(sketch, best.vectors)
    assert np.allclose(near.energies, best.energies, rtol=0.05)
    along = np.diag(near.vectors.T @ sketch.matrix @ near.vectors) / sketch.weight
    assert np.allclose(near.energies, along, rtol=0.05)


@pytest.mark.parametrize("energy", [2.0, 30.0])
def test_a_strong_direction_orthogonal_to_the_last_ones_is_not_overlooked(energy):
    """No product with the last directions leads there: the axes are eigenvectors throughout."""
    energies = np.concatenate([np.linspace(2, 1, 8), np.full(51, 0.01), [energy]])
    sketch = gram_of(np.concatenate([np.diag(energies**0.5), -np.diag(energies**0.5)]))
    near = sketch.directions_near(np.eye(60)[:, :8])
    found = sketch.directions(8) if near is None else near
    assert np.sum(found.vectors[59] ** 2) > 0.99


@pytest.mark.parametrize("size", [1, 2, 3, 20, 70])
@pytest.mark.parametrize("seed", range(6))
def test_eigenvalues_above_a_bound_are_counted(size, seed):
    rng = np.random.default_rng([size, seed])
    matrix = rng.standard_normal((size, size))
    matrix = matrix @ matrix.T if seed % 2 else matrix + matrix.T
    if seed % 3 == 0:
        np.fill_diagonal(matrix, 0.0)  # so that there are blocks of two
    values = np.linalg.eigvalsh(matrix)
    for bound in (-1.0, 0.0123, float(np.median(values)) + 1e-3):
        assert _count_above(matrix, bound) == (values > bound).sum()
