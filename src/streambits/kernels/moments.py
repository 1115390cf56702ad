"""Means and sums of products, in one pass each."""

from typing import Any

import numpy as np

from streambits.kernels import compiled

GROUP = 8  # rows that are summed in single precision; equal ones are summed without error


@compiled
def centre(rows: Any, mean: Any) -> None:
    """Write the mean (width,) of float32 rows (n, width), and subtract it from them, in place.

    The mean is float64, summed in double precision but for groups of 8 rows; it is rounded to
    single precision before it is subtracted.
    """
    count, width = rows.shape
    whole = count - count % GROUP
    mean[:] = 0.0
    for i in range(0, whole, GROUP):
        a, b, c, d = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        e, f, g, h = rows[i + 4], rows[i + 5], rows[i + 6], rows[i + 7]
        for j in range(width):
            one, two = (a[j] + b[j]) + (c[j] + d[j]), (e[j] + f[j]) + (g[j] + h[j])
            mean[j] += one + two
    for i in range(whole, count):
        a = rows[i]
        for j in range(width):
            mean[j] += a[j]
    rounded = np.empty(width, np.float32)
    for j in range(width):
        mean[j] /= count
        rounded[j] = mean[j]
    for i in range(count):
        a = rows[i]
        for j in range(width):
            a[j] -= rounded[j]


@compiled
def add_scatter(total: Any, scatter: Any, step: Any) -> float:
    """Add scatter + step step' to the total, all (width, width), and return scatter's trace."""
    trace = 0.0
    for i in range(len(step)):
        own, more, out = step[i], scatter[i], total[i]
        trace += more[i]
        for j in range(len(step)):
            out[j] += more[j] + own * step[j]
    return trace
