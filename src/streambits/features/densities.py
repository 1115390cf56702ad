"""The smoothest functions over a one-dimensional density (Fergus, Weiss & Torralba 2009)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CLIPPED = 2.5  # per cent of the values beyond either end of the histogram
MOST_BINS, ROWS_A_BIN, FLOOR = 50, 10, 0.1
CONSTANT = 1e-10  # a smaller eigenvalue is that of a constant

Vector = NDArray[np.float64]


class Modes(NamedTuple):
    """Eigenfunctions at `bins` equally spaced places, smoothest first, without the constant.

    low: the first place; step: to the next. values: (bins, count), of mean square 1 under the
    density, positive at the upper end. eigenvalues: (count,), from 0 (constant) to 1 (noise).
    """

    low: float
    step: float
    values: NDArray[np.float64]
    eigenvalues: Vector


def modes_of(values: Vector, bandwidth: float) -> Modes:
    """Eigenfunctions of the graph Laplacian of exp(-distance^2 / bandwidth) over these values.

    values: (m,). The density is their histogram of min(50, m / 10) bins, 0.1 added to each bin's
    share; values beyond the 2.5th and the 97.5th percentile count at these. Without two
    different percentiles there are none.
    """
    low, high = np.percentile(values, [CLIPPED, 100 - CLIPPED])
    bins = max(2, min(MOST_BINS, len(values) // ROWS_A_BIN))
    step = (high - low) / bins
    if step <= 0 or low + step / 2 == low:
        return Modes(float(low), 1.0, np.zeros((bins, 0)), np.zeros(0))
    places = low + step * (np.arange(bins) + 0.5)
    share = np.histogram(np.clip(values, low, high), bins, (low, high))[0] / len(values) + FLOOR
    return Modes(float(places[0]), float(step), *_solve(places, share / share.sum(), bandwidth))


def _solve(places: Vector, share: Vector, bandwidth: float) -> tuple[Vector, Vector]:
    """Minimise g' (Dt - P W P) g under g' Dt g = 1: Dt, the row sums of P W P, is also P Dh."""
    affinity = np.exp(-((places[:, None] - places) ** 2) / bandwidth)
    joint = share[:, None] * affinity * share
    root = np.sqrt(joint.sum(axis=1))
    eigenvalues, vectors = np.linalg.eigh(np.eye(len(places)) - joint / np.outer(root, root))
    kept = eigenvalues >= CONSTANT
    functions = vectors[:, kept] / root[:, None]
    functions /= np.sqrt(share @ functions**2) * np.where(functions[-1] < 0, -1, 1)
    return functions, eigenvalues[kept]
