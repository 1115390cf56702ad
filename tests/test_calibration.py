import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from streambits.calibration import curve, tables


@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 20))
def test_a_curve_is_the_isotonic_regression_of_distances(seed, count, bits):
    rng = np.random.default_rng(seed)
    near = rng.integers(0, bits + 1, (count, count)).astype(np.uint16)
    near = np.maximum(near, near.T)
    far = rng.random((count, count)) + 0.3 * near
    above = np.triu_indices(count, 1)
    fitted = IsotonicRegression(out_of_bounds="clip").fit(near[above], far[above])
    found = curve(near, far)
    assert np.allclose(found, fitted.predict(np.arange(len(found))))
    assert (np.diff(found) >= -1e-12).all()


def test_a_far_query_is_told_so_although_its_codes_are_near():
    steps = np.arange(17.0)
    near = np.tile(np.arange(17, dtype=np.uint16), 20)[None, :]
    inside, outside = 1.0 * near, 1.0 * near + 100
    found = tables(steps, np.concatenate([near, near]), np.concatenate([inside, outside]), 16)
    assert np.allclose(found[0], steps, atol=0.5)
    assert (found[1] > 80).all()
    assert (np.diff(found) > 0).all()


def test_where_nothing_is_known_the_nearest_answer_counts():
    near = np.full((1, 50), 10, np.uint16)
    found = tables(np.arange(17.0), near, np.full((1, 50), 30.0), 16)
    assert found[0, 0] > 15
    assert found[0, 10] > 25
