"""Proportions: whether the stream still has the same mixture of rows.

Where one kind of row becomes rare and another common, and both have landmarks, rows come as close
to landmarks as before; what changes is the mean of their affinities to all of them, the kernel mean
embedding, which tells any two distributions apart as far as the landmarks can. Its 32 largest
principal components are kept, brought to unit variance.

The test bets, as that of `streambits.epochs.detector` does. After a burn-in of 2048 measured rows
of the epoch (16,384 of the stream), a direction is chosen every 8 measurements, from the mean of
recent rows; the rows that follow are scored by how far they lie along it, and the bet is that the
mean score is higher than among the rows of the burn-in. The e-values, and so the promise of
`Evidence`, need three things:

- Direction and bound are known before the rows on which they bet: given the past, the mean of
  1 + bet (score - bound) is at most 1 as long as the mean score is at most the bound.
- No score is so low that a stake could fall below 0: scores are clipped.
- The bound is at least the mean score to expect. That is estimated from half of the burn-in, and
  the direction from the other half and the rows after it: as long as there is no change, these are
  independent, so the error along the direction is that of a mean of 1024 numbers, however many
  components there are. The tolerance of a quarter of a standard deviation is 8 standard errors of
  that mean, by which also small changes, not worth a new epoch, go unnoticed.

Rows must be drawn independently for that: a stream whose mixture wanders all the time does change,
and alarms say so, at most one per burn-in.

References
----------
Shekhar & Ramdas, "Nonparametric Two-Sample Testing by Betting", 2023.
Muandet, Fukumizu, Sriperumbudur & Schoelkopf, "Kernel Mean Embedding of Distributions", 2017.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, array_namespace, is_numpy_array
from streambits.epochs.detector import SAMPLED, TOLERANCE, Evidence
from streambits.kernels.embedding import DetectorState, Plan, bet_on_means

COMPONENTS = 32  # at most, of the affinities
ROWS_EACH = 4  # rows from which a component is found, at least
SMALLEST = 1e-3  # of the largest standard deviation: that of a component, at least
PLAN = Plan(burn_in=32, stretch=8, clip=3.0, tolerance=TOLERANCE, bet=0.25)
REFERENCE = PLAN.burn_in // 2 * SAMPLED  # rows by which the mean score to expect is estimated


def principal_components(affinities: NDArray[np.float64]) -> NDArray[np.float32]:
    """Find what turns affinities into numbers of unit variance.

    Parameters
    ----------
    affinities : array of shape (n, m)
        Of rows like those to come.

    Returns
    -------
    array of shape (m, k)
        k is at most 32 and a quarter of n. Equal affinities give one component, all 0.
    """
    centred = affinities - affinities.mean(axis=0)
    variances, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    spreads = np.sqrt(np.maximum(variances[::-1], 0))
    most = max(1, min(COMPONENTS, len(centred) // ROWS_EACH))
    count = int((spreads[:most] > SMALLEST * spreads[0]).sum())
    if not count:
        return np.zeros((affinities.shape[1], 1), np.float32)
    found = vectors[:, ::-1][:, :count] / spreads[:count]
    return np.ascontiguousarray(found, np.float32)


class ProportionDetector(Evidence):
    """Evidence that the mean embedding of a stream has moved, in any direction.

    Parameters
    ----------
    components : array of shape (m, k)
        From affinities to k numbers, of about unit variance.

    Notes
    -----
    Costs one product of 64 x m x k per measurement, and a pass over 1024 x k numbers every 8.
    Memory: m x k numbers for the components and 1024 x k for the reference.

    Examples
    --------
    >>> rng, detector = np.random.default_rng(0), ProportionDetector(np.eye(2, dtype="f4"))
    >>> def stream(share, count):
    ...     return (rng.random((count, 1, 64)) < [[share], [1 - share]]).astype(float)
    >>> any(detector.add(gain) > 13.8 for gain in detector.gains(stream(0.9, 500)))
    False
    >>> any(detector.add(gain) > 13.8 for gain in detector.gains(stream(0.1, 40)))
    True
    """

    def __init__(self, components: Array) -> None:
        super().__init__()
        self.components = components
        width = int(components.shape[1])
        self.count = 0  # measurements so far
        reference = np.zeros((width, REFERENCE), np.float32)
        self._held = DetectorState(np.zeros((3, width)), reference, np.zeros(width + 2))

    @property
    def changed(self) -> int:
        """Measurements since the change: also those by which the direction was chosen."""
        return self.since + PLAN.stretch

    @property
    def nbytes(self) -> int:
        """Bytes held, at most: for as many components as there may be."""
        marks = int(self.components.shape[0])
        return COMPONENTS * (4 * marks + 4 * REFERENCE + 8 * 4) + 16

    def fresh(self) -> Self:
        """Return a detector of the same components that has seen nothing."""
        return type(self)(self.components)

    def embed(self, affinities: Array) -> Array:
        """Embed rows of measurements: from affinities (n, 64, m) to (n, k, 64).

        On a device the product is that of the transposed: its result then lies as it is used, and
        is not put in order on the host, which would take longer than all else.
        """
        xp = array_namespace(affinities)
        components = xp.astype(self.components, affinities.dtype, copy=False)
        if is_numpy_array(affinities):
            return xp.matrix_transpose(affinities @ components)
        return xp.matmul(components.T, xp.matrix_transpose(affinities))

    def gains(self, values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """What measurements add to the evidence, which also learns from them.

        Parameters
        ----------
        values : array of shape (n, k, 64)
            Embedded rows, on the host.

        Returns
        -------
        array of shape (n,)
            0 in the burn-in, and while there is no direction yet.
        """
        values = np.ascontiguousarray(values, np.float32)
        gains: NDArray[np.float64] = bet_on_means(values, self.count, self._held, PLAN)
        self.count += len(values)
        return gains

    def state(self) -> dict[str, Any]:
        """Return the contents by name, as copies, for `from_state`."""
        return {
            "components": self.components,
            "count": self.count,
            "host": {name: array.copy() for name, array in self._held._asdict().items()},
            "evidence": self.evidence,
            "since": self.since,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a detector from what `state` returned; ValueError if arrays do not fit.

        A kernel uses the count and the shapes as addresses.
        """
        self = cls(state["components"])
        self.count, self.evidence, self.since = state["count"], state["evidence"], state["since"]
        if type(self.count) is not int or self.count < 0:
            raise ValueError(f"a detector has seen {self.count} measurements")
        for name, array in self._held._asdict().items():
            found = state["host"][name]
            if found.shape != array.shape:
                raise ValueError(f"{name} of a detector is {found.shape}, not {array.shape}")
            array[...] = found
        return self
