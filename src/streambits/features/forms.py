"""Linear forms of rows, and the rounding that they bring: shared by features built on them."""

from typing import Any

import numpy as np

from streambits._arrays import Array, array_namespace, as_rows, beside, double, nbytes, zeros

LARGEST_NOISE = 1e9


class Forms:
    """x -> (x - centre) . vectors + shifts, for rows (n, d) to values (n, k).

    Rows are taken relative to the centre first, so a common offset, however large, costs no
    precision. Rows too large for single precision give values in double.

    vectors: (d, k); shifts: (k,); centre: (d,), whose library, device and precision rows have.
    """

    def __init__(self, vectors: Array, shifts: Array, centre: Array) -> None:
        self.centre = as_rows(centre[None, :], name="centre", width=vectors.shape[0])[0, :]
        self.vectors = double(as_rows(vectors, like=zeros(1, self.centre), name="vectors"))
        self.shifts = vector(shifts, self.centre, self.count, "shifts")
        self._held: dict[Any, tuple[Array, ...]] = {}
        xp, pair = array_namespace(self.vectors), (self.vectors, self.shifts)
        for dtype in (self.centre.dtype, self.vectors.dtype):
            self._held[dtype] = tuple(xp.astype(part, dtype, copy=False) for part in pair)

    @property
    def inputs(self) -> int:
        return int(self.vectors.shape[0])

    @property
    def count(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def nbytes(self) -> int:
        return nbytes(self.centre, *(part for pair in self._held.values() for part in pair))

    def __call__(self, rows: Array) -> Array:
        xp = array_namespace(rows)
        vectors, shifts = self._held[rows.dtype]
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is done again
            values = self.relative(rows) @ vectors + shifts
        if rows.dtype == xp.float32 and not bool(xp.all(xp.isfinite(values))):
            return self(double(rows))
        return values

    def relative(self, rows: Array) -> Array:
        """Rows minus the centre."""
        return rows - array_namespace(rows).astype(self.centre, rows.dtype, copy=False)

    def reach(self, rows: Array) -> Array:
        """(n,) distances from the centre, at most sqrt(d) too large: these do not overflow."""
        xp = array_namespace(rows)
        with np.errstate(over="ignore"):
            return xp.max(xp.abs(self.relative(rows)), axis=1) * self.inputs**0.5

    def error(self, rows: Array, scale: Array) -> Array:
        """(n,) bounds on the length of the rounding errors of the values, each times its scale.

        A sum of d rounded products errs by about sqrt(d) units of the length of its terms.
        scale: (k,)
        """
        xp = array_namespace(rows)
        lengths = xp.sqrt(xp.sum(self.vectors**2, axis=0))
        sums = 2 * (self.inputs + 2) ** 0.5 * float(xp.sqrt(xp.sum((lengths * scale) ** 2)))
        shifts = 3 * float(xp.sqrt(xp.sum((self.shifts * scale) ** 2)))
        with np.errstate(over="ignore"):
            return unit(rows) * (sums * self.reach(rows) + shifts)

    def on(self, like: Array) -> "Forms":
        return Forms(*(beside(part, like) for part in (self.vectors, self.shifts, self.centre)))

    def state(self) -> dict[str, Any]:
        return {"vectors": self.vectors, "shifts": self.shifts, "centre": self.centre}


class OnForms:
    """What features on linear forms share."""

    _forms: Forms

    @property
    def centre(self) -> Array:
        return self._forms.centre

    @property
    def inputs(self) -> int:
        return self._forms.inputs

    @property
    def width(self) -> int:
        return self._forms.count

    @property
    def like(self) -> Array:
        return self._forms.centre


def unit(rows: Array) -> float:
    """The unit of rounding of these rows."""
    return float(array_namespace(rows).finfo(rows.dtype).eps) / 2


def relative_noise(error: Array, features: Array) -> Array:
    """An error (n,) of features (n, k) relative to their length, as `Features.noise` wants it.

    Where the features are smaller than their error it is above 1: nothing is known of them.
    """
    xp = array_namespace(features)
    error = xp.clip(double(error), 1e-300, 1e300)
    with np.errstate(over="ignore"):
        length = xp.sqrt(xp.vecdot(double(features), double(features)))
    most = xp.full_like(length, LARGEST_NOISE)  # an infinite one would hide in 0 * inf
    noise = error / xp.maximum(length - error, error / LARGEST_NOISE)
    return xp.where(xp.isfinite(length), noise, most)


def vector(values: Array, like: Array, length: int, name: str) -> Array:
    """Check one finite value a column; in double precision, beside `like`."""
    return as_rows(values[None, :], like=zeros(1, like), width=length, name=name)[0, :]
