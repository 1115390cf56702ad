"""Rows as a few bytes, and back."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from streambits.errors import InputError
from streambits.model.quantiser import ProductQuantiser, bits_by_variance, deal


def sample(seed=0, count=3000, columns=12):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    spread = 2.0 ** -np.arange(columns)
    return (rng.standard_normal((count, columns)) * spread @ turn + 5).astype(np.float32)


ROWS = sample()
QUANTISER = ProductQuantiser.fit(ROWS, 6)


def test_every_byte_is_the_nearest_centre_of_its_group():
    codes, values = QUANTISER.encode(ROWS), (ROWS - QUANTISER.mean) @ QUANTISER.axes
    for group in range(6):
        start, end = QUANTISER.starts[group : group + 2]
        centres = QUANTISER.centres[start:end, : QUANTISER.counts[group]].T
        far = cdist(values[:, start:end], centres)
        np.testing.assert_allclose(far[np.arange(len(far)), codes[:, group]], far.min(axis=1))


@given(
    seed=st.integers(0, 2**32),
    exponent=st.integers(-120, 120),
    far=st.integers(0, 14),
    offset=st.sampled_from([0.0, 1.0, 1e4]),
)
def test_codes_are_those_of_double_precision(seed, exponent, far, offset):
    """Centres of any scale and place, some close together, some equal; rows near and far away."""
    rng, scale = np.random.default_rng(seed), 2.0**exponent
    starts, counts = np.array([0, 1, 4, 4, 9]), np.array([256, 200, 1, 2])
    centres = (rng.standard_normal((9, 256)) + offset) * scale
    centres[:, 100:150] = centres[:, 50:100] * (1 + 1e-9 * rng.random(50))
    centres[:, 150:180] = centres[:, 20:50]
    quantiser = ProductQuantiser(np.zeros(9), np.eye(9), starts, centres, counts)
    rows = rng.standard_normal((40, 9)) * scale * 10.0**far
    rows[:20] = centres[:, rng.integers(0, 180, 20)].T
    line = np.sort(centres[0])  # of the first group; now between two neighbours
    rows[20:30, 0] = (line[100:110] + line[101:111]) / 2 + 1e-6 * scale * rng.standard_normal(10)
    codes = quantiser.encode(rows)
    for group, (start, end) in enumerate(pairwise(starts)):
        own = centres[start:end, : counts[group]]
        squares = np.zeros((40, counts[group]))
        for axis in range(end - start):
            squares += (rows[:, start + axis, None] - own[axis]) ** 2
        np.testing.assert_array_equal(codes[:, group], squares.argmin(axis=1))


def test_where_centres_are_as_near_as_rounding_allows_the_codes_are_doubtful():
    centres = np.zeros((2, 256))
    centres[0, :3], centres[1, :3] = [1.0, 2.0, 4.0], [5.0, 5.0, 5.0]
    quantiser = ProductQuantiser(np.zeros(2), np.eye(2), np.array([0, 2]), centres, np.array([3]))
    values = np.array([[1.5, 5.0], [1.5 + 1e-15, 5.0], [1.5 + 1e-9, 5.0], [1e16, 1e16]])
    codes, doubtful = quantiser.assign_values(values, np.linalg.norm(values, axis=1))
    assert codes[0, 0] == 0
    assert doubtful.tolist() == [True, True, False, True]
    clear = np.array([[1.6, 5.0]])
    assert not quantiser.assign_values(clear, np.array([1e5]))[1].any()
    assert quantiser.assign_values(clear, np.array([2e7]))[1].all()  # a longer row rounds more


def histograms(count=2000):
    """48 columns, six by six with nothing in common; each six near one of a few corners."""
    rng = np.random.default_rng(1)
    corners = 4 * rng.integers(0, 2, (8, 100, 6))
    parts = [own[rng.integers(0, 100, count)] for own in corners]
    return np.concatenate(parts, axis=1) + rng.normal(0, 0.3, (count, 48))


def images(count=2000):
    """60 columns of which some in the middle vary most, each like its neighbours."""
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((count, 64))
    smooth = noise[:, :60] + noise[:, 1:61] + noise[:, 2:62]
    return smooth * np.exp(-np.square((np.arange(60) - 30) / 9))


@pytest.mark.parametrize(
    "rows", [ROWS, histograms(), images()], ids=["turned", "corners", "middle"]
)
@pytest.mark.parametrize("count", [1, 4, 16, 64])
def test_axes_are_orthonormal_and_in_groups(rows, count):
    quantiser = ProductQuantiser.fit(rows, count)
    axes = quantiser.axes
    np.testing.assert_allclose(axes.T @ axes, np.eye(axes.shape[1]), atol=1e-12)
    assert (quantiser.starts[0], quantiser.starts[-1]) == (0, axes.shape[1])
    assert (np.diff(quantiser.starts) >= 0).all()
    assert quantiser.centres.shape == (axes.shape[1], 256)
    assert quantiser.n_bytes == count


@pytest.mark.parametrize("rows", [ROWS, histograms()], ids=["turned", "corners"])
def test_a_fit_depends_on_its_seed_and_on_no_threads(rows):
    with threadpool_limits(1):
        first = ProductQuantiser.fit(rows, 4, seed=3)
    with threadpool_limits(2):
        second = ProductQuantiser.fit(rows, 4, seed=3)
    for name, array in first.state().items():
        np.testing.assert_array_equal(array, second.state()[name])
    assert not np.array_equal(first.centres, ProductQuantiser.fit(rows, 4, seed=4).centres)


def test_more_bytes_err_less_and_decoded_rows_keep_the_mean():
    errors = []
    for count in (1, 2, 4, 8, 16):
        quantiser = ProductQuantiser.fit(ROWS, count)
        decoded = quantiser.decode(quantiser.encode(ROWS))
        errors.append(np.square(decoded - ROWS).sum(axis=1).mean())
        np.testing.assert_allclose(decoded.mean(axis=0), ROWS.mean(axis=0), atol=0.05)
    assert sorted(errors, reverse=True) == errors
    assert errors[-1] < 0.002 * ROWS.var(axis=0).sum()


@given(
    variances=st.lists(st.floats(0, 1e6), min_size=1, max_size=40),
    total=st.integers(1, 128),
)
def test_bits_are_shared_out(variances, total):
    variances = np.array(variances)
    bits = bits_by_variance(variances, total)
    assert ((bits >= 0) & (bits <= 8)).all()
    assert bits.sum() <= total + 1e-6
    order = np.argsort(-variances, kind="stable")
    assert (np.diff(bits[order]) <= 1e-9).all()
    groups = deal(bits, 5)
    assert sorted(axis for group in groups for axis in group) == np.flatnonzero(bits > 0).tolist()


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((10, 3)),
        np.ones((1, 1)),
        np.arange(40.0).reshape(20, 2),
        np.repeat([[1.0, 2.0], [3.0, -1.0]], 400, axis=0),
        np.random.default_rng(0).random((300, 5)),
        1e-30 * np.random.default_rng(0).random((600, 2)),
        1e30 * np.random.default_rng(0).random((600, 2)),
        np.random.default_rng(0).standard_normal((1500, 4)) ** 15,
        np.random.default_rng(0).integers(0, 2, (1500, 4)) + 1e6 * np.eye(1500, 4),
    ],
    ids=["zeros", "one", "few", "two", "levels", "tiny", "huge", "outliers", "equal"],
)
def test_samples_of_any_kind(rows):
    quantiser = ProductQuantiser.fit(rows, 3)
    decoded = quantiser.decode(quantiser.encode(rows))
    spread = np.square(rows - rows.mean(axis=0)).sum()
    assert np.square(decoded - rows).sum() <= 0.2 * spread
    if len(np.unique(rows, axis=0)) <= 2:
        np.testing.assert_allclose(decoded, rows)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda: ProductQuantiser.fit(ROWS, 0), "n_bytes is 0"),
        (lambda: ProductQuantiser.fit(ROWS, 257), "n_bytes is 257"),
        (lambda: ProductQuantiser.fit(np.full((5, 2), np.nan), 1), "NaN"),
        (lambda: QUANTISER.encode(ROWS[:, :3]), "3 columns, but this was built for 12"),
        (lambda: QUANTISER.decode(np.zeros((2, 5), np.uint8)), r"an \(n, 6\) array of uint8"),
        (lambda: QUANTISER.decode(np.zeros((2, 6))), "type float64"),
    ],
)
def test_bad_input(wrong, complaint):
    with pytest.raises(InputError, match=complaint):
        wrong()
