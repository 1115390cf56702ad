import array_api_strict as strict
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from streambits._arrays import (
    as_choice,
    as_count,
    as_ids,
    as_number,
    as_rows,
    as_seed,
    move,
    nbytes,
    same,
    to_device_of,
    to_numpy,
)
from streambits.errors import InputError


def complaint(call, *args, **settings):
    with pytest.raises(InputError) as caught:
        call(*args, **settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.longdouble, np.float64),
        (np.int8, np.float32),
        (np.uint16, np.float32),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (np.bool_, np.float32),
        (">f8", np.float64),
        (object, np.float64),
    ],
)
def test_real_types_keep_their_values_and_become_single_or_double(given, kept):
    rows = as_rows(np.array([[0, 1], [1, 1]], given))
    assert rows.dtype == kept
    assert rows.tolist() == [[0, 1], [1, 1]]


def test_floats_are_not_copied():
    rows = np.ones((3, 2), np.float32)
    assert np.shares_memory(as_rows(rows), rows)


@pytest.mark.parametrize(
    "values", [[[1, 2], [3, 4]], pd.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}), ((1, 2), (3, 4))]
)
def test_lists_and_frames_are_rows(values):
    assert as_rows(values).tolist() == [[1, 2], [3, 4]]


def test_like_gives_library_and_precision():
    moved = as_rows([[1, 2]], like=strict.zeros(1, dtype=strict.float32))
    assert isinstance(moved, type(strict.zeros(1)))
    assert moved.dtype == strict.float32


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[1.0, np.nan]], ("rows[0, 1]", "NaN", "drop or fill")),
        ([[1.0, 2.0], [np.inf, 0.0]], ("rows[1, 0]", "inf", "drop or fill")),
        ([[1.0, 2.0], [-np.inf, 0.0]], ("rows[1, 0]", "-inf", "drop or fill")),
        ([[np.inf, -np.inf]], ("rows[0, 0]", "inf", "drop or fill")),
        ([1.0, 2.0, 3.0], ("length 3", "reshape(1, -1)")),
        (np.zeros((2, 2, 2)), ("(2, 2, 2)", "two-dimensional")),
        (5.0, ("()", "two-dimensional")),
        (None, ("()", "two-dimensional")),
        (np.zeros((0, 2)), ("empty", "(0, 2)", "skip")),
        (np.zeros((2, 0)), ("0 feature(s)", "(2, 0)")),
        (np.zeros((3, 4)), ("4 columns", "(n, 2)")),
        (np.array([[1 + 1j, 2]]), ("complex128", "real")),
        (np.array([[1 + 1j, 2]], object), ("complex", "real")),
        ([["a", "b"]], ("<U1", "convert")),
        ([[b"a", b"b"]], ("|S1", "convert")),
        (np.array([["a", 1]], object), ("object", "convert")),
        (np.array([[{}, 1]], object), ("not a number",)),
        (np.array([[None, 1]], object), ("rows[0, 0]", "NaN")),
        (np.array([["2020-01-01", "2020-01-02"]], "M8[D]"), ("datetime64", "convert")),
        ([[1.0, 2.0], [3.0]], ("cannot be read",)),
        (scipy.sparse.csr_matrix(np.eye(2)), ("sparse", "toarray()")),
        (scipy.sparse.coo_array(np.eye(2)), ("sparse", "toarray()")),
    ],
)
def test_bad_rows_are_refused_with_the_value_and_a_remedy(values, words):
    message = complaint(as_rows, values, width=2)
    assert [word for word in words if word not in message] == []


def test_the_message_names_the_argument():
    assert complaint(as_rows, [[np.nan]], name="landmarks").startswith("landmarks[0, 0]")


def test_a_row_too_large_for_the_precision_it_must_take_is_refused():
    assert "rows[1, 0]" in complaint(as_rows, [[0.0], [1e300]], like=np.zeros(1, np.float32))


def test_large_rows_whose_sum_overflows_are_finite():
    assert as_rows(np.full((4, 2), 3e38, np.float32)).shape == (4, 2)


def test_what_is_masked_is_refused():
    rows = np.ma.array([[1.0, 1.0], [2.0, 3.0]], mask=[[0, 0], [1, 0]])
    assert "rows[1, 0] is masked: drop or fill" in complaint(as_rows, rows)
    assert as_rows(rows.filled(0.0)).tolist() == [[1, 1], [0, 3]]
    assert as_rows(rows[:1]).tolist() == [[1, 1]]
    assert "ids[1] is masked" in complaint(as_ids, np.ma.array([1, 2], mask=[0, 1]))


def test_strict_arrays_are_checked_too():
    assert "rows[1, 0]" in complaint(as_rows, strict.asarray([[1.0], [float("nan")]]))


def test_rows_survive_the_way_to_another_library_and_back():
    rows = np.random.default_rng(0).random((5, 3))
    there = move(rows, strict.zeros(1, dtype=strict.float64))
    assert np.array_equal(to_numpy(there), rows)
    assert to_device_of(rows.astype(np.float32), there).dtype == strict.float32


def test_nbytes_and_same_look_at_values_of_any_library():
    rows = np.ones((3, 2), np.float32)
    assert nbytes(rows, np.zeros(4)) == rows.nbytes + 32
    assert same(rows, strict.asarray(rows))
    assert not same(rows, strict.asarray(rows + 1))
    assert not same(rows, rows[:2])


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "3", None, np.array([1, 2])])
def test_counts_are_whole_numbers(value):
    assert "must be a whole number" in complaint(as_count, value, "bits")


@pytest.mark.parametrize("value", [0, 9, -1])
def test_counts_have_limits(value):
    message = complaint(as_count, value, "bits", most=8)
    assert f"bits is {value}" in message
    assert "from 1 to 8" in message


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_any_integer_type_counts(value):
    assert as_count(value, "bits") == 3


@pytest.mark.parametrize(
    "value",
    [
        *(True, "1", None, np.nan, np.inf, -1, 0.0, 1j, np.complex128(1j)),
        pytest.param(10**400, id="too large for a float"),
    ],
)
def test_numbers_are_finite_real_and_above_their_limit(value):
    assert complaint(as_number, value, "bandwidth", above=0).startswith("bandwidth is ")


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int8(1)])
def test_any_real_type_is_a_number(value):
    assert as_number(value, "bandwidth", above=0) == 1.0


def test_a_choice_lists_the_others():
    message = complaint(as_choice, "iqt", "rotation", ("none", "itq"))
    assert "'iqt'" in message
    assert "none, itq" in message


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None, True])
def test_bad_seeds_are_refused(seed):
    assert repr(seed) in complaint(as_seed, seed)


def test_a_generator_is_a_seed_and_moves_on():
    rng = np.random.default_rng(3)
    assert as_seed(rng) != as_seed(rng)
    assert as_seed(np.random.default_rng(3)) == as_seed(np.random.default_rng(3))
