"""Frequent Directions as the paper cites it (Sections 2.1 and 4)."""

import numpy as np
import pytest

import streambits as sb


def noise(rng):
    return rng.standard_normal((300, 20))


def low_rank(rng):
    return rng.standard_normal((300, 4)) @ rng.standard_normal((4, 20)) + 0.1 * noise(rng)


def graded(rng):
    return noise(rng) * np.logspace(0, -4, 20)


def one_by_one(rng):
    """The worst case: every row a direction of its own, in turn."""
    return np.tile(np.eye(20), (15, 1)) * rng.uniform(0.9, 1.1, (300, 1))


def sorted_rows(rng):
    rows = low_rank(rng)
    return rows[np.argsort(rows[:, 0])]


def affinities(rng):
    points = rng.random((300, 3))
    return sb.features.GaussianAffinity(points[:20])(points)


DATA = [noise, low_rank, graded, one_by_one, sorted_rows, affinities]
SIZES = [2, 5, 10, 19]


def sketched(rows, size, spare, *, centred=False):
    sketch = sb.sketches.FrequentDirections(rows.shape[1], size, spare, centred=centred)
    sketch.update(rows)
    return sketch


def missing(rows, sketch):
    """The eigenvalues of A'A - B'B."""
    return np.linalg.eigvalsh(rows.T @ rows - sketch.matrix.T @ sketch.matrix)


def bounds(rows, size):
    """||A - A_j||_F^2 / (l - j) for j = 0 .. l - 1; the first is ||A||_F^2 / l."""
    squares = np.linalg.svd(rows, compute_uv=False) ** 2
    return [squares[j:].sum() / (size - j) for j in range(size)]


@pytest.mark.parametrize("make", DATA)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("spare", [1, 3, None])
def test_error_bounds(make, size, spare):
    """||A'A - B'B||_2 <= ||A||_F^2 / l, and <= ||A - A_j||_F^2 / (l - j) for every j < l."""
    rows = make(np.random.default_rng(0))
    sketch = sketched(rows, size, spare)
    rounding = 1e-12 * np.sum(rows**2)
    error = np.abs(missing(rows, sketch)).max()
    assert error <= min(bounds(rows, size)) + rounding
    assert sketch.state()["shrinkage"] <= min(bounds(rows, size)) + rounding


@pytest.mark.parametrize("make", DATA)
@pytest.mark.parametrize("size", SIZES)
def test_certificate_holds_while_running(make, size):
    """0 <= A'A - B'B <= Delta I after every batch: what is proven, always (paper-notes 10)."""
    rows = make(np.random.default_rng(1))
    for centred in (False, True):
        sketch = sb.sketches.FrequentDirections(20, size, centred=centred)
        for end in range(25, 301, 25):
            sketch.update(rows[end - 25 : end])
            seen = rows[:end] - centred * rows[:end].mean(axis=0)
            eigenvalues, rounding = missing(seen, sketch), 1e-13 * np.sum(seen**2)
            assert eigenvalues[0] >= -rounding
            assert eigenvalues[-1] <= sketch.certificate + rounding


def test_certificate_is_not_idle():
    """It is within a factor of two of the true error on noise: a bound one can use."""
    rows = noise(np.random.default_rng(2))
    sketch = sketched(rows, 10, 1)
    assert sketch.certificate <= 2 * missing(rows, sketch)[-1]


def test_first_bound_is_attained():
    """l orthogonal rows of length one: everything is subtracted, the error is ||A||_F^2 / l = 1."""
    sketch = sketched(np.eye(8), 8, 1)
    assert sketch.matrix.shape[0] == 0
    assert sketch.state()["shrinkage"] == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [1.0, 0.5, 0.2, 0.125])
@pytest.mark.parametrize("make", DATA)
def test_two_over_epsilon_rows_suffice(make, epsilon):
    """Section 2.1: 'l = 2/eps rows, achieves error bound ||A'A - B'B||_2 <= eps ||A||_F^2'."""
    rows = make(np.random.default_rng(3))
    sketch = sketched(rows, int(2 / epsilon), 1)
    assert np.abs(missing(rows, sketch)).max() <= epsilon * np.sum(rows**2)


@pytest.mark.parametrize("make", DATA)
@pytest.mark.parametrize("spare", [1, None])
def test_merging_adds_certificates(make, spare):
    """Shards merge in any tree: certificates add up, and the bounds stay those of one pass."""
    rows = make(np.random.default_rng(4))
    parts = [sketched(part, 8, spare) for part in np.array_split(rows, 4)]
    separate = sum(part.certificate for part in parts)
    (first, second), (third, fourth) = parts[:2], parts[2:]
    first.merge(second)
    third.merge(fourth)
    first.merge(third)
    rounding = 1e-12 * np.sum(rows**2)
    assert first.seen == 300
    assert first.certificate >= separate
    assert missing(rows, first)[0] >= -rounding
    assert missing(rows, first)[-1] <= first.certificate + rounding
    assert first.state()["shrinkage"] <= min(bounds(rows, 8)) + rounding
