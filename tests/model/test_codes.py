import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from streambits import Codes
from streambits.errors import EpochError, InputError

bit_arrays = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=70))


@given(bit_arrays)
def test_packing_and_unpacking_gives_the_bits_back(bits):
    codes = Codes.from_bits(bits)
    assert np.array_equal(codes.unpack(), bits)
    assert codes.packed.shape == (len(bits), -(-bits.shape[1] // 8))
    assert len(codes) == len(bits)


@given(bit_arrays)
def test_bit_j_is_bit_j_mod_8_of_byte_j_div_8_and_the_rest_is_zero(bits):
    words = [int.from_bytes(code.tobytes(), "little") for code in Codes.from_bits(bits).packed]
    assert words == [sum(1 << j for j, bit in enumerate(row) if bit) for row in bits]


@given(st.data(), st.integers(1, 200))
def test_hamming_counts_differing_bits(data, bits):
    left = data.draw(arrays(np.bool_, st.tuples(st.integers(0, 6), st.just(bits))))
    right = data.draw(arrays(np.bool_, st.tuples(st.integers(0, 6), st.just(bits))))
    expected = (left[:, None, :] != right[None, :, :]).sum(axis=2)
    assert np.array_equal(Codes.from_bits(left).hamming(Codes.from_bits(right)), expected)


def test_hamming_does_not_overflow_at_the_longest_codes():
    codes = Codes.from_bits(np.repeat([[True], [False]], 4096, axis=1))
    assert codes.hamming(codes).tolist() == [[0, 4096], [4096, 0]]


@given(bit_arrays, st.data())
def test_choosing_and_putting_together_act_on_codes_like_on_rows(bits, data):
    codes = Codes.from_bits(bits, epoch=2)
    cut = data.draw(st.integers(0, len(bits)))
    assert Codes.concat([codes[:cut], codes[cut:]]) == codes
    assert codes[cut - 1] == Codes.from_bits(bits[[cut - 1]], epoch=2)
    assert codes[bits[:, 0]] == Codes.from_bits(bits[bits[:, 0]], epoch=2)
    assert Codes.concat(codes) == codes


def test_codes_cannot_be_written_to():
    codes = Codes.from_bits([[True, False]])
    with pytest.raises(ValueError, match="read-only"):
        codes.packed[0, 0] = 7


def test_codes_of_two_epochs_do_not_compare():
    old, new = (Codes.from_bits([[True, False]], epoch) for epoch in (0, 1))
    with pytest.raises(EpochError, match=r"epochs 0 and 1.*encode the rows again"):
        old.hamming(new)
    with pytest.raises(EpochError, match="epochs 0 and 1"):
        Codes.concat([old, new])
    assert old != new


def test_codes_of_two_lengths_do_not_compare():
    short, long = Codes.from_bits([[True] * 3]), Codes.from_bits([[True] * 4])
    with pytest.raises(InputError, match="3 and of 4 bits"):
        short.hamming(long)
    assert short != long


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Codes(np.zeros((2, 1), np.uint8), 9), r"\(n, 2\).*\(2, 1\)"),
        (lambda: Codes(np.zeros((2, 1), np.int64), 8), "int64.*from_bits"),
        (lambda: Codes(np.zeros(2, np.uint8), 8), r"\(2,\)"),
        (lambda: Codes(np.array([[8]], np.uint8), 3), "past the 3th are set"),
        (lambda: Codes(np.zeros((1, 513), np.uint8), 4097), "bits is 4097.*1 to 4096"),
        (lambda: Codes(np.zeros((1, 1), np.uint8), 0), "bits is 0"),
        (lambda: Codes(np.zeros((1, 1), np.uint8), True), "bits is True"),
        (lambda: Codes(np.zeros((1, 1), np.uint8), 8, -1), "epoch is -1"),
        (lambda: Codes.from_bits([[0, 2]]), "0 and 1"),
        (lambda: Codes.from_bits([True, False]), r"\(2,\)"),
        (lambda: Codes.concat([]), "pass at least one"),
    ],
)
def test_what_is_no_code_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_equality_looks_at_bits_length_and_epoch():
    codes = Codes.from_bits([[True, False]])
    assert codes == Codes.from_bits(np.array([[1, 0]]))
    assert codes != Codes.from_bits([[True, True]])
    assert codes != "codes"
    assert repr(codes) == "Codes(1 x 2 bits, epoch 0)"


def test_truth_values_and_packed_bytes_are_not_taken_for_each_other():
    truth = np.random.default_rng(0).integers(0, 2, (20, 64), np.uint8)
    with pytest.raises(InputError, match=r"uint8.*Codes.from_bits"):
        Codes(truth, 64)
    with pytest.raises(InputError, match="Packed bytes go to Codes"):
        Codes.from_bits(Codes.from_bits(truth).packed)
    assert len(Codes(truth, 512)) == 20
    assert len(Codes(np.zeros((20, 64), np.uint8), 512)) == 20
    sparse = Codes.from_bits(np.eye(1, 64, dtype=bool).repeat(20, axis=0))
    assert Codes.concat(sparse[i] for i in range(20)) == sparse


def test_numpy_takes_codes_as_their_bits():
    truth = np.random.default_rng(0).random((5, 11)) < 0.5
    codes = Codes.from_bits(truth)
    assert np.array_equal(np.asarray(codes), truth)
    assert np.asarray(codes, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="a copy"):
        np.array(codes, copy=False)


@given(bit_arrays)
def test_words_give_the_codes_back(bits):
    codes = Codes.from_bits(bits, epoch=3)
    assert Codes.from_words(codes.words(), codes.bits, 3) == codes


def test_bytes_given_may_be_changed_afterwards_and_codes_stay():
    packed = np.arange(6, dtype=np.uint8).reshape(3, 2)
    codes = Codes(packed, 16)
    packed[:] += 1
    assert codes.packed[0].tolist() == [0, 1]
