import warnings

import array_api_strict as strict
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import streambits as sb
from streambits import Coder, Codes
from streambits.errors import InputError, ReachWarning
from streambits.features import GaussianAffinity, Linear
from streambits.model.projection import Projection


def coder_of(seed=0, width=20, bits=16, columns=5, dtype=np.float32):
    rng = np.random.default_rng(seed)
    landmarks = rng.standard_normal((width, columns)).astype(dtype)
    matrix = rng.standard_normal((width, bits))
    thresholds = np.median(np.exp(-(cdist(landmarks, landmarks) ** 2)) @ matrix, axis=0)
    return Coder(GaussianAffinity(landmarks), Projection(matrix, thresholds), epoch=3)


def values_of(coder, rows):
    """The formula of the package, in double precision and without a trick."""
    landmarks = coder.features.landmarks.astype(np.float64)
    affinities = np.exp(
        -(cdist(rows.astype(np.float64), landmarks) ** 2) / coder.features.bandwidth
    )
    return affinities @ coder.projection.matrix - coder.projection.thresholds


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_are_the_packed_signs_of_the_formula(dtype):
    coder = coder_of(dtype=dtype)
    rows = np.random.default_rng(1).standard_normal((5000, 5)).astype(dtype)
    codes, values = coder.encode(rows, warn=False), values_of(coder, rows)
    clear = abs(values) > 1e-12 * abs(coder.projection.matrix).sum(axis=0)
    assert (codes.bits, codes.epoch, len(codes)) == (16, 3, 5000)
    assert clear.mean() > 0.999
    assert np.array_equal(codes.unpack()[clear], values[clear] > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projected_values_are_those_of_the_formula(dtype):
    coder = coder_of(dtype=dtype)
    rows = np.random.default_rng(1).standard_normal((5000, 5)).astype(dtype)
    found = coder.project(rows, warn=False)
    assert found.dtype == dtype
    assert np.allclose(found, values_of(coder, rows), atol=50 * np.finfo(dtype).eps)


def test_bits_are_decided_as_in_double_precision_where_single_would_err(edge_rows):
    coder = coder_of()
    rows = edge_rows(coder, np.random.default_rng(1).standard_normal((4000, 5)).astype(np.float32))
    values = values_of(coder, rows)
    clear = abs(values) > 1e-12 * abs(coder.projection.matrix).sum(axis=0)
    assert np.any(
        (coder.project(rows, warn=False) > 0)[clear] != (values > 0)[clear]
    )  # there are such bits
    assert np.array_equal(coder.encode(rows, warn=False).unpack()[clear], values[clear] > 0)


def test_bad_rows_are_refused(bad_rows, complaint, learner):
    coder = learner.coder()
    for act in (coder.encode, coder.project):
        with pytest.raises(InputError, match=complaint):
            act(bad_rows)


def test_huge_rows_have_a_code_alone_and_beside_others(learner, rows):
    coder = learner.coder()
    huge = np.full((1, 8), 1e30, np.float32)
    beside = coder.encode(np.concatenate([rows[:50], huge, rows[50:99]]))
    assert beside[50] == coder.encode(huge, warn=False)
    assert beside[:50] == coder.encode(rows[:50])
    assert np.array_equal(
        coder.encode(huge, warn=False).unpack()[0], coder.projection.thresholds < 0
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_another_library_gives_the_same_bits_as_numpy_codes(dtype, rows):
    coder = sb.ssbc(rows[:60].astype(dtype), 12).coder()
    there = coder.on(strict.zeros(1))
    given = rows.astype(dtype)
    expected = coder.encode(given)
    for found in (there.encode(strict.asarray(given)), coder.encode(strict.asarray(given))):
        assert isinstance(found, Codes)
        assert isinstance(found.packed, np.ndarray)
        assert found == expected
    projected = there.project(strict.asarray(given[:9]))
    assert isinstance(projected, type(strict.zeros(1)))
    assert np.allclose(np.asarray(projected), coder.project(given[:9]), atol=1e-4)


def test_a_row_on_every_threshold_has_the_same_code_alone_and_in_a_batch():
    rng = np.random.default_rng(0)
    centre = rng.standard_normal(6).astype(np.float32)
    coder = Coder(Linear(centre), Projection(rng.standard_normal((6, 20)), np.zeros(20)))
    batch = np.concatenate([np.tile(centre, (5, 1)), rng.standard_normal((60, 6)), centre[None]])
    codes = coder.encode(batch.astype(np.float32))
    for place in (0, 4, 65):
        assert codes[place] == coder.encode(centre[None])
    assert not codes[0].unpack().any()  # the sign of nothing is no


@pytest.mark.parametrize("middle", [0.1, 0.7, 1 / 3, 1.7])
def test_bits_are_decided_exactly_where_a_long_sum_of_equal_terms_rounds(middle):
    """Terms of one size round the same way again and again; a threshold beside their sum."""
    columns, middle = 1000, np.float32(middle)
    steps = np.concatenate([np.arange(-100, 0), np.arange(1, 101)]).astype(np.int32)
    values = (np.full(200, middle).view(np.int32) + steps).view(np.float32)
    rows = np.repeat(values[:, None], columns, axis=1)
    projection = Projection(np.ones((columns, 1)), np.array([columns * float(middle)]))
    coder = Coder(Linear(np.zeros(columns, np.float32)), projection)
    assert np.array_equal(coder.encode(rows).unpack()[:, 0], steps > 0)


# Rows that no landmark reaches


@pytest.mark.parametrize("what", ["encode", "project"])
def test_rows_of_another_scale_are_warned_of(what, train, rows):
    coder = sb.ssbc(train, 12).learn(rows).coder()
    ask = getattr(coder, what)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(rows)
        ask(np.concatenate([rows, 20 * rows[:3]]))  # a few outliers are nobody's mistake
    for many in (20 * rows, rows + 100, np.concatenate([rows[:50], 20 * rows[:50]])):
        with pytest.warns(
            ReachWarning, match=r"are out of reach, too far from all landmarks.*check their scale"
        ):
            ask(many)


def test_rows_out_of_reach_are_counted(train, rows):
    coder = sb.ssbc(train, 12).learn(rows).coder()
    mixed = np.concatenate([rows[:50], 20 * rows[:30], rows[50:90]])
    with pytest.warns(ReachWarning, match="30 of 120 rows encoded"):
        codes = coder.encode(mixed)
    far = coder.out_of_reach(mixed, codes)
    assert np.flatnonzero(far).tolist() == list(range(50, 80))
    closest = np.exp(
        -((mixed[:, None] - train[None]) ** 2).sum(2).min(1) / coder.features.bandwidth
    )
    assert (closest < 0.01).sum() == 30
