"""Eigenfunctions of a density that is a product over the principal components of a sample.

Bottom up: the eigenfunctions of a one-dimensional density (`modes_of`), those of all principal
components together, a choice of them as features in tables (`Eigenfunctions`), and combinations
of them that separate labelled classes (`class_functions`).

References: Fergus, Weiss & Torralba, "Semi-Supervised Learning in Gigantic Image Collections",
NIPS 2009; Weiss, Fergus & Torralba, "Multidimensional Spectral Hashing", ECCV 2012 (`heaviest`).
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from paper.methods.features.affine import (
    AffineFeatures,
    AffineMap,
    CentredSample,
    Matrix,
    PrincipalComponents,
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
    device,
    nbytes,
    to_device_of,
)
from streambits._threads import one_blas_thread
from streambits.errors import InputError
from streambits.features.bandwidth import Bandwidth, denominator

CLIPPED = 2.5  # per cent of the values beyond either end of the histogram
MOST_BINS, ROWS_PER_BIN, FLOOR = 50, 10, 0.1
CONSTANT = 1e-10  # a smaller eigenvalue is that of a constant
LEAST_WEIGHT = 0.1  # of the largest: a weaker function does not deserve a bit
UNKNOWN = -1


class Modes(NamedTuple):
    """Eigenfunctions of a one-dimensional density, smoothest first, without the constant.

    Attributes
    ----------
    low, step : float
        First of the equally spaced places at which they are tabulated, and their distance.
    values : ndarray of shape (bins, count)
        Of mean square 1 under the density, positive at the upper end.
    eigenvalues : ndarray of shape (count,)
        From 0 (constant) to 1 (noise).
    """

    low: float
    step: float
    values: Matrix
    eigenvalues: Matrix


def modes_of(values: Matrix, bandwidth: float) -> Modes:
    """Eigenfunctions of the graph Laplacian of exp(-distance^2 / bandwidth) over these values.

    Parameters
    ----------
    values : ndarray of shape (m,)
        A sample of the density.
    bandwidth : float
        Denominator of the affinity.

    Returns
    -------
    Modes
        For the histogram of the values with min(50, m / 10) bins, 0.1 added to each bin's share;
        values beyond the 2.5th and the 97.5th percentile count at these. If the two percentiles
        are equal, there are no modes.
    """
    low, high = np.percentile(values, [CLIPPED, 100 - CLIPPED])
    bins = max(2, min(MOST_BINS, len(values) // ROWS_PER_BIN))
    step = (high - low) / bins
    if step <= 0 or low + step / 2 == low:
        return Modes(float(low), 1.0, np.zeros((bins, 0)), np.zeros(0))
    places = low + step * (np.arange(bins) + 0.5)
    share = np.histogram(np.clip(values, low, high), bins, (low, high))[0] / len(values) + FLOOR
    functions, eigenvalues = _solve_density(places, share / share.sum(), bandwidth)
    return Modes(float(places[0]), float(step), functions, eigenvalues)


def _solve_density(places: Matrix, share: Matrix, bandwidth: float) -> tuple[Matrix, Matrix]:
    """Minimise g' (Dt - P W P) g under g' Dt g = 1: Dt, the row sums of P W P, is also P Dh."""
    affinity = np.exp(-((places[:, None] - places) ** 2) / bandwidth)
    joint = share[:, None] * affinity * share
    root = np.sqrt(joint.sum(axis=1))
    eigenvalues, vectors = np.linalg.eigh(np.eye(len(places)) - joint / np.outer(root, root))
    kept = eigenvalues >= CONSTANT
    functions = vectors[:, kept] / root[:, None]
    functions /= np.sqrt(share @ functions**2) * np.where(functions[-1] < 0, -1, 1)
    return functions, eigenvalues[kept]


class _Separable(NamedTuple):
    """All eigenfunctions of all principal components of a sample.

    order: their numbers, smoothest first; of each, by its number: dimension, place among the
    modes of that dimension, and weight.
    """

    sample: CentredSample
    components: PrincipalComponents
    modes: list[Modes]
    dimensions: NDArray[np.int64]
    numbers: NDArray[np.int64]
    weights: Matrix
    order: NDArray[np.int64]

    @classmethod
    def of(cls, sample: Array, bandwidth: Bandwidth | float | None) -> "_Separable":
        sample = CentredSample.of(sample)
        width = denominator(bandwidth, sample.rows)
        components = principal_components(sample.rows)
        with one_blas_thread():
            modes = [modes_of(values, width) for values in components.values.T]
        sizes = [len(found.eigenvalues) for found in modes]
        dimensions = np.repeat(np.arange(len(modes)), sizes)
        numbers = np.concatenate([np.arange(size) for size in sizes])
        eigenvalues = np.concatenate([found.eigenvalues for found in modes])
        order = np.argsort(eigenvalues, kind="stable")
        return cls(sample, components, modes, dimensions, numbers, 1 - eigenvalues, order)

    def check(self, count: int) -> int:
        """Refuse a count above the number of eigenfunctions."""
        if count > len(self.order):
            raise InputError(
                f"sample has {len(self.order)} eigenfunctions, and {count} were asked for: ask for "
                f"fewer bits, or pass more rows or a larger bandwidth"
            )
        return count

    def table(self, which: int) -> Matrix:
        return np.asarray(self.modes[self.dimensions[which]].values[:, self.numbers[which]])

    def values(self, which: int) -> Matrix:
        """One eigenfunction, at all rows of the sample."""
        modes = self.modes[self.dimensions[which]]
        places = modes.low + modes.step * np.arange(len(modes.values))
        along = self.components.values[:, self.dimensions[which]]
        return np.interp(along, places, self.table(which))

    def build(self, which: NDArray[np.int64], cuts: Matrix, weights: Matrix) -> dict[str, Any]:
        """The arguments of `Eigenfunctions` for these functions minus these cuts."""
        groups = self.dimensions[which]
        low = np.array([self.modes[i].low for i in groups])
        step = np.array([self.modes[i].step for i in groups])
        vectors = self.components.vectors[:, groups] / step
        shifts = self.sample.shift(vectors) - low / step
        tables = np.stack([self.table(i) for i in which], axis=1) - cuts
        arrays = {"vectors": vectors, "shifts": shifts, "tables": tables}
        moved = {name: to_device_of(array, self.sample.centre) for name, array in arrays.items()}
        return {**moved, "centre": self.sample.centre, "weights": weights, "groups": groups}


class Eigenfunctions(AffineFeatures):
    """x -> table_j at place (x - centre) . vectors_j + shifts_j, between entries interpolated.

    Parameters
    ----------
    vectors : array of shape (d, k)
        Direction along which each function varies.
    shifts : array of shape (k,)
        Place of the centre in each table.
    tables : array of shape (bins, k)
        Values at the places 0, 1, ..., bins - 1; at least two.
    centre : array of shape (d,), optional
        Subtracted from the rows, which are brought to its precision and library; zeros by default.
    weights : ndarray of shape (k,), optional
        How much each function counts; ones by default.
    groups : ndarray of int of shape (k,), optional
        The dimension that each function belongs to; zeros by default.

    Notes
    -----
    A function is constant beyond both ends of its table. n rows cost n d k multiplications and
    n k look-ups.

    Examples
    --------
    >>> ramp = Eigenfunctions(np.array([[1.0]]), np.array([0.0]), np.array([[0.0], [2.0]]))
    >>> ramp(np.array([[-3.0], [0.25], [3.0]])).ravel()
    array([0. , 0.5, 2. ])
    """

    _on_host = ("weights", "groups")

    def __init__(
        self,
        vectors: Array,
        shifts: Array,
        tables: Array,
        centre: Array = None,
        *,
        weights: Matrix | None = None,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        vectors = as_rows(vectors, name="vectors")
        xp = array_namespace(vectors)
        centre = xp.zeros_like(vectors[:, 0]) if centre is None else centre
        self._affine = AffineMap(vectors, shifts, centre)
        self.tables = as_rows(tables, like=self.vectors, width=self.width, name="tables")
        if self.bins < 2:
            raise InputError("a table has 1 entry; interpolation needs at least 2")
        self.weights = np.ones(self.width) if weights is None else np.asarray(weights)
        self.groups = np.zeros(self.width, np.int64) if groups is None else np.asarray(groups)
        if self.weights.shape != (self.width,) or self.groups.shape != (self.width,):
            raise InputError(f"weights and groups must be {self.width} numbers, one per function")
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
        """Choose the functions of the smallest eigenvalues; their weight is 1 - eigenvalue.

        Parameters
        ----------
        sample : array of shape (m, d)
            Rows from which the density is estimated.
        count : int
            Number of functions.
        bandwidth : Bandwidth or float, optional
            Denominator of the affinity exp(-distance^2 / bandwidth); `nearest(30)` by default.
        most : int, optional
            Take up to that many where there are more than `count`.
        constant : bool, default False
            Put the function that is 1 everywhere in front.

        Raises
        ------
        InputError
            If the sample has fewer than `count` eigenfunctions.
        """
        found = _Separable.of(sample, bandwidth)
        count = found.check(as_count(count, "count"))
        which = found.order[: max(count, most or 0)]
        built = found.build(which, np.zeros(len(which)), found.weights[which])
        return cls._with_constant(built) if constant else cls(**built)

    @classmethod
    def heaviest(
        cls, sample: Array, count: int, bandwidth: Bandwidth | float | None = None
    ) -> Self:
        """Choose the functions of the largest weights, each minus its median.

        The parameters are those of `smoothest`.

        Returns
        -------
        Eigenfunctions
            A weight is 1 - eigenvalue, relative to the largest. If fewer than `count` exceed 0.1,
            these are repeated, minus evenly spaced percentiles in place of the median, and the
            weight of a function is shared out among its repetitions.
        """
        found, count = _Separable.of(sample, bandwidth), as_count(count, "count")
        found.check(1)
        weights = found.weights / found.weights.max()
        heavy = found.order[: min(count, int(np.sum(weights > LEAST_WEIGHT)))]
        times = np.full(len(heavy), count // len(heavy))
        times[: count % len(heavy)] += 1
        shares = np.concatenate([np.arange(1, n + 1) / (n + 1) for n in times])
        which = np.repeat(heavy, times)
        cuts = np.array([np.quantile(found.values(int(i)), s) for i, s in zip(which, shares)])
        return cls(**found.build(which, cuts, weights[which] / np.repeat(times, times)))

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
        """Directions along which the functions vary, of shape (d, k)."""
        return self._affine.vectors

    @property
    def bins(self) -> int:
        """Number of entries per table."""
        return int(self.tables.shape[0])

    @property
    def nbytes(self) -> int:
        host = self.weights.nbytes + self.groups.nbytes + 8 * self.width
        return self._affine.nbytes + nbytes(self.tables, *self._flat.values()) + host

    def __call__(self, rows: Array) -> Array:
        places = self._affine(rows)
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
        error = self._affine.error(rows, slope) + 8 * rounding_unit(rows) * size
        return relative_noise(xp.clip(error, 0, 4 * size), features)

    def state(self) -> dict[str, Any]:
        names = ("tables", "centre", "weights", "groups")
        first = {"vectors": self.vectors, "shifts": self._affine.shifts}
        return first | {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return f"Eigenfunctions({self.width} of {self.inputs} columns, {self.bins} bins)"


def class_functions(
    values: Matrix, eigenvalues: Matrix, labels: object, trust: float = 1.0
) -> Matrix:
    """Coefficients alpha of smooth functions f = U alpha that are positive in one class each.

    Parameters
    ----------
    values : ndarray of shape (n, m)
        U, eigenfunctions at n rows.
    eigenvalues : ndarray of shape (m,)
        The diagonal of Sigma.
    labels : sequence of int of length n
        Classes from 0, -1 where unknown.
    trust : float, default 1.0
        Weight of the labels against smoothness.

    Returns
    -------
    ndarray of shape (m, c)
        One column per class; of two classes, one column for both.

    Raises
    ------
    InputError
        If the labels do not fit the rows, or name fewer than two classes.

    Notes
    -----
    For a class, y is +1 in it and -1 in the others, and alpha minimises
    alpha' Sigma alpha + (U alpha - y)' Lambda (U alpha - y). Lambda divides `trust` equally
    between the class and the others, and leaves unlabelled rows out.
    """
    checked, trust = _checked_labels(labels, len(values)), as_number(trust, "trust", above=0)
    classes = np.unique(checked[checked != UNKNOWN])
    if len(classes) < 2:
        raise InputError(f"labels name {len(classes)} class(es); at least 2 can be told apart")
    wanted = classes[1:] if len(classes) == 2 else classes
    return np.stack([_solve_class(values, eigenvalues, checked, c, trust) for c in wanted], axis=1)


def _solve_class(
    values: Matrix, eigenvalues: Matrix, labels: NDArray[np.int64], wanted: int, trust: float
) -> Matrix:
    """(Sigma + U' Lambda U) alpha = U' Lambda y."""
    inside, outside = labels == wanted, (labels != wanted) & (labels != UNKNOWN)
    signs = inside.astype(np.float64) - outside
    weights = trust / 2 * (inside / inside.sum() + outside / outside.sum())
    weighted = values.T * weights
    return np.linalg.solve(np.diag(eigenvalues) + weighted @ values, weighted @ signs)


def _checked_labels(labels: object, count: int) -> NDArray[np.int64]:
    array = np.asarray(labels)
    if array.shape != (count,) or array.dtype.kind not in "iub":
        raise InputError(
            f"labels must be {count} whole numbers, one per row of sample, -1 where unknown; got "
            f"shape {array.shape} and type {array.dtype}"
        )
    checked = array.astype(np.int64)
    if checked.min() < UNKNOWN:
        raise InputError(f"a label is {checked.min()}; classes count from 0, -1 is unknown")
    return checked
