"""A uniform sample of a stream, and the stream in blocks of one size."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    array_namespace,
    as_count,
    as_rows,
    as_seed,
    blocks,
    move,
    nbytes,
    put,
    take,
    to_numpy,
)
from streambits.errors import InputError, MergeError
from streambits.kernels.sampling import displace
from streambits.model.batches import batches


class Reservoir:
    """A uniform sample of all rows seen, in fixed memory.

    Parameters
    ----------
    size : int
        Rows of the sample.
    like : array
        An array of the library, device and precision to hold.
    inputs : int
        Number of columns.
    half_life : float, optional
        Number of rows after which the chance of a row is half that of a new one. By default all
        rows have the same chance.
    seed : int or sequence of int
    by_first_row : bool
        Whether the first row is a part of the seed: samples of two shards of a stream, made with
        one seed, then draw different positions.

    Notes
    -----
    Every row draws a random key and the `size` smallest keys stay. So any split of the stream into
    batches gives the same sample, and two samples merge into a sample of both: again the smallest
    keys. An update costs one draw per row, and a copy of the few rows that enter.

    References
    ----------
    Efraimidis & Spirakis, "Weighted Random Sampling with a Reservoir", IPL 2006, for `half_life`.
    """

    def __init__(
        self,
        size: int,
        like: Array,
        *,
        inputs: int,
        half_life: float | None = None,
        seed: int | Sequence[int] = 0,
        by_first_row: bool = False,
    ) -> None:
        xp = array_namespace(like)
        self.size = as_count(size, "size")
        self.half_life = half_life
        self.seen = 0
        self._clock = 0
        self._rows = move(xp.zeros((self.size, inputs), dtype=xp.float64), like)
        self._keys = np.full(self.size, np.inf)
        self._rng = np.random.default_rng(seed)
        self._by_first_row = by_first_row

    @property
    def rows(self) -> Array:
        """The sample, at most (size, inputs)."""
        return self._rows[: min(self.seen, self.size), :]

    def part(self, count: int) -> Array:
        """A uniform sample (at most count, inputs) of the rows seen: those of smallest keys."""
        filled = min(self.seen, self.size)
        if count >= filled:
            return self.rows
        return take(self._rows, np.sort(np.argpartition(self._keys[:filled], count)[:count]))

    @property
    def nbytes(self) -> int:
        """Bytes held, constant from construction."""
        return nbytes(self._rows, self._keys)

    def update(self, rows: Array) -> None:
        """Let checked rows (n, inputs) compete for a place."""
        if self._by_first_row and rows.shape[0]:
            first = hashlib.sha256(to_numpy(rows[:1, :]).astype(np.float64).tobytes()).digest()
            self._rng = np.random.default_rng([*self._rng.integers(2**32, size=2), *first])
            self._by_first_row = False
        self._compete(rows, self._draw(rows.shape[0]))
        self.seen += rows.shape[0]
        self._clock += rows.shape[0]

    def _draw(self, count: int) -> Any:
        """One key per row: uniform, or lower the later (Efraimidis & Spirakis, by logarithms)."""
        keys = self._rng.random(count)
        if self.half_life is None:
            return keys
        ages = np.arange(self._clock, self._clock + count) / self.half_life
        return np.log(-np.log1p(-keys)) - math.log(2) * ages

    def merge(self, other: "Reservoir") -> None:
        """Let the rows of another sample compete, with the keys they drew there.

        Raises
        ------
        MergeError
            If sizes or half-lives differ.
        """
        if (self.size, self.half_life) != (other.size, other.half_life):
            raise MergeError(
                f"samples of {self.size} and of {other.size} rows, of half-lives "
                f"{self.half_life} and {other.half_life}, do not merge: they must agree"
            )
        keys = other._keys[: min(other.seen, other.size)]
        if self.half_life is not None:  # both are read now, whatever their clocks say
            keys = keys + math.log(2) * (other._clock - self._clock) / self.half_life
        self._compete(other.rows, keys)
        self.seen += other.seen

    def _compete(self, rows: Array, keys: Any) -> None:
        filled = min(self.seen, self.size)
        free = min(self.size - filled, len(keys))
        if free:
            self._rows[filled : filled + free, :] = move(rows[:free, :], self._rows)
            self._keys[filled : filled + free] = keys[:free]
        places, taken = _displaced(self._keys, keys, free)
        self._keys[places] = keys[taken]
        put(self._rows, places, rows, taken)

    def copy(self) -> Self:
        """Return an independent copy."""
        return self.from_state(self.state())

    def state(self) -> dict[str, Any]:
        """Return the contents by name, for `from_state` and files."""
        return {
            "rows": self._rows,
            "keys": self._keys,
            "half_life": self.half_life,
            "seen": self.seen,
            "clock": self._clock,
            "by_first_row": self._by_first_row,
            "generator": self._rng.bit_generator.state,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a sample from what `state` returned."""
        rows = state["rows"]
        self = cls(rows.shape[0], rows, inputs=rows.shape[1], half_life=state["half_life"])
        self._rows[:, :] = rows
        self._keys[:] = state["keys"]
        self.seen, self._clock = state["seen"], state["clock"]
        self._by_first_row = state["by_first_row"]
        self._rng.bit_generator.state = state["generator"]
        return self


def _displaced(held: Any, keys: Any, start: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which places new keys occupy, from the `start`-th on, if each smaller displaces the largest.

    Returns the places and the keys that are there in the end. Of k keys at most the k largest held
    can go, so only those are kept in a heap.
    """
    asking = start + np.flatnonzero(keys[start:] < held.max())
    count = min(len(asking), len(held))
    if not count:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    largest = np.argpartition(-held, count - 1)[:count]
    rows = displace(held, largest, asking, keys[asking])
    return largest[rows >= 0], rows[rows >= 0]


def reservoir(stream: Iterable[Any], size: int, *, seed: int | np.random.Generator = 0) -> Array:
    """Draw a uniform sample of `size` rows of a stream, reading it once.

    Parameters
    ----------
    stream : iterable
        Row arrays, pairs (ids, rows) or row batches, as for `encode_online`; or one array.
    size : int
        Rows to draw.
    seed : int or Generator, default 0

    Returns
    -------
    array of shape (size, d)
        The same rows for any split of the stream into batches.

    Raises
    ------
    InputError
        If the stream has fewer rows.

    Examples
    --------
    >>> reservoir([np.zeros((5, 2)), np.ones((3, 2))], 4).shape, reservoir(np.eye(5), 3).shape
    ((4, 2), (3, 5))
    """
    sample: Reservoir | None = None
    for batch in batches(stream):
        width = None if sample is None else sample._rows.shape[1]
        rows = as_rows(batch.rows, width=width, name="batch")
        if sample is None:
            sample = Reservoir(size, rows, inputs=rows.shape[1], seed=as_seed(seed))
        sample.update(move(rows, sample._rows))
    if sample is None or sample.seen < sample.size:
        seen = 0 if sample is None else sample.seen
        raise InputError(f"the stream has {seen} rows, and {size} were asked for: ask for fewer")
    return sample.rows


class Blocks:
    """Batches of any sizes, cut into blocks of one size; the remainder waits.

    So whatever is computed block by block is the same for any split of the stream. Memory: one
    block.

    Parameters
    ----------
    size : int
        Rows of a block.
    inputs : int
        Number of columns.
    like : array
        An array of the library and precision to hold.
    """

    def __init__(self, size: int, inputs: int, like: Array) -> None:
        self.size = size
        self._held = move(np.zeros((size, inputs)), like)
        self.waiting = 0

    @property
    def rows(self) -> Array:
        """The rows that wait, (waiting, inputs)."""
        return self._held[: self.waiting, :]

    @property
    def nbytes(self) -> int:
        """Bytes held, constant from construction."""
        return nbytes(self._held)

    def cut(self, rows: Array) -> list[Array]:
        """Add rows (n, inputs) and return the blocks that are full now, in the stream's order."""
        full: list[Array] = []
        if self.waiting:
            rows = self._hold(rows)
            if self.waiting < self.size:
                return full
            full.append(array_namespace(rows).asarray(self._held, copy=True))
            self.waiting = 0
        whole = rows.shape[0] - rows.shape[0] % self.size
        full += blocks(rows[:whole, :], self.size)
        self._hold(rows[whole:, :])
        return full

    def _hold(self, rows: Array) -> Array:
        """Keep as many as there is room for; returns the rest."""
        fits = min(rows.shape[0], self.size - self.waiting)
        self._held[self.waiting : self.waiting + fits, :] = rows[:fits, :]
        self.waiting += fits
        return rows[fits:, :]
