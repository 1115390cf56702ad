"""Shards: what workers do with a partition, and how what they made becomes one.

Merging learners rounds, so its order matters to the last bits. It is fixed: neighbours by the
number of their partition, then neighbours of those, whatever arrives first and however often. The
same partitions then give the same bits on any engine and with any number of workers.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from streambits._arrays import CheckedRows, to_numpy
from streambits.engines.partitions import Partition, good, partition_errors
from streambits.errors import InputError, MergeError, StorageError
from streambits.features import GaussianAffinity
from streambits.index import Hits
from streambits.index.keys import Keys
from streambits.io.codes import open_codes
from streambits.io.codes.parquet import made_from, part_facts, write_codes
from streambits.model.batches import CodeBatch
from streambits.model.coder import REACH, Coder, warn_of_reach
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.storage import register

EXAMINED = 1024  # rows of a shard's sample that are compared to the landmarks
GROUP_ROWS = 65536  # codes of a row group, at least


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
    """Return the learner that the shards began from, with all that they learned.

    Parameters
    ----------
    learner : Learner
        It stays as it is. If it has learned rows, they are kept.
    whole : Shard
        Of all partitions.

    Returns
    -------
    Learner
        With the epoch and the monitor of `learner`: it can go on as a stream. Warns of rows that no
        landmark reaches, which workers reported.
    """
    far = round(sum(one.out_of_reach * one.rows for one in whole.reports.values()))
    warn_of_reach(far, whole.learner.seen, "learned")
    state = learner.state()
    # Without its monitor, which would judge the stream by the few rows that wait in the shards.
    both = Learner.from_state(state | {"monitor": None}).merge(whole.learner)
    return Learner.from_state(both.state() | {"monitor": state["monitor"]})


class Part(NamedTuple):
    """The codes of a partition, in a file.

    Attributes
    ----------
    number : int
    name : str
        Of the partition.
    rows : int
    kept : bool
        Whether the file was there already.
    """

    number: int
    name: str
    rows: int
    kept: bool = False


def part_file(folder: str | Path, number: int) -> Path:
    """Return where the codes of a partition lie."""
    return Path(folder) / f"part-{number:06d}.parquet"


def encode_partition(
    coder: Coder, partition: Partition, folder: str | Path, made_by: str = ""
) -> Part:
    """Encode a partition into a Parquet file, unless that is there already.

    Parameters
    ----------
    coder : Coder
    partition : Partition
    folder : path
        Of the part files; it must be there.
    made_by : str, default ""
        Digest of the coder, which the footer of the file names beside the version of the
        partition. A file that names both is kept.

    Returns
    -------
    Part

    Raises
    ------
    InputError, StorageError
        If the partition cannot be read or encoded, or the folder is not there; the message names
        the partition.
    """
    with partition_errors(partition):
        if not Path(folder).is_dir():
            raise StorageError(
                f"{folder} is not there for this worker: the folder must be on a disk that all "
                f"workers and this process share"
            )
        path, version = part_file(folder, partition.number), partition.version()
        made = json.dumps([made_by, version])
        if version is not None and made_from(path) == made:
            return Part(partition.number, partition.name, part_facts(path).rows, kept=True)
        rows = 0

        def encoded() -> Iterator[CodeBatch]:
            nonlocal rows
            for batch in good(partition):
                check_width(int(batch.rows.shape[1]), coder.features.inputs)
                rows += len(batch.ids)
                yield CodeBatch(batch.ids, coder.encode(CheckedRows(batch.rows), warn=False))

        codes = _joined(encoded())
        write_codes(codes, coder.bits, path, refine=coder.refine, made_from=made)
        return Part(partition.number, partition.name, rows)


def _joined(batches: Iterable[CodeBatch]) -> Iterator[CodeBatch]:
    """The same codes, at least `GROUP_ROWS` at a time."""
    waiting: list[CodeBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(one.ids) for one in waiting) >= GROUP_ROWS:
            yield _concatenated(waiting)
            waiting = []
    if waiting:
        yield _concatenated(waiting)


def _concatenated(batches: Sequence[CodeBatch]) -> CodeBatch:
    ids, codes = zip(*batches, strict=True)
    return CodeBatch(np.concatenate(ids), Codes.concat(codes))


def search_shard(path: str | Path, queries: Any, k: int, **options: Any) -> Hits:
    """Search the codes of a file or folder, as `HammingIndex.search` does.

    Raises
    ------
    StorageError
        If a file has tombstones: they are of ids in other files, too.
    """
    if Path(path).suffix == ".parquet" and part_facts(Path(path)).tombstones:
        raise StorageError(
            f"{path} has tombstones, which have an order: search its folder as a whole, or "
            f"encode it again"
        )
    return open_codes(path).index().search(queries, k, **options)


def merge_hits(found: Sequence[Hits], k: int) -> Hits:
    """Return the k nearest over shards that have no id in common, as one index of all would.

    Parameters
    ----------
    found : sequence of Hits
        Of the same queries, one for each shard, in any order.
    k : int

    Returns
    -------
    Hits
        Equal distances in the order of ids, for texts of their hashes, as an index has them.

    Raises
    ------
    InputError
        If there are none, or an id is found twice for a query.
    """
    if not found:
        raise InputError("there are no shards to search: name some")
    some = [hits for hits in found if hits.ids.shape[1]] or [found[0]]
    ids = np.concatenate([hits.ids for hits in some], axis=1)
    distances = np.concatenate([hits.distances for hits in some], axis=1)
    numbers = Keys.of(ids.ravel()).numbers.reshape(ids.shape)
    order = np.lexsort((numbers, distances))[:, :k]
    merged = Hits(*(np.take_along_axis(part, order, axis=1) for part in (ids, distances)))
    ordered = np.sort(merged.ids, axis=1)
    twice = ordered[:, 1:] == ordered[:, :-1]
    if twice.any():
        query, place = np.argwhere(twice)[0]
        raise InputError(
            f"the id {ordered[query, place]} is in two shards: every id may be in one of them"
        )
    reads = [hits.reads for hits in found if hits.reads is not None]
    return replace(merged, reads=np.sum(reads, axis=0)) if len(reads) == len(found) else merged
