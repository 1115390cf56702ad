"""Algorithm 1, Streaming Spectral Binary Coding (Section 3.2)."""

import math
from fractions import Fraction

import numpy as np
import pytest

import streambits as sb


def uniform(rng, n, d):
    return rng.random((n, d)) / np.arange(1, d + 1) ** 2


def clusters(rng, n, d):
    return rng.integers(0, 4, (n, 1)) + 0.3 * rng.standard_normal((n, d))


def curve(rng, n, d):
    return np.sin(rng.random((n, 1)) * np.arange(1, d + 1)) + 0.05 * rng.standard_normal((n, d))


CASES = {  # data, m, n, d, bits, epsilon, sigma
    "uniform": (uniform, 60, 300, 5, 8, 1.0, 0.2),
    "clusters": (clusters, 40, 300, 3, 6, 0.5, 1.0),
    "curve": (curve, 50, 200, 7, 10, 2.0, 2.0),
    "no compression, m < l": (uniform, 12, 200, 5, 8, 1.0, 0.2),
    "m = l": (clusters, 16, 200, 4, 8, 1.0, 1.0),
    "fewer rows than l": (uniform, 20, 5, 4, 6, 0.2, 0.2),
    "one bit": (clusters, 30, 100, 2, 1, 1.0, 1.0),
}


def example(name):
    make, m, n, d, bits, epsilon, sigma = CASES[name]
    rng = np.random.default_rng(sorted(CASES).index(name))
    return make(rng, m, d), make(rng, n, d), bits, epsilon, sigma


def learned(train, test, bits, epsilon, sigma):
    learner = sb.ssbc(train, bits, bandwidth=sigma, epsilon=epsilon, paper=True)
    return learner.learn(test)


@pytest.mark.parametrize("name", CASES)
def test_b_is_that_of_the_printed_algorithm(name, literal):
    """'Return B': the same B'B, and the same sum of Sigma_ll^2 on the way."""
    printed, sketch = literal.ssbc(*example(name)), learned(*example(name)).sketch
    wanted = printed.b.T @ printed.b
    found = sketch.matrix.T @ sketch.matrix
    assert np.abs(found - wanted).max() <= 1e-10 * np.abs(wanted).max()
    assert sketch.state()["shrinkage"] == pytest.approx(
        printed.shrinkage, rel=1e-8, abs=1e-10 * np.trace(wanted)
    )


@pytest.mark.parametrize("name", CASES)
def test_codes_are_those_of_the_printed_algorithm(name, literal):
    """'y_q = sign(w_q V)', V truncated to its first k columns: bit for bit, up to column signs."""
    train, test, bits, epsilon, sigma = example(name)
    printed = literal.ssbc(train, test, bits, epsilon, sigma)
    codes = learned(*example(name)).coder().encode(np.vstack([train, test])).unpack()
    assert codes.shape == (len(train) + len(test), bits)
    assert literal.equal_up_to_signs(codes, literal.signs(printed.rows, printed.b, bits))


def test_b_after_every_row_of_the_stream(literal):
    """The loop 'for i in 1..n' one row at a time: B agrees at every moment, pending rows too."""
    train, test, bits, epsilon, sigma = example("clusters")
    learner = sb.ssbc(train, bits, bandwidth=sigma, epsilon=epsilon, paper=True)
    for count in range(1, 30):
        learner.learn(test[count - 1 : count])
        printed = literal.ssbc(train, test[:count], bits, epsilon, sigma)
        found = learner.sketch.matrix
        np.testing.assert_allclose(found.T @ found, printed.b.T @ printed.b, atol=1e-9)


def test_the_training_set_is_the_first_part_of_the_stream():
    """'S = [S_train; S_test]': the landmarks are rows 1 to m."""
    train, test, bits, epsilon, sigma = example("uniform")
    learner = sb.ssbc(train, bits, bandwidth=sigma, epsilon=epsilon, paper=True)
    assert learner.seen == len(train)
    assert learner.learn(test).seen == len(train) + len(test)


@pytest.mark.parametrize("bits", [1, 7, 20, 25, 50])
@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "0.7", "1", "1.5", "8", "1000"])
def test_sketch_size(bits, epsilon):
    """'Set l = ceil(k + k / eps) as sketch size', in exact arithmetic."""
    train = np.random.default_rng(0).random((60, 3))
    learner = sb.ssbc(train, bits, epsilon=float(epsilon), paper=True)
    assert learner.sketch.size == max(2, math.ceil(bits + bits / Fraction(epsilon)))


def test_zeroing_out_the_last_row_makes_space_for_the_next():
    """'This results in zeroing out last row of B, and making space': at most l - 1 rows stay."""
    train, test, *_ = example("uniform")
    learner = sb.ssbc(train, 8, paper=True)
    for row in test[:50]:
        rows = learner.learn(row[None, :]).sketch.matrix
        assert len(rows) == learner.sketch.size - 1


def test_v_is_m_by_k():
    """The paper prints V in R^(l x l) and V_k in R^(l x k); it is m x k (paper-notes 13)."""
    learner = learned(*example("uniform"))
    assert learner.sketch.directions(8).vectors.shape == (60, 8)
    assert learner.sketch.matrix.shape[1] == 60


def test_first_bit_says_nothing():
    """Affinities are positive, so the first right singular vector has one sign (paper-notes 2)."""
    train, test, bits, epsilon, sigma = example("uniform")
    codes = learned(train, test, bits, epsilon, sigma).coder().encode(test).unpack()
    assert codes[:, 0].all() or not codes[:, 0].any()
    assert 0 < codes[:, 1].mean() < 1


def test_default_has_no_such_bit():
    """What we do about it: centred rows, thresholds at the mean; every bit splits the data."""
    train, test, bits, _, _ = example("uniform")
    codes = sb.ssbc(train, bits).learn(test).coder().encode(test).unpack()
    assert (np.abs(codes.mean(axis=0) - 0.5) < 0.25).all()


def test_one_row_freed_at_a_time_costs_an_svd_a_row(monkeypatch):
    """'Once B is full, SSBC takes svd of B': n - l + 1 times; spare rows save them (7)."""
    count = []
    shrink = sb.sketches.FrequentDirections._shrink
    monkeypatch.setattr(
        sb.sketches.FrequentDirections, "_shrink", lambda self: (count.append(1), shrink(self))
    )
    rows = np.random.default_rng(0).random((500, 30))
    errors = []
    for spare, svds in ((1, 500 - 10 + 1), (10, (500 - 9) // 10)):
        count.clear()
        sketch = sb.sketches.FrequentDirections(30, 10, spare, centred=False)
        sketch.update(rows)
        assert len(count) == svds
        errors.append(np.linalg.norm(rows.T @ rows - sketch.matrix.T @ sketch.matrix, 2))
    assert errors[1] < errors[0]
