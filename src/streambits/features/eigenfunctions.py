"""Eigenfunctions of a separable density, in tables along the principal components."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, array_namespace, as_count, as_rows, beside, device, nbytes
from streambits.errors import InputError
from streambits.features.bandwidth import Bandwidth
from streambits.features.forms import Forms, OnForms, relative_noise, unit
from streambits.features.separable import Separable

LEAST_WEIGHT = 0.1  # of the largest: a weaker function does not deserve a bit


class Eigenfunctions(OnForms):
    """x -> table_j at place (x - centre) . vectors_j + shifts_j, between entries interpolated.

    Place 0 is the first entry of a table, and the function is constant beyond both ends. n rows
    cost n d k multiplications and n k look-ups.

    vectors: (d, k); shifts: (k,); tables: (bins, k), bins >= 2; centre: (d,), zeros by default,
    whose precision and library rows are brought to. weights: (k,), how much each counts, ones by
    default. groups: (k,) whole numbers, the dimension each belongs to.

    >>> ramp = Eigenfunctions(np.array([[1.0]]), np.array([0.0]), np.array([[0.0], [2.0]]))
    >>> ramp(np.array([[-3.0], [0.25], [3.0]])).ravel()
    array([0. , 0.5, 2. ])
    """

    def __init__(
        self,
        vectors: Array,
        shifts: Array,
        tables: Array,
        centre: Array = None,
        *,
        weights: NDArray[np.float64] | None = None,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        vectors = as_rows(vectors, name="vectors")
        xp = array_namespace(vectors)
        centre = xp.zeros_like(vectors[:, 0]) if centre is None else centre
        self._forms = Forms(vectors, shifts, centre)
        self.tables = as_rows(tables, like=self.vectors, width=self.width, name="tables")
        if self.bins < 2:
            raise InputError("a table has 1 entry; interpolation needs at least 2")
        self.weights = np.ones(self.width) if weights is None else np.asarray(weights)
        self.groups = np.zeros(self.width, np.int64) if groups is None else np.asarray(groups)
        if self.weights.shape != (self.width,) or self.groups.shape != (self.width,):
            raise InputError(f"weights and groups must be {self.width} numbers, one a function")
        flat = xp.reshape(self.tables, (-1,))
        self._flat = {dtype: xp.astype(flat, dtype) for dtype in (centre.dtype, flat.dtype)}
        self._columns = xp.arange(self.width, dtype=xp.int64, device=device(centre))

    @classmethod
    def smoothest(
        cls,
        sample: Array,
        count: int,
        bandwidth: Bandwidth | float | None = None,
        *,
        most: int | None = None,
        constant: bool = False,
    ) -> Self:
        """Those of the smallest eigenvalues (Fergus, Weiss & Torralba 2009); weight 1 - eigenvalue.

        bandwidth: denominator of the affinity exp(-distance^2 / bandwidth), `nearest(30)` by
        default. most: take up to that many where there are more than `count`. constant: put the
        function that is 1 everywhere in front.
        """
        found = Separable.of(sample, bandwidth)
        count = found.check(as_count(count, "count"))
        chosen = found.order[: max(count, most or 0)]
        built = found.build(chosen, np.zeros(len(chosen)), found.weights[chosen])
        return cls._with_constant(built) if constant else cls(**built)

    @classmethod
    def heaviest(
        cls, sample: Array, count: int, bandwidth: Bandwidth | float | None = None
    ) -> Self:
        """Those of the largest weights, each minus its median (Weiss, Fergus & Torralba 2012).

        A weight is 1 - eigenvalue, relative to the largest. If fewer than `count` exceed 0.1,
        these are repeated, minus evenly spaced percentiles in place of the median, and the weight
        of a function is shared out among its repetitions.
        """
        found = Separable.of(sample, bandwidth)
        found.check(1)
        count = as_count(count, "count")
        weights = found.weights / found.weights.max()
        heavy = found.order[: min(count, int(np.sum(weights > LEAST_WEIGHT)))]
        times = np.full(len(heavy), count // len(heavy))
        times[: count % len(heavy)] += 1
        shares = np.concatenate([np.arange(1, n + 1) / (n + 1) for n in times])
        chosen = np.repeat(heavy, times)
        cuts = np.array([np.quantile(found.values(int(i)), s) for i, s in zip(chosen, shares)])
        return cls(**found.build(chosen, cuts, weights[chosen] / np.repeat(times, times)))

    @classmethod
    def _with_constant(cls, built: dict[str, Any]) -> Self:
        """A function that is 1 everywhere in front of the others, in a group of its own."""
        xp = array_namespace(built["vectors"])
        for name in ("vectors", "shifts", "tables"):
            first = xp.zeros_like(built[name][..., :1]) + (1.0 if name == "tables" else 0.0)
            built[name] = xp.concat([first, built[name]], axis=-1)
        built["weights"] = np.concatenate([[1.0], built["weights"]])
        built["groups"] = np.concatenate([[-1], built["groups"]])
        return cls(**built)

    @property
    def vectors(self) -> Array:
        return self._forms.vectors

    @property
    def shifts(self) -> Array:
        return self._forms.shifts

    @property
    def bins(self) -> int:
        return int(self.tables.shape[0])

    @property
    def nbytes(self) -> int:
        host = self.weights.nbytes + self.groups.nbytes + 8 * self.width
        return self._forms.nbytes + nbytes(self.tables, *self._flat.values()) + host

    def __call__(self, rows: Array) -> Array:
        places = self._forms(rows)
        xp = array_namespace(places)
        places = xp.clip(places, 0, self.bins - 1)
        below = xp.clip(xp.floor(places), 0, self.bins - 2)
        index = xp.reshape(xp.astype(below, xp.int64) * self.width + self._columns, (-1,))
        table = self._flat[places.dtype]
        left, right = xp.take(table, index, axis=0), xp.take(table, index + self.width, axis=0)
        left, right = xp.reshape(left, places.shape), xp.reshape(right, places.shape)
        return left + (places - below) * (right - left)

    def noise(self, rows: Array, features: Array) -> Array:
        """The error of a place times the steepest slope, and a few units of the largest entry."""
        xp = array_namespace(rows)
        slope = xp.max(xp.abs(self.tables[1:, :] - self.tables[:-1, :]), axis=0)
        size = float(xp.sqrt(xp.sum(xp.max(xp.abs(self.tables), axis=0) ** 2)))
        error = self._forms.error(rows, slope) + 8 * unit(rows) * size
        return relative_noise(xp.clip(error, 0, 4 * size), features)

    def on(self, like: Array) -> Self:
        names = ("vectors", "shifts", "tables", "centre")
        moved = {name: beside(getattr(self, name), like) for name in names}
        return self.from_state({**self.state(), **moved})

    def state(self) -> dict[str, Any]:
        names = ("vectors", "shifts", "tables", "centre", "weights", "groups")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)

    def __repr__(self) -> str:
        return f"Eigenfunctions({self.width} of {self.inputs} columns, {self.bins} bins)"
