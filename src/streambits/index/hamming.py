"""HammingIndex: codes under ids, and their exact neighbours."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LAST_ID, as_choice, as_count, as_ids
from streambits.codes import Coded, Codes, as_bits
from streambits.errors import EpochError, InputError
from streambits.index.across import nearest
from streambits.index.hits import Hits, merged_rows, none
from streambits.index.ids import Ids, check_unique
from streambits.index.queries import as_scales, by_epoch, check_bits
from streambits.index.segment import METHODS
from streambits.index.shelf import Shelf


class HammingIndex:
    """Exact neighbours in Hamming space among codes that come, change and go.

    Equal distances are ordered by id, so hits depend on the codes and ids that are in the index,
    and on nothing else: not on threads, blocks, the order of insertion or the way of searching.
    A call that raises has changed nothing. Codes of several epochs may be in it; a search then
    needs the queries as each epoch's coder encodes them, and compares distances as they are.

    A scan looks at every code: n bits / 64 words a query, on as many threads as BLAS may use.
    Multi-index tables look at few of them. A removal takes about a microsecond in a batch.
    Memory: 8 bytes for every 64 bits of a code and 9 for its id, and at most an eighth more;
    with tables 3 to 4 times as much.

    bits: 1 to 4096, of every code. method: 'scan', 'multi' (tables), or 'auto': tables of large
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

    def __init__(self, bits: int, *, method: str = "auto") -> None:
        self.bits = as_bits(bits)
        self.method = as_choice(method, "method", METHODS)
        self._shelves: dict[int, Shelf] = {}
        self._next = 0  # the next id by default

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
        count = len(codes)
        chosen = self._default(count) if ids is None else _paired(ids, count)
        there = self._has(chosen)
        if there.any():
            raise InputError(
                f"the id {chosen[there][0]} is in the index already: "
                f"{'pass ids that are free' if ids is None else 'update it, or remove it first'}"
            )
        self._put(chosen, codes)
        self._next += count if ids is None else 0

    def remove(self, ids: Any) -> None:
        """Take out codes; every id must be in the index, and given once."""
        chosen = as_ids(ids)
        check_unique(chosen)
        self._drop(chosen)

    def update(self, codes: Codes, ids: Any) -> None:
        """Give ids that are in the index other codes, of the same epoch or another."""
        check_bits(codes, self.bits)
        chosen = _paired(ids, len(codes))
        self._check_there(chosen)
        shelf = self._shelves.get(codes.epoch)
        stay = shelf.has(chosen) if shelf else np.zeros(len(chosen), np.bool_)
        if shelf:
            shelf.update(chosen[stay], codes.words()[stay])
        self._drop(chosen[~stay])
        self._put(chosen[~stay], codes[~stay])

    def get(self, ids: Any) -> Codes:
        """The codes of ids in the index, all of one epoch."""
        chosen = as_ids(ids)
        self._check_there(chosen)
        for epoch, shelf in self._shelves.items():
            there = shelf.has(chosen)
            if there.all():
                return Codes.from_words(shelf.take(chosen), self.bits, epoch)
            if there.any():
                raise EpochError(
                    f"the id {chosen[there][0]} is of epoch {epoch} and the id {chosen[~there][0]} "
                    f"of another: get the codes of each epoch by themselves"
                )
        return Codes.from_words(np.empty((0, -(-self.bits // 64)), np.uint64), self.bits)

    def has(self, ids: Any) -> NDArray[np.bool_]:
        """(n,) whether each of the ids is in the index."""
        return self._has(as_ids(ids))

    def coded(self, size: int = 65536) -> Iterator[Coded]:
        """All ids and codes, at most `size` at a time, by epoch and then by id."""
        size = as_count(size, "size")
        for epoch in self.epochs:
            shelf = self._shelves[epoch]
            ids = shelf.ids
            for start in range(0, len(ids), size):
                some = ids[start : start + size]
                yield Coded(some, Codes.from_words(shelf.take(some), self.bits, epoch))

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
        what a Hamming distance means there, for each query (`Coders.scales`). Hits are merged by,
        and come with, these; without them, by plain distances.
        """
        asked, count = by_epoch(queries, self.bits, self._shelves, weights)
        k = as_count(k, "k")
        shelves = self._shelves if allow is None else self._among(as_ids(allow, "allow"))
        checked = None if scales is None else as_scales(scales, asked, self.bits)
        best = nearest(shelves, asked, k, checked)
        if best is not None:
            return best
        real = checked is not None or any(query.weights is not None for query in asked.values())
        return none(count, np.float64 if real else np.int32)

    def within(self, queries: Any, radius: int) -> list[Hits]:
        """For every query all codes that differ from it in at most `radius` bits.

        queries: Codes, or for an index of several epochs a mapping from each of them to Codes.
        """
        asked, count = by_epoch(queries, self.bits, self._shelves)
        if any(query.weights is not None for query in asked.values()):
            raise InputError("a radius counts bits, and queries has real values: pass Codes")
        radius = min(as_count(radius, "radius", least=0), self.bits)
        found = [self._shelves[e].within(asked[e].words, radius) for e in self.epochs]
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
        return bool(self._has(np.array([value], np.int64))[0])

    def __iter__(self) -> Iterator[int]:
        """The ids, ascending, as they were when the iteration began."""
        parts = [shelf.ids for shelf in self._shelves.values()]
        return map(int, np.sort(np.concatenate(parts)) if parts else ())

    def __repr__(self) -> str:
        return f"HammingIndex({len(self)} x {self.bits} bits)"

    def state(self) -> dict[str, Any]:
        shelves = {str(epoch): shelf.state() for epoch, shelf in self._shelves.items()}
        return {"bits": self.bits, "method": self.method, "next": self._next, "shelves": shelves}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        index = cls(state["bits"], method=state["method"])
        index._next = state["next"]
        for epoch, shelf in state["shelves"].items():
            index._shelves[int(epoch)] = Shelf.from_state(shelf, index.bits, index.method)
        return index

    def _has(self, ids: Ids) -> NDArray[np.bool_]:
        there = np.zeros(len(ids), np.bool_)
        for shelf in self._shelves.values():
            there |= shelf.has(ids)
        return there

    def _check_there(self, ids: Ids) -> None:
        there = self._has(ids)
        if not there.all():
            raise InputError(f"the id {ids[~there][0]} is not in the index: add it first")

    def _put(self, ids: Ids, codes: Codes) -> None:
        if len(ids):
            empty = Shelf(self.bits, self.method)
            self._shelves.setdefault(codes.epoch, empty).add(ids, codes.words())

    def _drop(self, ids: Ids) -> None:
        """Take out ids, if all are there; an epoch without codes is gone."""
        found = [place for shelf in self._shelves.values() for place in shelf.places(ids)]
        if sum(len(places) for _, _, places in found) < len(ids):
            self._check_there(ids)
        for segment, _, places in found:
            segment.remove(places)
        for shelf in self._shelves.values():
            shelf.tidy()
        self._shelves = {epoch: shelf for epoch, shelf in self._shelves.items() if shelf.segments}

    def _among(self, ids: Ids) -> dict[int, Shelf]:
        """Shelves of these ids alone."""
        ids, few = np.unique(ids), {}
        for epoch, shelf in self._shelves.items():
            some = ids[shelf.has(ids)]
            if len(some):
                few[epoch] = Shelf(self.bits, "scan")
                few[epoch].add(some, shelf.take(some))
        return few

    def _default(self, count: int) -> Ids:
        return np.arange(self._next, self._next + count, dtype=np.int64)


def _paired(ids: Any, count: int) -> Ids:
    chosen = as_ids(ids)
    if len(chosen) != count:
        raise InputError(f"there are {len(chosen)} ids for {count} codes: pass one id a code")
    check_unique(chosen)
    return chosen
