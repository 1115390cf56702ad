"""Checks of features: what `features.base.Features` promises, one named check a promise.

Every check takes the features and some rows (n, inputs), and raises an AssertionError that says
what was expected.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from streambits._arrays import Array, array_namespace, as_rows, double, is_array_api_obj, to_numpy
from streambits.checks._compare import equal, expect
from streambits.features import Features


def check_width(features: Features, rows: Array) -> None:
    """Every row of `inputs` columns becomes one of `width` columns."""
    given = features(_checked(features, rows))
    wanted = (len(rows), features.width)
    expect(given.shape == wanted, f"expected features of shape {wanted}, got {given.shape}")


def check_finite(features: Features, rows: Array) -> None:
    """Features of finite rows are finite."""
    given = to_numpy(features(_checked(features, rows)))
    bad = np.flatnonzero(~np.isfinite(given).all(axis=1))
    expect(not len(bad), f"expected finite features; row {bad[:1]} has some that are not")


def check_precision(features: Features, rows: Array) -> None:
    """Features come in the precision of the rows or a better one."""
    rows = _checked(features, rows)
    given, xp = features(rows), array_namespace(rows)
    expect(
        xp.finfo(given.dtype).bits >= xp.finfo(rows.dtype).bits,
        f"expected features at least as precise as the rows ({rows.dtype}), got {given.dtype}",
    )


def check_noise_shape(features: Features, rows: Array) -> None:
    """`noise` is one finite bound a row, zero or more."""
    noise = to_numpy(features.noise(_checked(features, rows)))
    expect(noise.shape == (len(rows),), f"expected one noise a row, got shape {noise.shape}")
    expect(np.isfinite(noise).all() and (noise >= 0).all(), "expected noise from 0 to finite")


def check_row_wise(features: Features, rows: Array) -> None:
    """What a row becomes does not depend on the rows beside it, up to twice the noise."""
    rows = _checked(features, rows)
    together = features(rows)
    xp = array_namespace(together)
    alone = xp.concat([features(rows[i : i + 1, :]) for i in range(rows.shape[0])], axis=0)
    # each of the two may be off by the noise
    _expect_within(together, alone, 2 * to_numpy(features.noise(rows)), "alone and in a batch")


def check_noise(features: Features, rows: Array) -> None:
    """In single precision: `noise` bounds the error against double precision.

    Features whose rows are double have nothing more exact to be held against.
    """
    rows = _checked(features, rows)
    if rows.dtype == array_namespace(rows).float64:
        return
    exact, noise = features(double(rows)), to_numpy(features.noise(rows))
    _expect_within(features(rows), exact, noise, "in single and in double precision")


def check_frozen(features: Features, rows: Array) -> None:
    """Calling changes neither the features nor the rows, and results share no memory with them."""
    rows = _checked(features, rows)
    kept = array_namespace(rows).asarray(rows, copy=True)
    first = features(rows)
    again = array_namespace(first).asarray(first, copy=True)
    first[:, :] = -1.0
    features(rows[:1, :] * 2)
    expect(equal(rows, kept), "expected the rows to stay as they were: copy before writing")
    expect(equal(features(rows), again), "expected the same features at every call")


def check_state(features: Features, rows: Array) -> None:
    """`from_state(state())` gives the same features to the last bit, from plain values."""
    rows = _checked(features, rows)
    state = features.state()
    odd = [name for name, value in state.items() if not _plain(value)]
    expect(not odd, f"expected arrays, numbers and text in the state; {odd} are something else")
    expect(
        equal(features(rows), type(features).from_state(state)(rows)),
        "expected from_state(state()) to give the same features",
    )


def check_on(features: Features, rows: Array) -> None:
    """`on` an array of the same library and device changes nothing."""
    rows = _checked(features, rows)
    moved = features.on(features.like)
    expect(equal(moved(rows), features(rows)), "expected on(like) to give the same features")


def check_memory(features: Features, rows: Array) -> None:
    """`nbytes` is the same before and after use."""
    before = features.nbytes
    features(_checked(features, rows))
    expect(before == features.nbytes, f"expected {before} bytes, found {features.nbytes}")


CHECKS: tuple[Callable[[Features, Array], None], ...] = (
    check_width,
    check_finite,
    check_precision,
    check_noise_shape,
    check_row_wise,
    check_noise,
    check_frozen,
    check_state,
    check_on,
    check_memory,
)


def _checked(features: Features, rows: Array) -> Array:
    return as_rows(rows, like=features.like, width=features.inputs)


def _expect_within(left: Array, right: Array, noise: Any, where: str) -> None:
    """Every row's difference is at most `noise` times its length; underflow to 0 is no error."""
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


def _plain(value: object) -> bool:
    plain = value is None or isinstance(value, bool | int | float | str)
    return plain or bool(is_array_api_obj(value))
