"""Metrics: what a model takes as near, and rows of length one, by which it compares angles."""

from typing import Any

from streambits._arrays import Array, array_namespace, blocks, double
from streambits.kernels.decode import METRICS

EUCLIDEAN, INNER, COSINE = METRICS
BLOCK = 4096  # rows at a time, which are in double precision then
DOUBT = 64  # units of rounding by which the square of a length of one may be off
FAINT, LIFT = 1e-200, 2.0**600  # a square that may have lost digits, and a factor that saves them


def unit_rows(rows: Array) -> Array:
    """Divide rows by their lengths.

    Parameters
    ----------
    rows : array of shape (n, d)
        Checked rows.

    Returns
    -------
    array of shape (n, d)
        In the precision of the rows, computed in double. Rows whose length is one but for rounding
        stay as they are, so that this changes nothing when it is done again, and the same array is
        returned if all do. Rows of zeros have no direction, and stay too, at distance 1 from all
        others: leave them out where you can.

    Examples
    --------
    >>> import numpy as np
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, -1.0]]))
    array([[ 0.6,  0.8], [ 0. ,  0. ], [ 0. , -1. ]])
    """
    parts = blocks(rows, BLOCK)
    found = [_unit(part) for part in parts]
    if all(new is old for new, old in zip(found, parts, strict=True)):
        return rows
    return array_namespace(rows).concat(found, axis=0)


def compared(rows: Array, metric: str) -> Array:
    """Return checked rows as a model of this metric compares them: for "cosine" of length one."""
    return unit_rows(rows) if metric == COSINE else rows


def _unit(rows: Array) -> Array:
    xp = array_namespace(rows)
    values = double(rows)
    squares = xp.sum(values * values, axis=1)
    off = xp.abs(squares - 1) > DOUBT * float(xp.finfo(rows.dtype).eps)
    if not bool(xp.any(off)):
        return rows
    lifted = xp.where((squares < FAINT)[:, None], values * LIFT, values)
    lengths = xp.sqrt(xp.sum(lifted * lifted, axis=1))
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    unit = xp.where(off[:, None], lifted / lengths[:, None], values)
    return xp.astype(unit, rows.dtype)


def metric_state(metric: str) -> dict[str, Any]:
    """What a file says of a metric: nothing of the usual one, as before there were others."""
    return {} if metric == EUCLIDEAN else {"metric": metric}
