"""Principal components of a sample: what several features start from."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, array_namespace, as_rows, double, to_numpy
from streambits._threads import one_blas_thread
from streambits.errors import InputError

TOLERANCE = 1e-12  # of the largest variance; below it there is rounding and nothing else
LEAST = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)  # below, digits are lost


class Centred(NamedTuple):
    """rows: (m, d), minus their mean, in double precision on the host.

    centre: (d,), the mean in the library and precision of the sample. lag: (d,), the true mean
    minus that rounded centre.
    """

    rows: NDArray[np.float64]
    centre: Array
    lag: NDArray[np.float64]

    def shift(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """What (x - centre) . vectors has too much, beside (x - mean) . vectors."""
        return -(self.lag @ vectors)


class Principal(NamedTuple):
    """vectors: (d, p), orthonormal, largest variance first; values: (m, p), rows . vectors."""

    vectors: NDArray[np.float64]
    values: NDArray[np.float64]


def centred(sample: Array) -> Centred:
    """A sample relative to its mean, which is taken in double precision."""
    sample = as_rows(sample, name="sample")
    xp = array_namespace(sample)
    mean = xp.mean(double(sample), axis=0)
    centre = xp.astype(mean, sample.dtype)
    lag = to_numpy(mean - double(centre))
    return Centred(to_numpy(double(sample) - mean), centre, lag)


def principal(rows: NDArray[np.float64], most: int | None = None) -> Principal:
    """The principal components of centred rows (m, d), at most `most`, and none without variance.

    The largest entry of each is positive. Costs m d^2 + d^3.
    """
    with one_blas_thread():
        variances, vectors = np.linalg.eigh(rows.T @ rows)
        variances, vectors = variances[::-1], vectors[:, ::-1]
        count = int(np.sum(variances > TOLERANCE * variances[0]))
        # equal rows may differ from their mean by its rounding; small squares have few digits
        if count == 0 or variances[0] < LEAST or not np.ptp(rows, axis=0).any():
            raise InputError(
                "all rows of sample are equal, or nearly 0: pass distinct rows, or scale them"
            )
        vectors = vectors[:, : count if most is None else min(most, count)]
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
        vectors = vectors * np.sign(largest)
        return Principal(vectors, rows @ vectors)
