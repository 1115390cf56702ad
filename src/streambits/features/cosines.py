"""Cosines of linear forms: random Fourier features, and three ways to cut space in stripes."""

import math
from typing import Any, Self

import numpy as np

from streambits._arrays import (
    Array,
    array_namespace,
    as_count,
    as_number,
    as_rows,
    as_seed,
    beside,
    nbytes,
)
from streambits.features.bandwidth import Bandwidth, denominator, nearest
from streambits.features.forms import Forms, OnForms, relative_noise, unit, vector
from streambits.features.principal import centred, principal


class Cosines(OnForms):
    """x -> cos((x - centre) . frequencies + phases) + offsets.

    A block of n rows costs n d k multiplications and n k cosines. A common offset of all rows
    costs no precision, since the centre (the mean of the centred_sample) is subtracted first.

    frequencies: (d, k); phases: (k,); offsets: (k,), zeros by default; centre: (d,), zeros by
    default, whose precision and library rows are brought to.

    >>> Cosines(np.array([[np.pi]]), np.array([0.0]), np.array([0.5]))(np.array([[0.0], [1.0]]))
    array([[ 1.5], [-0.5]])
    """

    def __init__(
        self, frequencies: Array, phases: Array, offsets: Array = None, centre: Array = None
    ) -> None:
        frequencies = as_rows(frequencies, name="frequencies")
        zero = array_namespace(frequencies).zeros_like(frequencies)
        self._forms = Forms(frequencies, phases, zero[:, 0] if centre is None else centre)
        offsets = zero[0, :] if offsets is None else offsets
        self.offsets = vector(offsets, self.like, self.width, "offsets")

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
        """Random Fourier features of exp(-distance^2 / bandwidth) (Rahimi & Recht 2007).

        The mean product of the features of two rows is half their affinity. sample: (m, d), the
        centred_sample that `bandwidth` (`nearest(30)` by default) and the centre come from. spread:
        offsets are uniform from -spread to spread, 0 for none.
        """
        centred_sample, count = centred(sample), as_count(count, "count")
        width = denominator(bandwidth, centred_sample.rows)
        rng = np.random.default_rng(as_seed(seed))
        frequencies = rng.standard_normal((centred_sample.rows.shape[1], count)) * math.sqrt(
            2 / width
        )
        phases = rng.uniform(0, 2 * np.pi, count) + centred_sample.shift(frequencies)
        offsets = spread * rng.uniform(-1, 1, count)
        return cls._beside(centred_sample.centre, frequencies, phases, offsets)

    @classmethod
    def stable(
        cls,
        sample: Array,
        count: int,
        width: float | None = None,
        seed: int | np.random.Generator = 0,
    ) -> Self:
        """Positive where floor((a . x + b) / width) is odd (Datar et al. 2004).

        a is normal, b uniform from 0 to `width`, x relative to the mean of `sample`. The parity of
        floor(u) is the sign of sin(pi u). width: 4 sigma_30 of `sample` by default.
        """
        centred_sample, count = centred(sample), as_count(count, "count")
        width = 4 * nearest(30).distance(centred_sample.rows) if width is None else width
        width = as_number(width, "width", above=0)
        rng = np.random.default_rng(as_seed(seed))
        frequencies = rng.standard_normal((centred_sample.rows.shape[1], count)) * (np.pi / width)
        phases = np.pi * rng.uniform(0, 1, count) + np.pi / 2 + centred_sample.shift(frequencies)
        return cls._beside(centred_sample.centre, frequencies, phases, np.zeros(count))

    @classmethod
    def box(cls, sample: Array, count: int) -> Self:
        """The smoothest eigenfunctions of a uniform box (Weiss, Torralba & Fergus 2008).

        The box holds `sample` along its principal components, at most `count`; the functions are
        cos(w (x_i - low_i)), w = mode pi / range_i, those of the `count` smallest w.
        """
        centred_sample, count = centred(sample), as_count(count, "count")
        vectors, values = principal(centred_sample.rows, count)
        low, ranges = values.min(axis=0), np.ptp(values, axis=0)
        modes = np.ceil((count + 1) * ranges / ranges.max()).astype(int)
        which = np.repeat(np.arange(len(ranges)), modes)
        mode = np.concatenate([np.arange(1, most + 1) for most in modes])
        angular = mode * np.pi / ranges[which]
        kept = np.argsort(angular, kind="stable")[:count]
        which, angular = which[kept], angular[kept]
        frequencies = vectors[:, which] * angular
        phases = centred_sample.shift(frequencies) - low[which] * angular
        return cls._beside(centred_sample.centre, frequencies, phases, np.zeros(count))

    @classmethod
    def _beside(cls, centre: Array, *parts: Array) -> Self:
        frequencies, phases, offsets = (beside(part, centre) for part in parts)
        return cls(frequencies, phases, offsets, centre)

    @property
    def frequencies(self) -> Array:
        return self._forms.vectors

    @property
    def phases(self) -> Array:
        return self._forms.shifts

    @property
    def nbytes(self) -> int:
        return self._forms.nbytes + nbytes(self.offsets)

    def __call__(self, rows: Array) -> Array:
        angles = self._forms(rows)
        xp = array_namespace(angles)
        return xp.cos(angles) + xp.astype(self.offsets, angles.dtype, copy=False)

    def noise(self, rows: Array, features: Array) -> Array:
        """The error of a cosine is that of its angle, and a few units of its own; at most 2."""
        xp = array_namespace(rows)
        angles = self._forms.error(rows, xp.ones_like(self.phases))
        error = angles + 8 * unit(rows) * self.width**0.5
        return relative_noise(xp.clip(error, 0, 4 * self.width**0.5), features)

    def on(self, like: Array) -> Self:
        return self.from_state({name: beside(part, like) for name, part in self.state().items()})

    def state(self) -> dict[str, Any]:
        names = ("frequencies", "phases", "offsets", "centre")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)

    def __repr__(self) -> str:
        return f"Cosines({self.width} of {self.inputs} columns)"
