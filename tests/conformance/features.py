"""Checks of features: what `features.base.Features` promises, one named check per promise.

Every check takes the features and some rows (n, inputs), and raises an AssertionError that says
what was expected.
"""

import numpy as np

from conformance.compare import InapplicableError, equal, expect
from streambits._arrays import array_namespace, as_rows, double, is_array_api_obj, to_numpy


def check_features_width(features, rows):
    """Every row of `inputs` columns becomes one of `width` columns."""
    found = features(_checked(features, rows))
    wanted = (len(rows), features.width)
    expect(found.shape == wanted, f"expected features of shape {wanted}, got {found.shape}")


def check_features_finite(features, rows):
    """Features of finite rows are finite."""
    found = to_numpy(features(_checked(features, rows)))
    bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
    expect(not len(bad), f"expected finite features; row {bad[:1]} has some that are not")


def check_features_precision(features, rows):
    """Features come in the precision of the rows or a better one."""
    rows = _checked(features, rows)
    found, xp = features(rows), array_namespace(rows)
    expect(
        xp.finfo(found.dtype).bits >= xp.finfo(rows.dtype).bits,
        f"expected features at least as precise as the rows ({rows.dtype}), got {found.dtype}",
    )


def check_features_noise_shape(features, rows):
    """`noise` is one finite bound per row, zero or more."""
    noise = _noise(features, _checked(features, rows))
    expect(noise.shape == (len(rows),), f"expected one noise per row, got shape {noise.shape}")
    expect(np.isfinite(noise).all() and (noise >= 0).all(), "expected noise from 0 to finite")


def check_features_row_wise(features, rows):
    """What a row becomes does not depend on the rows beside it, up to twice the noise."""
    rows = _checked(features, rows)
    together = features(rows)
    xp = array_namespace(together)
    isolated = xp.concat([features(rows[i : i + 1, :]) for i in range(rows.shape[0])], axis=0)
    # each of the two may be off by the noise
    _expect_within(together, isolated, 2 * _noise(features, rows), "isolated and in a batch")


def check_features_noise(features, rows):
    """In single precision: `noise` bounds the error against double precision.

    It does not apply to features in double precision: nothing more exact is at hand.
    """
    rows = _checked(features, rows)
    if rows.dtype == array_namespace(rows).float64:
        raise InapplicableError("the features are in double precision")
    exact = features(double(rows))
    _expect_within(
        features(rows), exact, _noise(features, rows), "in single and in double precision"
    )


def check_features_frozen(features, rows):
    """Calling changes neither the features nor the rows, and results share no memory with them."""
    rows = _checked(features, rows)
    kept = array_namespace(rows).asarray(rows, copy=True)
    first = features(rows)
    again = array_namespace(first).asarray(first, copy=True)
    first[:, :] = -1.0
    features(rows[:1, :] * 2)
    expect(equal(rows, kept), "expected the rows to stay as they were: copy before writing")
    expect(equal(features(rows), again), "expected the same features at every call")


def check_features_state(features, rows):
    """`from_state(state())` gives the same features to the last bit, from plain values."""
    rows = _checked(features, rows)
    state = features.state()
    odd = [name for name, value in state.items() if not _plain(value)]
    expect(not odd, f"expected arrays, numbers and text in the state; {odd} are something else")
    expect(
        equal(features(rows), type(features).from_state(state)(rows)),
        "expected from_state(state()) to give the same features",
    )


def check_features_on(features, rows):
    """`on` an array of the same library and device changes nothing."""
    rows = _checked(features, rows)
    moved = features.on(features.like)
    expect(equal(moved(rows), features(rows)), "expected on(like) to give the same features")


def check_features_memory(features, rows):
    """`nbytes` is the same before and after use."""
    before = features.nbytes
    features(_checked(features, rows))
    expect(before == features.nbytes, f"expected {before} bytes, found {features.nbytes}")


CHECKS = (
    check_features_width,
    check_features_finite,
    check_features_precision,
    check_features_noise_shape,
    check_features_row_wise,
    check_features_noise,
    check_features_frozen,
    check_features_state,
    check_features_on,
    check_features_memory,
)


def _checked(features, rows):
    return as_rows(rows, like=features.like, width=features.inputs)


def _noise(features, rows):
    return to_numpy(features.noise(rows, features(rows)))


def _expect_within(left, right, noise, where):
    """Every row's difference is at most `noise` times its length; underflow to 0 is not counted."""
    tiny = array_namespace(left).finfo(left.dtype).smallest_normal * left.shape[1] ** 0.5
    left, right = to_numpy(double(left)), to_numpy(double(right))
    apart = np.linalg.norm(left - right, axis=1)
    allowed = noise * np.linalg.norm(right, axis=1) + float(tiny)
    worst = int(np.argmax(apart - allowed))
    expect(
        apart[worst] <= allowed[worst],
        f"row {worst} {where} differs by {apart[worst]:.3g}; expected at most its noise, "
        f"{allowed[worst]:.3g}",
    )


def _plain(value):
    plain = value is None or isinstance(value, bool | int | float | str)
    return plain or bool(is_array_api_obj(value))
