"""Product quantiser: a row as a few bytes, each the nearest of 256 centres of some of its axes.

Rows are turned to their principal axes. How many bits an axis deserves follows from its variance
(reverse water-filling: where an axis varies less than the error that all must bear, it gets none),
and axes are dealt into groups of 8 bits each; a group has 256 centres, by k-means on a sample.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_count, as_rows, as_seed, blocks, double, to_numpy
from streambits._threads import cached, one_blas_thread, ordered_map
from streambits.errors import InputError
from streambits.kernels.quantise import CENTRES, Codebooks, assign, codebooks

BLOCK = 2048  # rows at a time
BITS = 8  # of a group
STEPS = 25  # of k-means
MOST_BYTES = 256
LEAST = 2 * CENTRES  # rows of a sample from which centres are found; fewer are cut into levels
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
        found = np.empty((len(codes), self.axes.shape[1]))
        for group, (start, end) in enumerate(pairwise(self.starts.tolist())):
            found[:, start:end] = self.centres[start:end].T[codes[:, group]]
        return found

    def state(self) -> dict[str, Any]:
        names = ("mean", "axes", "starts", "centres", "counts")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)

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
        Costs n d^2 multiplications for the axes and 25 n 256 d for the centres.

        Examples
        --------
        >>> rows = np.random.default_rng(0).standard_normal((2000, 6)) * [8, 4, 2, 1, 1, 1]
        >>> quantiser = ProductQuantiser.fit(rows, 4)
        >>> codes = quantiser.encode(rows)
        >>> codes.shape, bool(np.square(quantiser.decode(codes) - rows).mean() < 0.2)
        ((2000, 4), True)
        """
        rows = double(to_numpy(as_rows(sample, name="sample")))
        count = as_count(n_bytes, "n_bytes", most=MOST_BYTES)
        with one_blas_thread():
            mean = rows.mean(axis=0)
            variances, axes = np.linalg.eigh((rows - mean).T @ (rows - mean) / len(rows))
            variances, axes = variances[::-1], axes[:, ::-1]
            groups = deal(bits_by_variance(variances, BITS * count), count)
            order = np.concatenate(groups).astype(np.int64)
            starts = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
            values = (rows - mean) @ axes[:, order]
            centres, counts = np.zeros((len(order), CENTRES)), np.ones(count, np.int64)
            for number, (start, end) in enumerate(pairwise(starts.tolist())):
                part = values[:, start:end]
                if end > start:
                    found = _centres(part, as_seed(seed) + number)
                    counts[number] = len(found)
                    centres[start:end, : len(found)] = found.T
        axes = np.ascontiguousarray(axes[:, order])
        return cls(mean, axes, starts.astype(np.int64), centres, counts)


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
    for _ in range(100):
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


def _centres(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """At most 256 centres (k, width) of the values of a group (n, width)."""
    distinct = np.unique(values, axis=0)
    if len(distinct) <= CENTRES:
        return distinct
    if len(values) < LEAST:
        return _levels(values)
    centres = _spread(distinct, np.random.default_rng(seed))
    for _ in range(STEPS):
        centres = _improved(values, centres)
    return centres


def _spread(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """256 of the values, far apart: each drawn by its squared distance from those before.

    Arthur & Vassilvitskii, "k-means++", SODA 2007.
    """
    chosen = [int(rng.integers(len(values)))]
    nearest = np.square(values - values[chosen[0]]).sum(axis=1)
    for draw in rng.random(CENTRES - 1):
        sums = np.cumsum(nearest)
        chosen.append(min(int(np.searchsorted(sums, draw * sums[-1])), len(values) - 1))
        np.minimum(nearest, np.square(values - values[chosen[-1]]).sum(axis=1), out=nearest)
    return values[chosen]


def _improved(values: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """One step of Lloyd's; a centre without values moves to one that is far from its own."""
    scores = values @ centres.T - 0.5 * np.einsum("ij,ij->i", centres, centres)
    own = scores.argmax(axis=1)
    counts = np.bincount(own, minlength=CENTRES)
    sums = np.stack([np.bincount(own, column, CENTRES) for column in values.T], axis=1)
    new = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        errors = np.square(values - new[own]).sum(axis=1)
        new[empty] = values[np.argsort(-errors, kind="stable")[: len(empty)]]
    return new


def _levels(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centres on a grid: each axis cut into equally likely levels, more where it varies more."""
    bits = np.floor(bits_by_variance(values.var(axis=0), float(BITS)) + 1e-9).astype(int)
    parts = [
        np.quantile(column, (np.arange(2**b) + 0.5) / 2**b)
        for column, b in zip(values.T, bits, strict=True)
    ]
    return np.stack([part.ravel() for part in np.meshgrid(*parts, indexing="ij")], axis=1)
