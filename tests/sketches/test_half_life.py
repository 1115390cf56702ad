"""Forgetting: a row counts half after half_life rows, exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambits as sb
from streambits.errors import InputError

RNG = np.random.default_rng(5)
ROWS = RNG.standard_normal((400, 7)) * np.arange(1, 8) + np.arange(7)

KINDS = {
    "gram": lambda half, centred: sb.sketches.Gram(7, centred=centred, half_life=half),
    "wide": lambda half, centred: sb.sketches.FrequentDirections(
        7, 20, centred=centred, half_life=half
    ),
    "narrow": lambda half, centred: sb.sketches.FrequentDirections(
        7, 4, centred=centred, half_life=half
    ),
}


def weighted(rows, half, centred):
    """The explicitly weighted Gram matrix, and the weighted mean."""
    weights = 0.5 ** (np.arange(len(rows))[::-1] / half)
    mean = np.average(rows, axis=0, weights=weights) if centred else np.zeros(rows.shape[1])
    around = (rows - mean) * np.sqrt(weights)[:, None]
    return around.T @ around, mean, weights.sum()


def gram_of(sketch):
    matrix = sketch.matrix
    return matrix if isinstance(sketch, sb.sketches.Gram) else matrix.T @ matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centred", [True, False])
@given(cuts=st.lists(st.integers(0, 400), max_size=6), half=st.floats(1, 1000))
def test_decayed_sketches_are_the_explicitly_weighted_gram(kind, centred, cuts, half):
    sketch = KINDS[kind](half, centred)
    for piece in np.split(ROWS, sorted(cuts)):
        if len(piece):
            sketch.update(piece)
    expected, mean, weight = weighted(ROWS, half, centred)
    assert sketch.weight == pytest.approx(weight)
    np.testing.assert_allclose(sketch.mean, mean, atol=1e-9)
    error = np.linalg.eigvalsh(expected - gram_of(sketch))
    slack = 1e-11 * np.trace(expected)
    assert error.max() <= sketch.certificate + slack
    assert error.min() >= -slack


def test_the_certificate_fades_with_the_rows_it_bounds():
    sketch = sb.sketches.FrequentDirections(7, 4, half_life=50)
    sketch.update(ROWS)
    before = sketch.certificate
    sketch.fade(100)
    assert sketch.certificate == pytest.approx(before / 4)


@pytest.mark.parametrize("half", [0.5, np.nan, "ten"])
def test_a_half_life_below_one_row_is_refused(half):
    with pytest.raises(InputError, match="half_life"):
        sb.sketches.Gram(3, half_life=half)


@pytest.mark.parametrize("method", ["ssbc", "itq"])
def test_a_learner_that_forgets_follows_a_stream_that_moves(method):
    rng = np.random.default_rng(0)
    old = rng.standard_normal((6000, 8)).astype(np.float32) * [9, 9, 9, 9, 1, 1, 1, 1]
    new = old[:, ::-1].copy()
    train = np.concatenate([old[:100], new[:100]]).astype(np.float32)
    settings = {"bandwidth": 200.0} if method == "ssbc" else {}

    def overlap(learner):
        matrix = learner.learn(old).learn(new).coder().projection.matrix
        alone = (
            sb.methods.METHODS[method](train, 4, **settings).learn(new).coder().projection.matrix
        )
        return np.linalg.norm(np.linalg.qr(matrix)[0].T @ np.linalg.qr(alone)[0]) ** 2

    keeps = overlap(sb.methods.METHODS[method](train, 4, **settings))
    forgets = overlap(sb.methods.METHODS[method](train, 4, half_life=500, **settings))
    assert forgets > max(keeps, 3.0)
