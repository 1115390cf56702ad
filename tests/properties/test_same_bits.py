"""Same input, same bits: for any batches, any threads, alone or together, here or there."""

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambits as sb
from streambits import Codes, Learner
from streambits.features import GaussianAffinity
from streambits.sketches import Gram

WITH_SIGNS = ["ssbc", "paper", "linear", "pcah", "itq"]
splits = st.lists(st.integers(0, 5000), max_size=10).map(sorted)


def codes_by(coder, rows, size, parts):
    return Codes.concat([coder.encode(part) for part in parts(rows, size)])


@pytest.mark.parametrize("kind", ["gram", "frequent directions"])
@given(cuts=splits, seed=st.integers(0, 1000))
@settings(max_examples=10)
def test_any_split_gives_the_same_learner_of_either_sketch(kind, cuts, seed, mixture, fingerprint):
    rows = mixture(5000, seed=seed, dtype=np.float64)
    features = GaussianAffinity(rows[:30])

    def learner():
        sketch = Gram(30) if kind == "gram" else sb.sketches.FrequentDirections(30, 12)
        return Learner(features, sketch, bits=6, seed=seed)

    whole, parted = learner().learn(rows), learner()
    for part in np.split(rows, cuts):
        if len(part):
            parted.learn(part)
    assert fingerprint(parted) == fingerprint(whole)
    assert parted.coder().encode(rows) == whole.coder().encode(rows)


def fortran(rows):
    return np.asfortranarray(rows)


def every_other_row(rows):
    return np.repeat(rows, 2, axis=0)[::2]


def every_other_column(rows):
    return np.repeat(rows, 2, axis=1)[:, ::2]


def backwards(rows):
    return rows[::-1].copy()[::-1]


def misaligned(rows):
    raw = np.empty(rows.nbytes + 1, np.uint8)[1:]
    moved = raw.view(rows.dtype).reshape(rows.shape)
    moved[:] = rows
    return moved


@pytest.mark.parametrize(
    "layout", [fortran, every_other_row, every_other_column, backwards, misaligned]
)
@pytest.mark.parametrize("method", ["ssbc", "pcah"])
def test_the_layout_in_memory_does_not_matter(*, layout, method, build, train, rows, fingerprint):
    plain, other = build(method, train).learn(rows), build(method, train).learn(layout(rows))
    assert np.array_equal(layout(rows), rows)
    assert fingerprint(other) == fingerprint(plain)
    assert other.coder().encode(layout(rows)) == plain.coder().encode(rows)


@pytest.mark.parametrize("method", WITH_SIGNS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_within_rounding_of_a_threshold_have_one_code(
    *, method, dtype, build, mixture, edge_rows, parts
):
    coder = build(method, mixture(60, seed=1, dtype=dtype)).learn(mixture(3000, seed=2)).coder()
    edge = edge_rows(coder, mixture(600, seed=3, dtype=dtype))
    assert len(edge) > 100
    together = coder.encode(edge)
    assert codes_by(coder, edge, 1, parts) == together
    assert codes_by(coder, edge, 7, parts) == together
    assert coder.encode(np.repeat(edge, 9, axis=0)) == together[np.repeat(np.arange(len(edge)), 9)]
    assert coder.encode(edge[::-1]) == together[::-1]
    assert coder.on(strict.zeros(1)).encode(strict.asarray(edge)) == together
