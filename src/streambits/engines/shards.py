"""Shards: what is learned from a partition, and the tree in which shards become one learner.

Merging rounds, so its order matters to the last bits. It is fixed: neighbours by the number of
their partition, then neighbours of those, whatever arrives first and however often. The same
partitions then give the same bits on any engine and with any number of workers.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from streambits._arrays import to_numpy
from streambits.engines.partitions import Partition, good, partition_errors
from streambits.errors import InputError, MergeError
from streambits.features import GaussianAffinity
from streambits.model.coder import REACH
from streambits.model.learner import Learner
from streambits.storage import register

EXAMINED = 1024  # rows of a shard's sample that are compared to the landmarks


class Report(NamedTuple):
    """What a worker reports of a partition that it has learned; the coordinator decides.

    Attributes
    ----------
    number : int
    name : str
    rows : int
        That were learned.
    out_of_reach : float
        Share of them, by a sample, that no landmark reaches: evidence that the stream has moved.
    """

    number: int
    name: str
    rows: int
    out_of_reach: float = 0.0


class Shard:
    """A learner that has seen some partitions, and which they are.

    Parameters
    ----------
    learner : Learner
        Made by `learner.shard(number)`, so it never begins an epoch.
    reports : sequence of Report
        One for each partition.

    Notes
    -----
    Partitions are added once: a shard whose partitions are all here already changes nothing.
    Memory is that of a learner, and some bytes per partition.
    """

    def __init__(self, learner: Learner, reports: Sequence[Report]) -> None:
        self.learner = learner
        self.reports = {one.number: one for one in sorted(reports)}

    @property
    def parts(self) -> frozenset[int]:
        """Numbers of the partitions."""
        return frozenset(self.reports)

    def merge(self, other: "Shard") -> Self:
        """Add what another shard has learned, which stays as it is.

        Raises
        ------
        MergeError
            If only some of its partitions are here already, or the learners do not fit.
        """
        both = self.parts & other.parts
        if both and both != other.parts:
            raise MergeError(
                f"partition {min(both)} is in both shards, and partition "
                f"{min(other.parts - both)} in one: partitions are learned once, so merge shards "
                f"that do not overlap"
            )
        if not both:
            self.learner.merge(other.learner)
            self.reports = dict(sorted((self.reports | other.reports).items()))
        return self

    def state(self) -> dict[str, Any]:
        reports = [list(one) for one in self.reports.values()]
        return {"learner": self.learner, "plain": json.dumps(reports)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(state["learner"], [Report(*one) for one in json.loads(state["plain"])])


register(Shard, model=True)


def learn_partition(learner: Learner, partition: Partition) -> Shard:
    """Learn a partition into a fresh shard.

    Parameters
    ----------
    learner : Learner
        What all shards begin from; it stays as it is.
    partition : Partition

    Returns
    -------
    Shard
        The same bits however often, wherever and in whatever batches it is learned.

    Raises
    ------
    InputError, StorageError
        If the partition cannot be read, has a bad row, or rows of another width; the message names
        it.
    """
    with partition_errors(partition):
        shard = learner.shard(partition.number)
        for batch in good(partition):
            check_width(int(batch.rows.shape[1]), shard.features.inputs)
            shard.learn(batch.rows)
        return Shard(
            shard, [Report(partition.number, partition.name, shard.seen, _out_of_reach(shard))]
        )


def check_width(width: int, inputs: int) -> None:
    """Refuse rows of another width than those of the model."""
    if width != inputs:
        raise InputError(
            f"its rows have {width} numbers, and the model has rows of {inputs}: use rows and a "
            f"model of the same dimensions"
        )


def _out_of_reach(shard: Learner) -> float:
    """The share of rows that no landmark reaches."""
    if not (shard.seen and isinstance(shard.features, GaussianAffinity)):
        return 0.0
    state = shard.state()  # of a few rows, all wait for a full block
    sample, waiting = state["sample"], state["waiting"]
    rows = sample.part(EXAMINED) if sample.seen else waiting[:EXAMINED, :]
    return float(np.mean(to_numpy(shard.features.closest(rows)) < REACH))


class _Monoid(Protocol):
    def merge(self, other: Any, /) -> Any: ...


M = TypeVar("M", bound=_Monoid)


class Merge(NamedTuple):
    """A node of the tree: `left` and `right` become `left`, which covers up to `stop`.

    The node of a partition has its number; a merged one that of its first partition.
    """

    left: int
    right: int
    stop: int


def merge_order(count: int) -> Iterator[Merge]:
    """The merges of `count` partitions: neighbours, then neighbours of those.

    Yields
    ------
    Merge
        Each after those that it depends on, and as early as its partitions allow: whoever goes
        through partitions and merges in this order holds at most log2(count) + 1 shards.

    Examples
    --------
    >>> [(left, right) for left, right, _ in merge_order(5)]
    [(0, 1), (2, 3), (0, 2), (0, 4)]
    """
    yield from _merges(0, count)


def _merges(start: int, stop: int) -> Iterator[Merge]:
    if stop - start < 2:
        return
    half = 1 << ((stop - start - 1).bit_length() - 1)  # the left side is a full tree
    yield from _merges(start, start + half)
    yield from _merges(start + half, stop)
    yield Merge(start, start + half, stop)


class MergeTree:
    """Merges what comes from partitions, in any order of arrival, in the order of `merge_order`.

    Parameters
    ----------
    count : int
        Number of partitions.

    Notes
    -----
    What is added belongs to the tree. It holds what cannot be merged yet: at most log2(count) + 1
    if partitions come in their order, at most half of them otherwise.

    Examples
    --------
    >>> from collections import Counter
    >>> class Count(Counter):
    ...     def merge(self, other):
    ...         self.update(other)
    ...         return self
    >>> tree = MergeTree(3)
    >>> [tree.add(n, Count({n: 1})) for n in (2, 0, 2, 1)]
    [True, True, False, True]
    >>> sorted(tree.result().items())
    [(0, 1), (1, 1), (2, 1)]
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._parents: dict[tuple[int, int], tuple[int, int, int]] = {}
        for left, right, stop in merge_order(count):
            self._parents[left, right] = self._parents[right, stop] = (left, right, stop)
        self._held: dict[tuple[int, int], Any] = {}
        self._added: set[int] = set()

    @property
    def missing(self) -> list[int]:
        """Partitions that were not added yet."""
        return sorted(set(range(self.count)) - self._added)

    def add(self, number: int, part: _Monoid) -> bool:
        """Add what a partition gave; returns whether it is new. A second time changes nothing."""
        if not 0 <= number < self.count:
            raise MergeError(f"partition {number} is not one of {self.count}")
        if number in self._added:
            return False
        self._added.add(number)
        place, held = (number, number + 1), part
        while place in self._parents:
            left, right, stop = self._parents[place]
            other = self._held.pop((right, stop) if place == (left, right) else (left, right), None)
            if other is None:
                break
            held = held.merge(other) if place == (left, right) else other.merge(held)
            place = (left, stop)
        self._held[place] = held
        return True

    def result(self) -> Any:
        """What all partitions together are.

        Raises
        ------
        MergeError
            If one is missing.
        """
        if self.missing or not self.count:
            named = ", ".join(map(str, self.missing[:5])) or "all"
            raise MergeError(f"partitions are missing: {named}")
        return self._held[0, self.count]


def finished(learner: Learner, whole: Shard) -> Learner:
    """What a coordinator returns: the learner it began with, and all that the shards learned.

    Parameters
    ----------
    learner : Learner
        It stays as it is. If it has learned rows, they are kept.
    whole : Shard
        Of all partitions.

    Returns
    -------
    Learner
        With the epoch and the monitor of `learner`: it can go on as a stream.
    """
    state = learner.state()
    # Without its monitor, which would judge the stream by the few rows that wait in the shards.
    both = Learner.from_state(state | {"monitor": None}).merge(whole.learner)
    return Learner.from_state(both.state() | {"monitor": state["monitor"]})
