import array_api_strict as strict
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from streambits.errors import InputError
from streambits.features import centres

NUMBERED = np.arange(500.0)[:, None] * [1.0, -1.0]


def test_centres_are_ten_steps_of_lloyd_from_random_rows(mixture):
    sample = mixture(400, dtype=np.float64)
    expected = sample[np.random.default_rng(3).choice(400, 12, replace=False)]
    for _ in range(10):
        owner = cdist(sample, expected).argmin(axis=1)
        expected = np.array([sample[owner == i].mean(axis=0) for i in range(12)])
    assert np.allclose(centres(sample, 12, seed=3), expected, rtol=1e-9)


@pytest.mark.parametrize(("count", "message"), [(0, "count is 0"), (501, "from 1 to 500")])
def test_a_wrong_number_of_centres_is_refused(count, message):
    with pytest.raises(InputError, match=message):
        centres(NUMBERED, count)


def test_centres_keep_library_and_precision():
    sample = NUMBERED.astype(np.float32)
    found = centres(strict.asarray(sample), 4)
    assert found.dtype == strict.float32
    assert np.array_equal(np.asarray(found), centres(sample, 4))
