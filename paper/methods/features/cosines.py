"""Cosines of linear forms: random Fourier features, and three ways to cut space in stripes."""

import math
from typing import Any, Self

import numpy as np

from paper.methods.features.affine import (
    AffineFeatures,
    AffineMap,
    CentredSample,
    checked_vector,
    principal_components,
    relative_noise,
    rounding_unit,
)
from streambits._arrays import (
    Array,
    array_namespace,
    as_count,
    as_number,
    as_rows,
    as_seed,
    nbytes,
    to_device_of,
)
from streambits.features.bandwidth import Bandwidth, denominator, nearest


class Cosines(AffineFeatures):
    """x -> cos((x - centre) . frequencies + phases) + offsets.

    Parameters
    ----------
    frequencies : array of shape (d, k)
        Direction and angular frequency of each cosine.
    phases : array of shape (k,)
        Its angle at the centre.
    offsets : array of shape (k,), optional
        What is added to each cosine; zeros by default.
    centre : array of shape (d,), optional
        Subtracted from the rows, which are brought to its precision and library; zeros by default.

    Notes
    -----
    A block of n rows costs n d k multiplications and n k cosines. A common offset of all rows
    costs no precision, since the centre is subtracted first.

    Examples
    --------
    >>> Cosines(np.array([[np.pi]]), np.array([0.0]), np.array([0.5]))(np.array([[0.0], [1.0]]))
    array([[ 1.5], [-0.5]])
    """

    def __init__(
        self, frequencies: Array, phases: Array, offsets: Array = None, centre: Array = None
    ) -> None:
        frequencies = as_rows(frequencies, name="frequencies")
        zero = array_namespace(frequencies).zeros_like(frequencies)
        self._affine = AffineMap(frequencies, phases, zero[:, 0] if centre is None else centre)
        offsets = zero[0, :] if offsets is None else offsets
        self.offsets = checked_vector(offsets, self.like, self.width, "offsets")

    @classmethod
    def random(
        cls,
        sample: Array,
        count: int,
        bandwidth: Bandwidth | float | None = None,
        seed: int | np.random.Generator = 0,
        *,
        spread: float = 0.0,
    ) -> Self:
        """Draw random Fourier features of exp(-distance^2 / bandwidth).

        Parameters
        ----------
        sample : array of shape (m, d)
            Rows that the bandwidth and the centre come from.
        count : int
            Number of features. The mean product of the features of two rows is half their affinity.
        bandwidth : Bandwidth or float, optional
            Denominator of the affinity; `nearest(30)` by default.
        seed : int or Generator, default 0
            Of the random frequencies, phases and offsets.
        spread : float, default 0
            Offsets are uniform from -spread to spread.

        References
        ----------
        Rahimi & Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.
        """
        around, count = CentredSample.of(sample), as_count(count, "count")
        width = denominator(bandwidth, around.rows)
        rng = np.random.default_rng(as_seed(seed))
        frequencies = rng.standard_normal((around.rows.shape[1], count)) * math.sqrt(2 / width)
        phases = rng.uniform(0, 2 * np.pi, count) + around.shift(frequencies)
        offsets = spread * rng.uniform(-1, 1, count)
        return cls._beside(around.centre, frequencies, phases, offsets)

    @classmethod
    def stable(
        cls,
        sample: Array,
        count: int,
        width: float | None = None,
        seed: int | np.random.Generator = 0,
    ) -> Self:
        """Draw features that are positive where floor((a . x + b) / width) is odd.

        Parameters
        ----------
        sample : array of shape (m, d)
            Rows that the width and the centre come from.
        count : int
            Number of features.
        width : float, optional
            Width of a stripe; by default four times the mean distance to the 30th neighbour.
        seed : int or Generator, default 0
            Of a, which is normal, and b, which is uniform from 0 to `width`.

        Notes
        -----
        x is relative to the mean of `sample`. The parity of floor(u) is the sign of sin(pi u).

        References
        ----------
        Datar, Immorlica, Indyk & Mirrokni, "Locality-Sensitive Hashing Scheme Based on p-Stable
        Distributions", SoCG 2004.
        """
        around, count = CentredSample.of(sample), as_count(count, "count")
        width = 4 * nearest(30).distance(around.rows) if width is None else width
        width = as_number(width, "width", above=0)
        rng = np.random.default_rng(as_seed(seed))
        frequencies = rng.standard_normal((around.rows.shape[1], count)) * (np.pi / width)
        phases = np.pi * rng.uniform(0, 1, count) + np.pi / 2 + around.shift(frequencies)
        return cls._beside(around.centre, frequencies, phases, np.zeros(count))

    @classmethod
    def box(cls, sample: Array, count: int) -> Self:
        """Choose the smoothest eigenfunctions of a uniform box.

        Parameters
        ----------
        sample : array of shape (m, d)
            The box holds these rows along their principal components, at most `count` of them.
        count : int
            Number of functions: cos(w (x_i - low_i)) with w = mode pi / range_i, of the smallest w.

        References
        ----------
        Weiss, Torralba & Fergus, "Spectral Hashing", NIPS 2008.
        """
        around, count = CentredSample.of(sample), as_count(count, "count")
        vectors, values = principal_components(around.rows, count)
        low, ranges = values.min(axis=0), np.ptp(values, axis=0)
        modes = np.ceil((count + 1) * ranges / ranges.max()).astype(int)
        which = np.repeat(np.arange(len(ranges)), modes)
        mode = np.concatenate([np.arange(1, most + 1) for most in modes])
        angular = mode * np.pi / ranges[which]
        kept = np.argsort(angular, kind="stable")[:count]
        which, angular = which[kept], angular[kept]
        frequencies = vectors[:, which] * angular
        phases = around.shift(frequencies) - low[which] * angular
        return cls._beside(around.centre, frequencies, phases, np.zeros(count))

    @classmethod
    def _beside(cls, centre: Array, *arrays: Array) -> Self:
        frequencies, phases, offsets = (to_device_of(array, centre) for array in arrays)
        return cls(frequencies, phases, offsets, centre)

    @property
    def frequencies(self) -> Array:
        """One column per cosine, of shape (d, k)."""
        return self._affine.vectors

    @property
    def phases(self) -> Array:
        """One per cosine, of shape (k,), for rows relative to the centre."""
        return self._affine.shifts

    @property
    def nbytes(self) -> int:
        return self._affine.nbytes + nbytes(self.offsets)

    def __call__(self, rows: Array) -> Array:
        angles = self._affine(rows)
        xp = array_namespace(angles)
        return xp.cos(angles) + xp.astype(self.offsets, angles.dtype, copy=False)

    def noise(self, rows: Array, features: Array) -> Array:
        """The error of a cosine is that of its angle, and a few units of its own; at most 2."""
        xp = array_namespace(rows)
        angles = self._affine.error(rows, xp.ones_like(self.phases))
        error = angles + 8 * rounding_unit(rows) * self.width**0.5
        return relative_noise(xp.clip(error, 0, 4 * self.width**0.5), features)

    def state(self) -> dict[str, Any]:
        names = ("frequencies", "phases", "offsets", "centre")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return f"Cosines({self.width} of {self.inputs} columns)"
