import array_api_strict as strict
import numpy as np
import pytest

from streambits.errors import InputError
from streambits.features import Linear


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0, 2**20])
def test_rows_of_whole_numbers_become_exact_differences(dtype, offset):
    rows = np.random.default_rng(0).integers(-9, 9, (50, 4)) + offset
    centre = rows[7]
    found = Linear(centre.astype(dtype))(rows.astype(dtype))
    assert found.dtype == dtype
    assert np.array_equal(found, rows - centre)


def test_around_takes_the_mean_in_double_precision():
    rows = (np.random.default_rng(0).random((5000, 3)) + 1e4).astype(np.float32)
    exact = rows.astype(np.float64).mean(axis=0)
    linear = Linear.around(rows)
    assert linear.like.dtype == np.float32
    assert np.array_equal(linear.centre, exact.astype(np.float32))


@pytest.mark.parametrize("centre", [np.array([1.0, np.nan]), np.zeros((2, 2)), np.zeros(0)])
def test_a_centre_that_is_no_point_is_refused(centre):
    with pytest.raises(InputError, match="centre"):
        Linear(centre)


def test_strict_arrays_give_the_same_features():
    rows = np.random.default_rng(0).random((20, 4))
    there = Linear.around(strict.asarray(rows))
    assert np.array_equal(np.asarray(there(strict.asarray(rows))), Linear.around(rows)(rows))
    assert np.array_equal(there.on(np.zeros(1)).centre, Linear.around(rows).centre)
