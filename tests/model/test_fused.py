"""The compiled way of a coder gives the bits of double precision, or leaves the row to others."""

import numpy as np
import pytest

import streambits as sb
from streambits.errors import InputError
from streambits.features import Affinities


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((3000, 13), dtype=np.float32) + 5


@pytest.fixture(params=[5, 8, 31, 64, 77], scope="module")
def coder(request, rows):
    return sb.ssbc(rows[:120], request.param).learn(rows).coder()


def exact_bits(coder, rows):
    """By distances that are not expanded, in double precision."""
    landmarks = coder.features.landmarks.astype(np.float64)
    steps = rows.astype(np.float64)[:, None, :] - landmarks
    features = np.exp(-(steps**2).sum(axis=2) / coder.features.bandwidth)
    return features @ coder.projection.matrix - coder.projection.thresholds > 0


def test_bits_are_those_of_double_precision(coder, rows):
    assert np.array_equal(coder.encode(rows).unpack(), exact_bits(coder, rows))


@pytest.mark.parametrize("count", [1, 3, 8, 9])
def test_few_rows_have_the_bits_that_they_have_among_many(coder, rows, count):
    many = coder.encode(rows)
    for start in range(0, 900, count):
        some = slice(start, start + count)
        assert coder.encode(rows[some]) == many[some]


def test_every_bit_can_be_decided_in_double_precision(coder, rows):
    fused = coder._fused
    fused._signs = fused._signs._replace(least=1e9)  # all are in doubt
    try:
        assert np.array_equal(coder.encode(rows[:300]).unpack(), exact_bits(coder, rows[:300]))
        assert np.array_equal(coder.encode(rows[:1]).unpack(), exact_bits(coder, rows[:1]))
    finally:
        del coder.__dict__["_fused"]


def test_compiled_code_is_used_where_it_applies(coder, rows):
    assert isinstance(coder._fused.measured(rows), Affinities)
    assert coder._fused.few(rows[:8]) is not None
    assert coder._fused.few(rows[:9]) is None
    assert coder._fused.few(rows[:2].astype(np.float64)) is None


def test_rows_of_any_layout_and_read_only_ones(coder, rows):
    held = rows[:4].copy()
    held.flags.writeable = False
    strided = np.repeat(rows[:4], 2, axis=1)[:, ::2]
    for some in (held, strided, np.asfortranarray(rows[:4])):
        assert coder.encode(some) == coder.encode(rows[:4])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [1, 8, 1500])
def test_what_is_not_finite_is_refused_by_its_place(coder, rows, bad, count):
    wrong = rows[:count].copy()
    wrong[count - 1, 2] = bad
    with pytest.raises(InputError, match=rf"rows\[{count - 1}, 2\] is"):
        coder.encode(wrong)
