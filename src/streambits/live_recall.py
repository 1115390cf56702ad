"""Live recall: how often codes find the true neighbours of rows that are there now."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import squared_distances

Numbers = NDArray[np.int64]
Keys = NDArray[np.uint64]
BYTES = 1 << 25  # of rows that a sample holds, at most
MIN_SAMPLE_ROWS = 1024  # rows that it holds in any case
QUERIES = 500
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # numbers of answers by which recall is extrapolated
DEEPER = (48, 64, 96, 128)  # more of them, where recall of as many is asked for
SMALLER = (1, 2, 4)  # parts of a sample in which they are counted
NEAR = 2.0  # a measurement e^2 times as dense or thin as the rows counts a third
STEP = 64  # queries whose true distances are computed at a time
ROUNDING = 1e-9  # of the largest squared distance: rows that are as near count as well
SIGMAS = 1.96


class Recall(NamedTuple):
    """How often the k nearest rows are among the first k answers.

    Attributes
    ----------
    mean, low, high : float
        The mean over queries, and an interval that contains the true mean in 19 of 20 cases.
    k : int
    queries : int
        Rows that were searched for, each but for itself.
    rows : int
        Rows of the index.
    measured : int
        Rows whose true distances are known; where they are fewer than `rows`, recall among all of
        them is extrapolated from theirs.
    epochs : dict of int to Recall
        The same for the queries of each epoch.
    """

    mean: float
    low: float
    high: float
    k: int
    queries: int
    rows: int
    measured: int
    epochs: dict[int, "Recall"]


class LiveSample:
    """A uniform sample of the rows that are there, by their ids.

    Parameters
    ----------
    columns : int
    dtype : dtype

    Notes
    -----
    It holds the rows whose ids have the smallest hashes: 32 MiB of them, so any split of a stream
    gives the same sample, and a row that is removed leaves a sample of the others. A row that was
    not drawn does not come back, so many removals leave it smaller.
    """

    def __init__(self, columns: int, dtype: Any) -> None:
        self.below = np.iinfo(np.uint64).max  # hashes of rows that may be held
        self._keys: Keys = np.empty(0, np.uint64)
        self._numbers: Numbers = np.empty(0, np.int64)
        self._places = np.empty(0, np.intp)
        self._rows: NDArray[Any] = np.empty((0, columns), dtype)
        self.size = _size(self._rows)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self._rows.nbytes + 24 * len(self))

    @property
    def numbers(self) -> Numbers:
        """The ids, in a random order that depends on nothing else."""
        return self._numbers

    @property
    def rows(self) -> NDArray[Any]:
        """Their rows."""
        return np.asarray(self._rows[self._places])

    def put(self, numbers: Numbers, rows: NDArray[Any]) -> None:
        """Consider rows; of a number that comes twice, the last."""
        if rows.dtype.itemsize > self._rows.dtype.itemsize:
            self._rows = self._rows.astype(rows.dtype)
            self.size = _size(self._rows)
        keys = hashed(numbers)
        drawn = np.flatnonzero(keys < self.below)[::-1]
        keys, first = np.unique(keys[drawn], return_index=True)
        which = drawn[first]
        at, there = self._find(keys)
        self._rows[self._places[at[there]]] = rows[which[there]]
        new = which[~there]
        if len(new):
            places = self._free(len(new))
            self._rows[places] = rows[new]
            where = np.searchsorted(self._keys, keys[~there])
            self._keys = np.insert(self._keys, where, keys[~there])
            self._numbers = np.insert(self._numbers, where, numbers[new])
            self._places = np.insert(self._places, where, places)
        if len(self) > self.size:
            self.below = int(self._keys[self.size])
            self._keep(np.arange(self.size))

    def remove(self, numbers: Numbers) -> None:
        """Drop rows, if they are here."""
        at, there = self._find(hashed(numbers))
        if there.any():
            self._keep(np.setdiff1d(np.arange(len(self)), at[there]))

    def _keep(self, which: NDArray[np.intp]) -> None:
        self._keys, self._numbers = self._keys[which], self._numbers[which]
        self._places = self._places[which]

    def _find(self, keys: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where keys are, and which of them are there."""
        at = np.minimum(np.searchsorted(self._keys, keys), max(0, len(self) - 1))
        there = self._keys[at] == keys if len(self) else np.zeros(len(keys), np.bool_)
        return at, np.asarray(there)

    def _free(self, count: int) -> NDArray[np.intp]:
        """So many places that are not used."""
        used = np.zeros(len(self._rows), np.bool_)
        used[self._places] = True
        free = np.flatnonzero(~used)
        if len(free) < count:
            more = max(count - len(free), min(len(self._rows), self.size))
            shape = (more, self._rows.shape[1])
            self._rows = np.concatenate([self._rows, np.zeros(shape, self._rows.dtype)])
            free = np.concatenate([free, np.arange(len(used), len(used) + more)])
        return free[:count]

    def state(self) -> dict[str, Any]:
        """Return the contents by name."""
        return {"numbers": self._numbers, "rows": self.rows, "below": str(self.below)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Build a sample from what `state` returned."""
        rows = state["rows"]
        self = cls(rows.shape[1], rows.dtype)
        self._numbers, self._rows = state["numbers"], rows
        self._keys, self._places = hashed(self._numbers), np.arange(len(rows))
        self.below = int(state["below"])
        return self


def _size(rows: NDArray[Any]) -> int:
    """How many rows of that kind a sample holds."""
    return max(MIN_SAMPLE_ROWS, int(BYTES // max(1, rows.shape[1] * rows.dtype.itemsize)))


def hashed(numbers: Numbers) -> Keys:
    """Numbers of 64 bits that look random, a different one for every number (splitmix64).

    >>> hashed(np.array([0, 1])).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))


class SampledRows(NamedTuple):
    """Rows whose true distances can be computed, in random order.

    numbers: (n,) of their ids; rows: (n, d).
    """

    numbers: Numbers
    rows: NDArray[Any]

    def first(self, count: int) -> "SampledRows":
        """The first ones."""
        return SampledRows(self.numbers[:count], self.rows[:count])


class Measured(NamedTuple):
    """Recall in a part of the rows.

    shares: (queries,) of the `k` nearest of `rows` rows that were found.
    """

    rows: int
    k: int
    shares: NDArray[np.float64]


Search = Callable[[NDArray[Any], int, int | None, float], Numbers]


def measure(
    known: SampledRows, total: int, k: int, search: Search, *, queries: int = QUERIES
) -> list[Measured]:
    """Search for some rows among parts of a sample, or among all rows if it has them all.

    Parameters
    ----------
    known : SampledRows
        The sample; its first rows are the queries.
    total : int
        Rows of the index.
    k : int
    search : callable
        From rows, a number of answers, how many of the known rows to choose from (None: all rows)
        and the share of all rows that they are, to the numbers (queries, at most so many) found.
    queries : int

    Returns
    -------
    list of Measured
        One, if the sample has all rows.
    """
    count = len(known.numbers)
    if count >= total:
        return _measured(known, min(queries, count), [k], search, 1.0)
    asked, found = min(queries, max(1, count // SMALLER[-1])), []
    for part in SMALLER:
        some = known.first(count // part)
        wanted = (*DEPTHS, *(depth for depth in DEEPER if depth < 2 * k))
        depths = [depth for depth in wanted if depth < count // part // 8] or [1]
        found += _measured(some, asked, depths, search, count / part / total)
    return found


def _measured(
    known: SampledRows, queries: int, depths: list[int], search: Search, share: float
) -> list[Measured]:
    """Recall of several numbers of answers among known rows, of which the first are queries."""
    (numbers, rows), asked = known, np.arange(queries)
    allow = None if share == 1 else len(numbers)
    hits = [search(rows[asked], depth + 1, allow, share) for depth in depths]
    order = np.argsort(numbers)
    found: list[list[NDArray[np.float64]]] = [[] for _ in depths]
    centre = rows.mean(axis=0, dtype=np.float64)
    centred = rows.astype(np.float64) - centre
    for start in range(0, len(asked), STEP):
        some = asked[start : start + STEP]
        far = squared_distances(centred[some], centred)
        doubt = ROUNDING * far.max(axis=1)
        far[np.arange(len(some)), some] = np.inf
        deepest = min(max(depths), far.shape[1] - 1)
        nearest = np.sort(np.partition(far, deepest - 1, axis=1)[:, :deepest], axis=1)
        for each, depth, ids in zip(found, depths, hits, strict=True):
            answers = ids[start : start + STEP]
            at = np.minimum(np.searchsorted(numbers, answers, sorter=order), len(numbers) - 1)
            places = order[at]
            true = np.where(numbers[places] == answers, np.take_along_axis(far, places, 1), np.inf)
            kept = np.argsort(np.isinf(true), axis=1, kind="stable")[:, :depth]
            true = np.take_along_axis(true, kept, 1)
            limit = nearest[:, min(depth, deepest) - 1] + doubt
            each.append((true <= limit[:, None]).sum(axis=1) / min(depth, deepest))
    return [
        Measured(len(numbers), depth, np.concatenate(each))
        for depth, each in zip(depths, found, strict=True)
    ]


def summarised(
    found: list[Measured], epochs: NDArray[np.int64], k: int, total: int, measured: int
) -> Recall:
    """Recall, for all queries and for those of each epoch (queries,)."""
    every = np.ones(len(epochs), np.bool_)
    parts = {
        int(epoch): _summary(found, epochs == epoch, k, total, measured)
        for epoch in np.unique(epochs)
    }
    return _summary(found, every, k, total, measured)._replace(epochs=parts)


def _summary(
    found: list[Measured], which: NDArray[np.bool_], k: int, total: int, measured: int
) -> Recall:
    count = int(which.sum())
    if len(found) == 1:
        shares = found[0].shares[which]
        mean, error = float(shares.mean()), float(shares.std() / np.sqrt(count))
    else:
        mean, error = _extrapolated(
            [one._replace(shares=one.shares[which]) for one in found], k, total
        )
    half = SIGMAS * error + 0.5 / (count + 1)
    low, high = max(0.0, mean - half), min(1.0, mean + half)
    return Recall(mean, low, high, k, count, total, measured, {})


def _extrapolated(found: list[Measured], k: int, total: int) -> tuple[float, float]:
    """Recall of k among all rows from that among fewer, and its standard error.

    The k nearest of n rows are about as far away as the k m / n nearest of m of them, and codes
    err as much there: so recall depends on k / n, and, as few neighbours come in whole numbers, on
    1 / k. Log-odds of recall are fitted as a quadratic and as a linear function of log(k / n); the
    mean of both is taken, and their difference counts as an error.
    """
    dense = np.log([one.k / one.rows for one in found])
    there = np.log(k / total)
    one_over = np.array([1 / one.k for one in found])
    mean = np.clip([one.shares.mean() for one in found], 0.002, 0.998)
    odds = np.log(mean / (1 - mean))
    weights = np.exp(-np.abs(dense - there) / NEAR)
    guesses = []
    for powers in (1, 2):
        terms = [dense**power for power in range(powers + 1)] + [one_over]
        at = [there**power for power in range(powers + 1)] + [1 / k]
        matrix = np.stack(terms, axis=1) * weights[:, None]
        fitted, *_ = np.linalg.lstsq(matrix, odds * weights, rcond=None)
        guesses.append(1 / (1 + np.exp(-np.dot(fitted, at))))
    deepest = max(one.k for one in found)
    near = [one for one in found if one.k >= min(k / 2, deepest)]
    spread = max(one.shares.std() / np.sqrt(len(one.shares)) for one in near)
    return float(np.mean(guesses)), float(np.hypot(spread, np.ptp(guesses) / 2))
