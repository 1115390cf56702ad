"""HammingIndex: codes under ids, and their exact neighbours."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LAST_ID, as_choice, as_count, as_ids
from streambits._threads import ForkSafeLock
from streambits.errors import EpochError, ForkError, InputError
from streambits.index.across import nearest
from streambits.index.hits import Hits, merged_rows, none
from streambits.index.ids import Ids, check_unique
from streambits.index.queries import as_scales, by_epoch, check_bits
from streambits.index.segment import STRATEGIES
from streambits.index.shelf import Shelf
from streambits.model.batches import CodeBatch
from streambits.model.codes import Codes, as_bits

Shelves = Mapping[int, Shelf]  # by epoch; never changed, only replaced


class HammingIndex:
    """Exact neighbours in Hamming space among codes that come, change and go.

    Equal distances are ordered by id, so hits depend on the codes and ids that are in the index,
    and on nothing else: not on threads, blocks, the order of insertion or the way of searching.
    A call that raises has changed nothing. Codes of several epochs may be in it; a search then
    needs the queries as each epoch's coder encodes them, and compares distances as they are.

    Any number of threads may search, read and change an index at the same time. Every call sees the
    codes as they were at one moment, and a change is seen whole or not at all; changes wait for
    each other, and searches wait for no change that began while another search was going on. An
    index that was loaded from a file is verified before the first call that needs its codes.

    A scan looks at every code: n bits / 64 words a query, on as many threads as BLAS may use.
    Multi-index tables look at few of them. A removal takes about a microsecond in a batch.
    Memory: 8 bytes for every 64 bits of a code and 9 for its id, and at most an eighth more;
    with tables 3 to 4 times as much.

    bits: 1 to 4096, of every code. strategy: 'scan', 'multi' (tables), or 'auto': tables of large
    segments, once scans have cost as much as building them, if they prove faster.

    >>> index = HammingIndex(3)
    >>> index.add(Codes.from_bits([[0, 0, 0], [0, 1, 1], [1, 1, 1]]), [10, 20, 30])
    >>> hits = index.search(Codes.from_bits([[0, 0, 1]]), k=2)
    >>> hits.ids.tolist(), hits.distances.tolist()
    ([[10, 20]], [[1, 1]])
    >>> index.search([[-0.1, -0.2, 0.9]], k=2).ids.tolist()  # the last bit is sure
    [[20, 30]]
    >>> index.remove([10])
    >>> [hits.ids.tolist() for hits in index.within(Codes.from_bits([[0, 0, 1]]), radius=2)]
    [[20, 30]]
    >>> len(index), 10 in index, list(index), index.has([10, 20]).tolist()
    (2, False, [20, 30], [False, True])
    """

    def __init__(self, bits: int, *, strategy: str = "auto") -> None:
        self.bits = as_bits(bits)
        self.strategy = as_choice(strategy, "strategy", STRATEGIES)
        self._shelves: Shelves = {}
        self._next = 0  # the next id by default
        self._changes = ForkSafeLock()  # held by the one that changes the codes
        self._lock = ForkSafeLock()  # held for moments, and while codes change in place
        self._readers = 0  # calls that read what is held now, or was before a change
        self._half = False  # whether codes are being changed in place
        self._unverified: Callable[[], None] | None = None

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs of the codes held."""
        return tuple(sorted(self._shelves))

    @property
    def nbytes(self) -> int:
        return sum(shelf.nbytes for shelf in self._shelves.values())

    def add(self, codes: Codes, ids: Any = None) -> None:
        """Insert codes under new ids; without ids, under 0, 1, 2, ... in the order they come.

        ids: (n,) integers of 64 bits, none of them in the index or there twice.
        """
        check_bits(codes, self.bits)
        self.verify()
        with self._changes:
            chosen = self._default(len(codes)) if ids is None else _paired(ids, len(codes))
            there = _has(self._shelves, chosen)
            if there.any():
                remedy = (
                    "pass ids that are free" if ids is None else "update it, or remove it first"
                )
                raise InputError(f"the id {chosen[there][0]} is in the index already: {remedy}")
            self._shelves = self._put(self._shelves, chosen, codes)
            self._next += len(codes) if ids is None else 0

    def remove(self, ids: Any) -> None:
        """Take out codes; every id must be in the index, and given once."""
        chosen = as_ids(ids)
        check_unique(chosen)
        self.verify()
        with self._changes:
            self._replace(lambda shelves, alone: _without(shelves, chosen, in_place=alone))

    def update(self, codes: Codes, ids: Any) -> None:
        """Give ids that are in the index other codes, of the same epoch or another."""
        check_bits(codes, self.bits)
        chosen, words = _paired(ids, len(codes)), codes.words()

        def changed(shelves: Shelves, alone: bool) -> Shelves:
            _check_there(shelves, chosen)
            moved = np.ones(len(chosen), np.bool_)
            if alone and codes.epoch in shelves:
                moved = ~shelves[codes.epoch].overwrite(chosen, words)
            rest = _without(shelves, chosen[moved], in_place=alone)
            return self._put(rest, chosen[moved], codes[moved])

        self.verify()
        with self._changes:
            self._replace(changed)

    def _replace(self, change: Callable[[Shelves, bool], Shelves]) -> None:
        """Put what `change` makes of the codes in their place; inside `_changes`.

        It is told whether it is alone: if no call reads the codes, it may write to them, and calls
        that come wait; otherwise it leaves them as they are, and nobody waits.
        """
        with self._lock:
            self._check_whole()
            if not self._readers:
                self._half = True
                try:
                    self._shelves = change(self._shelves, True)
                finally:
                    self._half = False
                return
        self._shelves = change(self._shelves, False)

    @contextmanager
    def pinned(self) -> Iterator[Shelves]:
        """The codes as they are now; they stay so inside, whatever other threads change."""
        self.verify()
        with self._lock:
            self._check_whole()
            self._readers += 1
            shelves = self._shelves
        try:
            yield shelves
        finally:
            with self._lock:
                self._readers -= 1

    def _check_whole(self) -> None:
        """Inside the lock nobody changes codes, unless that somebody stayed behind in a fork."""
        if self._half:
            raise ForkError(
                "this process was forked while another thread was changing the index: load the "
                "index again, or fork while no thread changes it"
            )

    def verify(self) -> None:
        """Check the codes of an index that was loaded from a file against their digests.

        Done once, at the latest when they are first needed; raises `StorageError` if the file is
        damaged. Reads all of it.
        """
        if self._unverified is None:
            return
        with self._changes:
            if self._unverified is not None:
                self._unverified()
                self._unverified = None

    def verify_by(self, check: Callable[[], None]) -> None:
        """Call `check`, which raises if the codes are damaged, before they are first used."""
        self._unverified = check

    def check(self) -> None:
        """Raise ValueError if the codes contradict themselves, so that a search could not be right.

        Only a file can bring that about.
        """
        for shelf in self._shelves.values():
            shelf.check()

    def get(self, ids: Any) -> Codes:
        """The codes of ids in the index, all of one epoch."""
        chosen = as_ids(ids)
        with self.pinned() as shelves:
            _check_there(shelves, chosen)
            for epoch, shelf in shelves.items():
                there = shelf.has(chosen)
                if there.all():
                    return Codes.from_words(shelf.take(chosen), self.bits, epoch)
                if there.any():
                    raise EpochError(
                        f"the id {chosen[there][0]} is of epoch {epoch} and the id "
                        f"{chosen[~there][0]} of another: get the codes of each epoch by themselves"
                    )
        return Codes.from_words(np.empty((0, -(-self.bits // 64)), np.uint64), self.bits)

    def has(self, ids: Any) -> NDArray[np.bool_]:
        """(n,) whether each of the ids is in the index."""
        with self.pinned() as shelves:
            return _has(shelves, as_ids(ids))

    def coded(self, size: int = 65536) -> Iterator[CodeBatch]:
        """All ids and codes, at most `size` at a time, by epoch and then by id.

        As they were when the first was asked for; until the last is, changes take longer.
        """
        size = as_count(size, "size")
        with self.pinned() as shelves:
            for epoch in sorted(shelves):
                ids = shelves[epoch].ids
                for start in range(0, len(ids), size):
                    some = ids[start : start + size]
                    words = shelves[epoch].take(some)
                    yield CodeBatch(some, Codes.from_words(words, self.bits, epoch))

    def search(
        self, queries: Any, k: int, *, weights: Any = None, allow: Any = None, scales: Any = None
    ) -> Hits:
        """The k nearest codes of every query, or all of them if there are fewer.

        queries: Codes; or (n, bits) real values, as coder.project gives: a bit that differs then
        costs the size of its value, which ranks better than counting bits; or, for an index of
        several epochs, a mapping from each of them to either.
        weights: (bits,) what a bit that differs costs, 1 by default. Only with codes and without
        weights are distances whole numbers, and tables used.
        allow: ids to choose from; those that are not in the index do not matter.
        scales: for several epochs of codes, a mapping from each to (n, bits + 1) rising numbers:
        what a Hamming distance means there, for each query (`CoderSet.scales`). Hits are merged by,
        and come with, these; without them, by plain distances.
        """
        k = as_count(k, "k")
        with self.pinned() as shelves:
            asked, count = by_epoch(queries, self.bits, shelves, weights)
            checked = None if scales is None else as_scales(scales, asked, self.bits)
            chosen = shelves if allow is None else self._among(shelves, as_ids(allow, "allow"))
            best = nearest(chosen, asked, k, checked)
        if best is not None:
            return best
        real = checked is not None or any(query.weights is not None for query in asked.values())
        return none(count, np.float64 if real else np.int32)

    def within(self, queries: Any, radius: int) -> list[Hits]:
        """For every query all codes that differ from it in at most `radius` bits.

        queries: Codes, or for an index of several epochs a mapping from each of them to Codes.
        """
        radius = min(as_count(radius, "radius", least=0), self.bits)
        with self.pinned() as shelves:
            asked, count = by_epoch(queries, self.bits, shelves)
            if any(query.weights is not None for query in asked.values()):
                raise InputError("a radius counts bits, and queries has real values: pass Codes")
            found = [shelves[e].within(asked[e].words, radius) for e in sorted(shelves)]
        if not found:
            return [Hits(np.empty(0, np.int64), np.empty(0, np.int32)) for _ in range(count)]
        return [merged_rows(parts) for parts in zip(*found, strict=True)]

    def __len__(self) -> int:
        return sum(map(len, self._shelves.values()))

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            return False
        if not -LAST_ID - 1 <= value <= LAST_ID:
            return False
        return bool(self.has(np.array([value], np.int64))[0])

    def __iter__(self) -> Iterator[int]:
        """The ids, ascending, as they were when the iteration began."""
        with self.pinned() as shelves:
            parts = [shelf.ids for shelf in shelves.values()]
        return map(int, np.sort(np.concatenate(parts)) if parts else ())

    def __repr__(self) -> str:
        return f"HammingIndex({len(self)} x {self.bits} bits)"

    def state(self) -> dict[str, Any]:
        """Shares its arrays with the index: they are as they are now while inside `pinned`."""
        with self.pinned() as held:
            shelves = {str(epoch): shelf.state() for epoch, shelf in held.items()}
        return {
            "bits": self.bits,
            "strategy": self.strategy,
            "next": self._next,
            "shelves": shelves,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """From arrays that may be maps of a file: none is read; `check` reads them."""
        index = cls(state["bits"], strategy=state["strategy"])
        index._next = as_count(state["next"], "next", least=0, most=LAST_ID + 1)
        index._shelves = {
            as_count(int(epoch), "epoch", least=0): Shelf.from_state(
                shelf, index.bits, index.strategy
            )
            for epoch, shelf in state["shelves"].items()
        }
        return index

    def _put(self, shelves: Shelves, ids: Ids, codes: Codes) -> Shelves:
        if not len(ids):
            return shelves
        shelf = shelves.get(codes.epoch) or Shelf(self.bits, self.strategy)
        return {**shelves, codes.epoch: shelf.added(ids, codes.words())}

    def _among(self, shelves: Shelves, ids: Ids) -> Shelves:
        """Shelves of these ids alone."""
        ids, few = np.unique(ids), {}
        for epoch, shelf in shelves.items():
            some = ids[shelf.has(ids)]
            if len(some):
                few[epoch] = Shelf(self.bits, "scan").added(some, shelf.take(some))
        return few

    def _default(self, count: int) -> Ids:
        if self._next + count > LAST_ID + 1:
            raise InputError(f"the ids 0 to {LAST_ID} are used up: pass ids of your own")
        return np.arange(self._next, self._next + count, dtype=np.int64)


def _has(shelves: Shelves, ids: Ids) -> NDArray[np.bool_]:
    there = np.zeros(len(ids), np.bool_)
    for shelf in shelves.values():
        there |= shelf.has(ids)
    return there


def _check_there(shelves: Shelves, ids: Ids) -> None:
    there = _has(shelves, ids)
    if not there.all():
        raise InputError(f"the id {ids[~there][0]} is not in the index: add it first")


def _without(shelves: Shelves, ids: Ids, *, in_place: bool) -> Shelves:
    """Without ids, if all are there; an epoch without codes is gone."""
    found = {epoch: shelf.find(ids) for epoch, shelf in shelves.items()}
    if sum(len(places) for parts in found.values() for places in parts) < len(ids):
        _check_there(shelves, ids)
    rest = {e: shelf.without(found[e], in_place=in_place) for e, shelf in shelves.items()}
    return {epoch: shelf for epoch, shelf in rest.items() if shelf.segments}


def _paired(ids: Any, count: int) -> Ids:
    chosen = as_ids(ids)
    if len(chosen) != count:
        raise InputError(f"there are {len(chosen)} ids for {count} codes: pass one id per code")
    check_unique(chosen)
    return chosen
