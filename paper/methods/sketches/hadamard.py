"""A fast Hadamard transform in front of Frequent Directions: fewer rows for the slow sketch."""

import math
from typing import Any, Self

import numpy as np

from streambits._arrays import Array, array_namespace, as_count, as_seed, device, move
from streambits.sketches.base import Contribution, RunningMean, check_mergeable
from streambits.sketches.frequent_directions import FrequentDirections


class HadamardDirections(FrequentDirections):
    """Frequent Directions of `sampled` mixed rows per block, in place of all its rows.

    Parameters
    ----------
    width : int
        Number of columns of the rows.
    size : int
        As in `FrequentDirections`.
    sampled : int, optional
        Number of mixed rows that represent a block; 2 size by default.
    half_life : float, optional
        Number of rows after which a row counts half.
    seed : int or Generator, default 0
        Of the random signs and choices, which also depend on the number of rows seen.
    like : array, optional
        The sketch is held in the library and on the device of this array; NumPy by default.

    Notes
    -----
    A block of n centred rows X becomes S H D X / sqrt(sampled): random signs D, the Hadamard
    transform H of the rows (padded to a power of two), and a random choice S of its rows. Its
    expected scatter is X'X, and H D spreads every row over all, so that no row is missed. The row
    that corrects the mean goes in as it is. So B'B is A'A in expectation, and only as long as no
    block was sampled does the certificate of Frequent Directions hold.

    An update is a block, and a block of at most `sampled` rows goes in whole; a `Learner` cuts
    any stream into equal blocks. A block costs n log2(n) additions per column, and what Frequent
    Directions take for `sampled` rows. Memory is theirs and, during an update, two copies of the
    block.

    References
    ----------
    Chen, King & Lyu, "FROSH: FasteR Online Sketching Hashing", UAI 2017.

    Examples
    --------
    >>> sketch = HadamardDirections(4, 3)
    >>> sketch.update(np.eye(4))
    >>> sketch.certificate < math.inf
    True
    >>> sketch.update(np.ones((100, 4)))
    >>> sketch.seen, sketch.certificate
    (104, inf)
    """

    def __init__(
        self,
        width: int,
        size: int,
        sampled: int | None = None,
        *,
        half_life: float | None = None,
        seed: int | np.random.Generator = 0,
        like: Array = None,
    ) -> None:
        super().__init__(width, size, half_life=half_life, like=like)
        self.sampled = 2 * self.size if sampled is None else as_count(sampled, "sampled")
        self.seed = as_seed(seed)
        self._whole = True

    def absorb(self, contribution: Contribution) -> None:
        """Mix, choose and insert: here, since `prepare` cannot know how many rows came before."""
        if contribution.rows > self.sampled:
            contribution = contribution._replace(body=self._mixed(contribution.body))
            self._whole = False
        super().absorb(contribution)

    def _mixed(self, rows: Array) -> Array:
        """(sampled, width) rows whose expected scatter is that of `rows`."""
        xp = array_namespace(rows)
        count = rows.shape[0]
        padded = 1 << (count - 1).bit_length()
        rng = np.random.default_rng([self.seed, self.seen])
        signs = move(np.where(rng.random((count, 1)) < 0.5, -1.0, 1.0), rows)
        sample = np.sort(rng.choice(padded, self.sampled, replace=False))
        mixed = hadamard_transform(_padded(signs * rows, padded))
        places = xp.asarray(sample, device=device(rows))
        return xp.take(mixed, places, axis=0) / self.sampled**0.5

    def merge(self, other: Self) -> None:
        """Merge as Frequent Directions do: no row is mixed twice."""
        check_mergeable(self, other, "sampled")
        super().merge(other)
        self._whole = self._whole and other._whole

    @property
    def certificate(self) -> float:
        """Infinity as soon as a block was sampled: no bound holds for certain.

        The sampled rows keep X'X in expectation, and nearly so with high probability over the
        random signs; of one run nothing is proven. B'B may also exceed A'A.
        """
        return super().certificate if self._whole else math.inf

    def with_size(self, size: int) -> Self:
        """Return an empty sketch of another size; `sampled` follows it where it was twice that."""
        return type(self)(
            self.width,
            size,
            None if self.sampled == 2 * self.size else self.sampled,
            half_life=self.half_life,
            seed=self.seed,
            like=self._buffer,
        )

    def state(self) -> dict[str, Any]:
        own = {"sampled": self.sampled, "seed": self.seed, "whole": self._whole}
        return super().state() | own

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        running = RunningMean.from_state(state["centre"])
        self = cls(
            running.mean.shape[0],
            state["size"],
            state["sampled"],
            half_life=running.half_life,
            seed=state["seed"],
            like=state["buffer"],
        )
        self._restore(state, running)
        self._whole = state["whole"]
        return self


def hadamard_transform(rows: Array) -> Array:
    """H rows, H the Hadamard matrix in its natural (Sylvester) order.

    Parameters
    ----------
    rows : array of shape (n, width)
        n must be a power of two.

    Returns
    -------
    array of shape (n, width)
        The transformed rows; H H = n I.

    Notes
    -----
    Costs n log2(n) additions per column.

    Examples
    --------
    >>> hadamard_transform(np.array([[1.0], [2.0], [3.0], [4.0]])).T
    array([[10., -2., -4.,  0.]])
    """
    xp = array_namespace(rows)
    count, width = rows.shape
    step = 1
    while step < count:
        pairs = xp.reshape(rows, (count // (2 * step), 2, step, width))
        first, second = pairs[:, 0, :, :], pairs[:, 1, :, :]
        rows = xp.stack([first + second, first - second], axis=1)
        step *= 2
    return xp.reshape(rows, (count, width))


def _padded(rows: Array, count: int) -> Array:
    """Rows of zeros below, up to `count`."""
    xp = array_namespace(rows)
    shape = (count - rows.shape[0], rows.shape[1])
    return xp.concat([rows, xp.zeros(shape, dtype=rows.dtype, device=device(rows))], axis=0)
