"""A fast Hadamard transform in front of Frequent Directions: fewer rows for the slow sketch."""

import math
from typing import Any, Self

import numpy as np

from streambits._arrays import Array, array_namespace, as_count, as_seed, device, move
from streambits.sketches.base import Part, check_mergeable
from streambits.sketches.frequent_directions import FrequentDirections
from streambits.sketches.wrapped import Wrapped


class HadamardDirections(Wrapped[FrequentDirections]):
    """Frequent Directions of `sampled` mixed rows a block, in place of all its rows.

    A block of n centred rows X becomes S H D X / sqrt(sampled): random signs D, the Hadamard
    transform H of the rows (padded to a power of two), and a random choice S of its rows. Its
    expected scatter is X'X, and H D spreads every row over all, so that no row is missed. The row
    that corrects the mean goes in as it is.

    Signs and choice depend on `seed` and the number of rows seen. An update is a block, and a
    block of at most `sampled` rows goes in whole; a `Learner` cuts any stream into equal blocks.
    Costs n log2(n) additions a column and block, and what Frequent Directions take for `sampled`
    rows. Memory: theirs, and while a block is taken, two copies of it.

    width, size, half_life, like: as in FrequentDirections; sampled: 2 size by default.

    Chen, King & Lyu, "FROSH: FasteR Online Sketching Hashing", UAI 2017.
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
        super().__init__(FrequentDirections(width, size, half_life=half_life, like=like))
        self.size = self._inner.size
        self.sampled = 2 * self.size if sampled is None else as_count(sampled, "sampled")
        self.seed = as_seed(seed)
        self._whole = True

    def absorb(self, part: Part) -> None:
        """Mix, choose and insert: here, since `prepare` cannot know how many rows came before."""
        if part.rows > self.sampled:
            part = part._replace(body=self._mixed(part.body))
            self._whole = False
        self._inner.absorb(part)

    def _mixed(self, rows: Array) -> Array:
        """(sampled, width) rows whose expected scatter is that of `rows`."""
        xp = array_namespace(rows)
        count = rows.shape[0]
        padded = 1 << (count - 1).bit_length()
        rng = np.random.default_rng([self.seed, self.seen])
        signs = move(np.where(rng.random((count, 1)) < 0.5, -1.0, 1.0), rows)
        chosen = np.sort(rng.choice(padded, self.sampled, replace=False))
        mixed = hadamard_transform(_padded(signs * rows, padded))
        places = xp.asarray(chosen, device=device(rows))
        return xp.take(mixed, places, axis=0) / self.sampled**0.5

    def merge(self, other: Self) -> None:
        """As Frequent Directions merge: no row is mixed twice."""
        check_mergeable(self, other, "sampled")
        self._inner.merge(other._inner)
        self._whole = self._whole and other._whole

    @property
    def certificate(self) -> float:
        """Infinity as soon as a block was sampled: no bound holds for certain.

        The sampled rows keep X'X in expectation, and nearly so with high probability over the
        random signs; of one run nothing is proven. B'B may also exceed A'A.
        """
        return self._inner.certificate if self._whole else math.inf

    def fresh(self) -> Self:
        return self.from_state({**self.state(), "inner": self._inner.fresh(), "whole": True})

    def state(self) -> dict[str, Any]:
        held = {"sampled": self.sampled, "seed": self.seed, "whole": self._whole}
        return super().state() | held

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        inner = state["inner"]
        self = cls(inner.width, inner.size, state["sampled"], seed=state["seed"], like=inner.mean)
        self._inner, self._whole = inner, state["whole"]
        return self


def hadamard_transform(rows: Array) -> Array:
    """H rows, H the Hadamard matrix in its natural (Sylvester) order.

    rows: (n, width), n a power of two. Costs n log2(n) additions a column. H H = n I.

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
