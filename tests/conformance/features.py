"""Checks of features: what `features.base.Features` promises, one named check per promise.

Every check takes the features and some rows (n, inputs), and raises an AssertionError that says
what was expected.
"""

import numpy as np

from conformance.compare import InapplicableError, checks_in, equal
from streambits._arrays import array_namespace, as_rows, double, is_array_api_obj, to_numpy


def check_features_width(features, rows):
    """Every row of `inputs` columns becomes one of `width` columns."""
    found = features(_checked(features, rows))
    wanted = (len(rows), features.width)
    assert found.shape == wanted


def check_features_finite(features, rows):
    """Features of finite rows are finite."""
    found = to_numpy(features(_checked(features, rows)))
    bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
    assert not len(bad)


def check_features_precision(features, rows):
    """Features come in the precision of the rows or a better one."""
    rows = _checked(features, rows)
    found, xp = features(rows), array_namespace(rows)
    assert xp.finfo(found.dtype).bits >= xp.finfo(rows.dtype).bits


def check_features_noise_shape(features, rows):
    """`noise` is one finite bound per row, zero or more."""
    noise = _noise(features, _checked(features, rows))
    assert noise.shape == (len(rows),)
    assert np.isfinite(noise).all()
    assert (noise >= 0).all()


def check_features_row_wise(features, rows):
    """What a row becomes does not depend on the rows beside it, up to twice the noise."""
    rows = _checked(features, rows)
    together = features(rows)
    xp = array_namespace(together)
    isolated = xp.concat([features(rows[i : i + 1, :]) for i in range(rows.shape[0])], axis=0)
    # each of the two may be off by the noise
    _expect_within(together, isolated, 2 * _noise(features, rows))


def check_features_noise(features, rows):
    """In single precision: `noise` bounds the error against double precision.

    It does not apply to features in double precision: nothing more exact is at hand.
    """
    rows = _checked(features, rows)
    if rows.dtype == array_namespace(rows).float64:
        raise InapplicableError("the features are in double precision")
    exact = features(double(rows))
    _expect_within(features(rows), exact, _noise(features, rows))


def check_features_frozen(features, rows):
    """Calling changes neither the features nor the rows, and results share no memory with them."""
    rows = _checked(features, rows)
    kept = array_namespace(rows).asarray(rows, copy=True)
    first = features(rows)
    again = array_namespace(first).asarray(first, copy=True)
    first[:, :] = -1.0
    features(rows[:1, :] * 2)
    assert equal(rows, kept)
    assert equal(features(rows), again)


def check_features_state(features, rows):
    """`from_state(state())` gives the same features to the last bit, from plain values."""
    rows = _checked(features, rows)
    state = features.state()
    odd = [name for name, value in state.items() if not _plain(value)]
    assert not odd
    assert equal(features(rows), type(features).from_state(state)(rows))


def check_features_on(features, rows):
    """`on` an array of the same library and device changes nothing."""
    rows = _checked(features, rows)
    moved = features.on(features.like)
    assert equal(moved(rows), features(rows))


def check_features_memory(features, rows):
    """`nbytes` is the same before and after use."""
    before = features.nbytes
    features(_checked(features, rows))
    assert before == features.nbytes


CHECKS = checks_in(globals())


def _checked(features, rows):
    return as_rows(rows, like=features.like, width=features.inputs)


def _noise(features, rows):
    return to_numpy(features.noise(rows, features(rows)))


def _expect_within(left, right, noise):
    """Every row's difference is at most `noise` times its length; underflow to 0 is not counted."""
    tiny = array_namespace(left).finfo(left.dtype).smallest_normal * left.shape[1] ** 0.5
    left, right = to_numpy(double(left)), to_numpy(double(right))
    apart = np.linalg.norm(left - right, axis=1)
    allowed = noise * np.linalg.norm(right, axis=1) + float(tiny)
    worst = int(np.argmax(apart - allowed))
    assert apart[worst] <= allowed[worst]


def _plain(value):
    plain = value is None or isinstance(value, bool | int | float | str)
    return plain or bool(is_array_api_obj(value))
