import numpy as np
import pytest

from streambits import Codes
from streambits.evaluation import bits as module
from streambits.evaluation.bits import bit_balance, bit_correlation, bit_use, bits_changed

RNG = np.random.default_rng(0)
BITS = RNG.standard_normal((500, 11)) @ RNG.standard_normal((11, 11)) > RNG.standard_normal(11)
CODES = Codes.from_bits(BITS)


def test_balance_and_correlation_are_numpys():
    np.testing.assert_allclose(bit_balance(CODES), BITS.mean(axis=0))
    np.testing.assert_allclose(bit_correlation(CODES), np.corrcoef(BITS.T), atol=1e-12)


def test_any_block_gives_the_same(monkeypatch):
    whole = bit_correlation(CODES)
    monkeypatch.setattr(module, "BLOCK", 64)
    np.testing.assert_array_equal(bit_correlation(CODES), whole)


def test_the_summary_is_of_pairs_of_different_bits():
    found = bit_use(CODES)
    pairs = np.abs(np.corrcoef(BITS.T)[np.triu_indices(11, 1)])
    assert found.imbalance == pytest.approx(np.abs(2 * BITS.mean(axis=0) - 1).mean())
    assert (found.correlation, found.most) == pytest.approx((pairs.mean(), pairs.max()))
    assert found.constant == 0


def test_all_codes_of_a_length_are_the_best_use():
    every = Codes.from_bits((np.arange(16)[:, None] >> np.arange(4)) & 1)
    assert bit_use(every) == pytest.approx((0, 0, 0, 0))


def test_constant_bits_are_counted_and_have_no_correlation():
    bits = np.c_[BITS[:, :2], np.ones(500, bool), np.zeros(500, bool)]
    found = bit_use(Codes.from_bits(bits))
    assert found.constant == 2
    assert found.most == pytest.approx(abs(np.corrcoef(BITS[:, :2].T)[0, 1]))
    assert np.isnan(bit_use(Codes.from_bits(bits[:, 1:])).correlation)  # no pair is left


@pytest.mark.parametrize("width", [1, 8, 11])
def test_bits_changed_is_the_share_of_differing_bits(width):
    other = RNG.random((500, width)) > 0.5
    found = bits_changed(Codes.from_bits(BITS[:, :width]), Codes.from_bits(other))
    assert found == pytest.approx((BITS[:, :width] != other).mean())
