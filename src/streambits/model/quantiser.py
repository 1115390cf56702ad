"""Product quantiser: a row as a few bytes, each the nearest of 256 centres of some of its axes.

Three layouts of axes in groups are tried, and the one that errs least on rows left out is taken:

- Principal axes. How many bits an axis deserves follows from its variance (reverse water-filling:
  where an axis varies less than the error that all must bear, it gets none), and axes are dealt
  into groups of 8 bits each. Best for most measurements.
- Groups of neighbouring columns, equally many. Best where columns have an order that means
  something, as in histograms.
- The same with the cuts moved to where 8 bits per group leave the least error, as in images.

Then axes are turned to where the centres are, if that helps too. Centres are found by k-means on a
sample, in which dense rows weigh more: to find neighbours, errors must be small beside the
distances between them.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    as_count,
    as_rows,
    as_seed,
    blocks,
    double,
    squared_distances,
    to_numpy,
)
from streambits._threads import cached, one_blas_thread, ordered_map
from streambits.errors import InputError
from streambits.kernels.quantise import (
    CENTRES,
    Codebooks,
    WeightedValues,
    assign,
    codebooks,
    gather,
    spread,
)

BLOCK = 2048  # rows at a time
BITS = 8  # of a group
STEPS = 16  # of k-means
MOST_BYTES = 256
TRIAL_STEPS = 6  # of k-means, to compare layouts
MIN_KMEANS_ROWS = 2 * CENTRES  # rows for k-means; fewer are cut into levels
ENOUGH = 4 * CENTRES  # rows of which some can be left out to compare layouts
NEAR, NEAREST = 500, 5  # a row's radius is its distance to the fifth nearest of 500 others
WIDEST = 16  # axes of a group of neighbouring columns
SHIFTS = 12  # rounds in which cuts between columns move
TURNS = 15  # of the axes
MOST_TURNED = 256  # axes
FAINT = 1e-15  # of the largest variance below which an axis has none
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class ProductQuantiser:
    """Rows to bytes and back.

    A row has the same bytes alone and in any batch, with any number of threads: where two centres
    are as near as rounding allows, the row is decided on its own.

    Attributes
    ----------
    mean : array of shape (d,)
    axes : array of shape (d, a)
        Orthonormal columns, those of a group together.
    starts : array of shape (groups + 1,), int64
        Where the axes of each group begin.
    centres : array of shape (a, 256)
        Axis by axis; those of group g are `centres[starts[g] : starts[g + 1], : counts[g]]`, the
        rest are zeros.
    counts : array of shape (groups,), int64
        Centres of each group.

    Notes
    -----
    Encoding costs d a + 256 a multiplications per row. All in double precision, on the host.
    """

    mean: NDArray[np.float64]
    axes: NDArray[np.float64]
    starts: NDArray[np.int64]
    centres: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def inputs(self) -> int:
        """Columns of a row."""
        return len(self.mean)

    @property
    def n_bytes(self) -> int:
        """Bytes per row."""
        return len(self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes that the quantiser itself holds."""
        arrays = (self.mean, self.axes, self.starts, self.centres, self.counts)
        return sum(array.nbytes for array in arrays)

    def encode(self, rows: Array) -> NDArray[np.uint8]:
        """The codes (n, groups) of rows (n, d)."""
        checked = to_numpy(as_rows(rows, width=self.inputs))
        return np.concatenate(list(ordered_map(self.assigned, blocks(checked, BLOCK))))

    def assigned(self, rows: NDArray[Any]) -> NDArray[np.uint8]:
        """The codes of one block of checked rows."""
        codes, doubtful = self._nearest(rows)
        for place in np.flatnonzero(doubtful):
            codes[place] = self._nearest(rows[place : place + 1])[0]
        return codes

    def _nearest(self, rows: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        relative = double(rows) - self.mean
        lengths = np.sqrt(np.einsum("ij,ij->i", relative, relative))
        return self.assign_values(relative @ self.axes, lengths)

    def assign_values(
        self, values: NDArray[np.float64], lengths: NDArray[np.float64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Assign values along the axes to the nearest centres.

        Parameters
        ----------
        values : array of shape (n, a)
            Relative to the mean.
        lengths : array of shape (n,)
            Of the rows (relative to the mean) whose products with the axes the values are: where a
            value is a sum of several products, the sum of their lengths.

        Returns
        -------
        codes : array of shape (n, groups), uint8
        doubtful : array of shape (n,), bool
            For which rows another centre is as near as rounding allows. Values may round otherwise
            in another batch; so a caller computes those of such a row alone, and calls again.

        Notes
        -----
        A value errs by about sqrt(d) units of the lengths that are multiplied, and a squared
        distance by twice that times the lengths it is made of.
        """
        doubt = 8 * self.inputs**0.5 * EPS * (lengths + self._longest) ** 2
        codes = np.empty((len(values), self.n_bytes), np.uint8)
        doubtful = np.zeros(len(values), np.bool_)
        assign(np.ascontiguousarray(values), self._books, doubt, codes, doubtful)
        return codes, doubtful

    @cached
    def _books(self) -> Codebooks:
        return codebooks(self.centres, self.starts, self.counts)

    @cached
    def _longest(self) -> float:
        """Length of the longest centre, or more."""
        return float(np.sqrt((self.centres**2).max(axis=1, initial=0.0).sum()))

    def decode(self, codes: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The rows (n, d) that codes (n, groups) stand for."""
        if codes.ndim != 2 or codes.shape[1] != self.n_bytes or codes.dtype != np.uint8:
            raise InputError(
                f"codes of this quantiser are an (n, {self.n_bytes}) array of uint8; got shape "
                f"{codes.shape} and type {codes.dtype}"
            )
        return self.values(codes) @ self.axes.T + self.mean

    def values(self, codes: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The centres (n, a) of codes, along the axes."""
        return _decoded(codes, self.centres, self.starts)

    def state(self) -> dict[str, Any]:
        names = ("mean", "axes", "starts", "centres", "counts")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a quantiser from what `state` returned; ValueError if arrays do not fit."""
        found = cls(**state)
        mean, axes, starts, centres, counts = state.values()
        columns, used = len(mean), axes.shape[-1]
        shapes = [mean.ndim, axes.shape, centres.shape, starts.ndim, counts.shape]
        if shapes != [1, (columns, used), (used, CENTRES), 1, (len(starts) - 1,)]:
            raise ValueError(f"arrays of a quantiser do not fit: {shapes}")
        kinds = starts.dtype == counts.dtype == np.int64
        rises = kinds and len(counts) and starts[0] == 0 and starts[-1] == used
        if not (
            rises and (np.diff(starts) >= 0).all() and ((counts >= 1) & (counts <= CENTRES)).all()
        ):
            raise ValueError(f"groups of a quantiser begin at {starts} and have {counts} centres")
        return found

    @classmethod
    def fit(cls, sample: Array, n_bytes: int, *, seed: int | np.random.Generator = 0) -> Self:
        """Fit a quantiser to a uniform sample of rows.

        Parameters
        ----------
        sample : array of shape (n, d)
            A uniform sample, a few thousand rows or more. With fewer than 512 rows axes are cut
            into levels, which needs no more than their variances.
        n_bytes : int
            Bytes per row, 1 to 256.
        seed : int or Generator
            Of k-means.

        Notes
        -----
        Bounded: n d^2 + 10 d^3 multiplications for the axes and about 60 n 256 a for the centres,
        some 1.5 seconds for 5,000 rows of 128 columns and 8 bytes. The same for any number of
        threads. Fewer than 1,024 rows are too few to compare layouts: axes are principal ones.

        Examples
        --------
        >>> rows = np.random.default_rng(0).standard_normal((2000, 6)) * [8, 4, 2, 1, 1, 1]
        >>> quantiser = ProductQuantiser.fit(rows, 4)
        >>> codes = quantiser.encode(rows)
        >>> codes.shape, bool(np.square(quantiser.decode(codes) - rows).mean() < 0.2)
        ((2000, 4), True)
        """
        rows = double(to_numpy(as_rows(sample, name="sample")))
        count, number = as_count(n_bytes, "n_bytes", most=MOST_BYTES), as_seed(seed)
        with one_blas_thread():
            mean = rows.mean(axis=0)
            relative = rows - mean
            weights = _weights(relative, number)
            layout = _layout(relative, weights, count, number)
            values = WeightedValues(relative @ layout.axes, weights)
            centres, counts = _trained(values, layout.starts, number, STEPS)
        return cls(mean, np.ascontiguousarray(layout.axes), layout.starts, centres, counts)


class _Layout(NamedTuple):
    """axes: (d, a), orthonormal, those of a group together; starts: (groups + 1,) of the groups."""

    axes: NDArray[np.float64]
    starts: NDArray[np.int64]


def _weights(rows: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """How much the error of each row matters: more where rows are dense.

    To find neighbours, errors must be small beside the distances between neighbours. So squared
    errors count relative to the squared distance of a near row, here among a few hundred, within
    limits: rows far from all others must not be taken for rows of the crowd.
    """
    rng = np.random.default_rng([seed, len(rows)])
    others = rows[rng.choice(len(rows), min(NEAR, len(rows)), replace=False)]
    place = min(NEAREST, len(others) - 1)
    radii: NDArray[np.float64] = np.partition(squared_distances(rows, others), place)[:, place]
    positive = radii[radii > 0]
    if not len(positive):
        return np.ones(len(rows))
    found: NDArray[np.float64] = 1 / (np.clip(radii / np.median(positive), 0.0, 100.0) + 0.1)
    return found


def _layout(
    rows: NDArray[np.float64], weights: NDArray[np.float64], count: int, seed: int
) -> _Layout:
    """The layout that errs least on rows that its centres were not fitted to."""
    covariance = rows.T @ rows / len(rows)
    principal = _principal(covariance, count)
    if len(rows) < ENOUGH:
        return principal
    even = np.minimum(np.arange(count + 1) * -(-len(covariance) // count), len(covariance))
    layouts = [
        principal,
        _neighbouring(covariance, even),
        _neighbouring(covariance, _shifted(covariance, even)),
    ]
    order = np.random.default_rng([seed, count]).permutation(len(rows))
    trial = _Trial(rows, weights, order[len(rows) // 5 :], order[: len(rows) // 5], seed)
    best = min(map(trial.judge, layouts), key=lambda judged: judged.error)
    if 1 < best.layout.axes.shape[1] <= MOST_TURNED:
        best = min(best, trial.judge(trial.turned(best)), key=lambda judged: judged.error)
    return best.layout


class _Judged(NamedTuple):
    """A layout, the centres of a trial, and the weighted squared error where they were judged."""

    layout: _Layout
    centres: NDArray[np.float64]
    counts: NDArray[np.int64]
    error: float


class _Trial(NamedTuple):
    """Centres are fitted to the weighted rows at some places, and judged at others."""

    rows: NDArray[np.float64]
    weights: NDArray[np.float64]
    fitted: NDArray[np.intp]
    judged: NDArray[np.intp]
    seed: int

    def judge(self, layout: _Layout) -> _Judged:
        centres, counts = _trained(self._fitted(layout), layout.starts, self.seed, TRIAL_STEPS)
        rows, weights = self.rows[self.judged], self.weights[self.judged]
        along = rows @ layout.axes
        decoded = _decoded(_codes(along, centres, layout.starts, counts), centres, layout.starts)
        left = np.square(rows).sum(axis=1) - np.square(along).sum(axis=1)
        error = float(weights @ (left + np.square(along - decoded).sum(axis=1)))
        return _Judged(layout, centres, counts, error)

    def turned(self, judged: _Judged) -> _Layout:
        """The axes turned among themselves to where the centres are, and these fitted, in turns.

        Ge, He, Ke & Sun, "Optimized Product Quantization", TPAMI 2014.
        """
        (layout, centres, counts, _), start = judged, self._fitted(judged.layout)
        rows, turn = start, np.eye(layout.axes.shape[1])
        for _ in range(TURNS):
            codes = _codes(rows.values, centres, layout.starts, counts)
            centres = _means(rows, codes, layout.starts, counts)
            decoded = _decoded(codes, centres, layout.starts)
            left, _, right = np.linalg.svd((start.values * start.weights[:, None]).T @ decoded)
            turn = left @ right
            rows = start._replace(values=start.values @ turn)
        return _Layout(layout.axes @ turn, layout.starts)

    def _fitted(self, layout: _Layout) -> WeightedValues:
        return WeightedValues(self.rows[self.fitted] @ layout.axes, self.weights[self.fitted])


def _principal(covariance: NDArray[np.float64], count: int) -> _Layout:
    """Principal axes, dealt into groups by their bits."""
    variances, axes = _eigen(covariance)
    groups = deal(bits_by_variance(variances, BITS * count), count)
    order = np.concatenate(groups).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    return _Layout(axes[:, order], starts.astype(np.int64))


def _neighbouring(covariance: NDArray[np.float64], cuts: NDArray[np.int64]) -> _Layout:
    """Groups of neighbouring columns, and the principal axes of each."""
    parts, starts = [np.zeros((len(covariance), 0))], [0]
    for low, high in pairwise(cuts.tolist()):
        variances, axes = _eigen(covariance[low:high, low:high])
        kept = min(WIDEST, int((variances > FAINT * np.trace(covariance)).sum()))
        part = np.zeros((len(covariance), kept))
        part[low:high] = axes[:, :kept]
        parts.append(part)
        starts.append(starts[-1] + kept)
    return _Layout(np.concatenate(parts, axis=1), np.array(starts, np.int64))


def _shifted(covariance: NDArray[np.float64], cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cuts between columns, moved to where 8 bits for each group leave the least error."""

    @cache
    def error(low: int, high: int) -> float:
        part = covariance[low:high, low:high]
        variances: NDArray[np.float64] = np.linalg.eigvalsh(part).astype(np.float64, copy=False)
        return float((variances / 4 ** bits_by_variance(variances, BITS)).sum())

    moved, step = cuts.tolist(), max(int(cuts[1]) // 2, 1)
    for _ in range(SHIFTS):
        for place in range(1, len(moved) - 1):
            low, high = moved[place - 1], moved[place + 1]
            choices = [moved[place], moved[place] - step, moved[place] + step]
            choices = [cut for cut in choices if low <= cut <= high]
            moved[place] = min(choices, key=lambda cut: error(low, cut) + error(cut, high))
        step = max(step * 2 // 3, 1)
    return np.array(moved, np.int64)


def _eigen(
    covariance: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variances and principal axes, the largest first."""
    variances, axes = np.linalg.eigh(covariance)
    return variances[::-1], axes[:, ::-1]


def bits_by_variance(variances: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The bits that each axis deserves, at most 8, so that they add up to `total`, or less.

    Reverse water-filling: all axes that get bits are left with the same error, and those that
    vary less than that get none.

    >>> bits_by_variance(np.array([16.0, 4.0, 1.0]), 6.0)
    array([3., 2., 1.])
    >>> bits_by_variance(np.array([16.0, 4.0, 0.0]), 3.0)
    array([2., 1., 0.])
    """
    if variances.max(initial=0.0) <= 0:
        return np.zeros(len(variances))
    logs = 0.5 * np.log2(np.maximum(variances, FAINT * variances.max()))
    logs[variances <= FAINT * variances.max()] = -np.inf

    def bits(level: float) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.clip(logs - level, 0.0, float(BITS))
        return found

    high, low = float(logs.max()), float(logs[np.isfinite(logs)].min()) - BITS
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if bits(middle).sum() > total else (low, middle)
    return bits(high)


def deal(bits: NDArray[np.float64], groups: int) -> list[list[int]]:
    """Axes in groups that need about as many bits each; axes without bits are left out.

    The axis that needs most goes first, always to the group that needs least.

    >>> deal(np.array([8.0, 5.0, 4.0, 3.0, 0.0]), 3)
    [[0], [1], [2, 3]]
    """
    needed, dealt = np.zeros(groups), [list[int]() for _ in range(groups)]
    for axis in np.argsort(-bits, kind="stable").tolist():
        if bits[axis] > 0:
            group = int(np.argmin(needed))
            dealt[group].append(axis)
            needed[group] += bits[axis]
    return dealt


def _codes(
    values: NDArray[np.float64],
    centres: NDArray[np.float64],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """The nearest centre of each group."""
    codes, doubtful = (
        np.empty((len(values), len(counts)), np.uint8),
        np.zeros(len(values), np.bool_),
    )
    assign(values, codebooks(centres, starts, counts), np.zeros(len(values)), codes, doubtful)
    return codes


def _decoded(
    codes: NDArray[np.uint8], centres: NDArray[np.float64], starts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The centres (n, a) of codes."""
    found = np.empty((len(codes), len(centres)))
    for group, (start, end) in enumerate(pairwise(starts.tolist())):
        found[:, start:end] = centres[start:end].T[codes[:, group]]
    return found


def _trained(
    rows: WeightedValues, starts: NDArray[np.int64], seed: int, steps: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Centres (a, 256) and how many each group has, by k-means."""
    centres, counts = np.zeros((rows.values.shape[1], CENTRES)), np.ones(len(starts) - 1, np.int64)
    for group, (start, end) in enumerate(pairwise(starts.tolist())):
        if end > start:
            rng = np.random.default_rng([seed, group])
            found = _seeded(rows.values[:, start:end], rows.weights, rng)
            counts[group], centres[start:end, : len(found)] = len(found), found.T
    if len(rows.values) >= MIN_KMEANS_ROWS:
        for _ in range(steps):
            codes = _codes(rows.values, centres, starts, counts)
            centres = _means(rows, codes, starts, counts)
    return centres, counts


def _seeded(
    values: NDArray[np.float64], weights: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """At most 256 centres (k, width) to start with: all values, if there are no more."""
    distinct = np.unique(values, axis=0)
    if len(distinct) <= CENTRES:
        return distinct
    if len(values) < MIN_KMEANS_ROWS:
        return _levels(values)
    chosen = np.empty(CENTRES, np.int64)
    spread(np.ascontiguousarray(values.T), weights, rng.random(CENTRES), chosen)
    return values[chosen]


def _means(
    rows: WeightedValues,
    codes: NDArray[np.uint8],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The weighted mean of each centre's values; without values, one that is far from its own."""
    totals, new = np.zeros((len(counts), CENTRES)), np.zeros((starts[-1], CENTRES))
    gather(rows, codes, starts, totals, new)
    for group, (start, end) in enumerate(pairwise(starts.tolist())):
        new[start:end] /= np.where(totals[group] > 0, totals[group], 1)
        empty = np.flatnonzero(totals[group, : counts[group]] == 0)
        if len(empty) and end > start:
            values, own = rows.values[:, start:end], new[start:end].T[codes[:, group]]
            errors = rows.weights * np.square(values - own).sum(axis=1)
            furthest = np.argsort(-errors, kind="stable")[: len(empty)]
            new[start:end, empty] = values[furthest].T
    return new


def _levels(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centres on a grid: each axis cut into equally likely levels, more where it varies more."""
    bits = np.floor(bits_by_variance(values.var(axis=0), float(BITS)) + 1e-9).astype(int)
    parts = [
        np.quantile(column, (np.arange(2**b) + 0.5) / 2**b)
        for column, b in zip(values.T, bits, strict=True)
    ]
    return np.stack([part.ravel() for part in np.meshgrid(*parts, indexing="ij")], axis=1)
