"""HammingIndex: codes under ids, and their exact neighbours."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LAST_ID, as_count, as_ids
from streambits.codes import Codes, as_bits
from streambits.errors import EpochError, InputError
from streambits.index import scan
from streambits.index.hits import Hits
from streambits.index.ids import Ids, check_unique
from streambits.index.store import Store


class HammingIndex:
    """Exact neighbours in Hamming space among codes that come, change and go.

    Equal distances are ordered by id, so hits depend on the codes and ids that are in the index,
    and on nothing else: not on threads, blocks or the order of insertion. A call that raises has
    changed nothing.

    A search looks at every code: n bits / 64 words a query, on as many threads as BLAS may use.
    A removal takes about a microsecond in a batch. Ids above all others are appended; adding
    any others passes over the whole index once a call, so add them in large batches.
    Memory: 8 bytes for every 64 bits of a code and 9 for its id, and at most an eighth more.

    bits: 1 to 4096, of every code.

    >>> index = HammingIndex(3)
    >>> index.add(Codes.from_bits([[0, 0, 0], [0, 1, 1], [1, 1, 1]]), [10, 20, 30])
    >>> hits = index.search(Codes.from_bits([[0, 0, 1]]), k=2)
    >>> hits.ids.tolist(), hits.distances.tolist()
    ([[10, 20]], [[1, 1]])
    >>> index.remove([10])
    >>> [hits.ids.tolist() for hits in index.within(Codes.from_bits([[0, 0, 1]]), radius=2)]
    [[20, 30]]
    >>> len(index), 10 in index, list(index)
    (2, False, [20, 30])
    """

    def __init__(self, bits: int) -> None:
        self.bits = as_bits(bits)
        self._store = Store(-(-self.bits // 64))
        self._next = 0  # the next id by default
        self._epoch = 0

    @property
    def epoch(self) -> int | None:
        """The epoch of all codes; None while there are none."""
        return self._epoch if len(self) else None

    @property
    def nbytes(self) -> int:
        return self._store.nbytes

    def add(self, codes: Codes, ids: Any = None) -> None:
        """Insert codes under new ids; without ids, under 0, 1, 2, ... in the order they come.

        ids: (n,) integers of 64 bits, none of them in the index or there twice.
        """
        self._check(codes)
        count = len(codes)
        chosen = self._default(count) if ids is None else self._paired(ids, count)
        there = self._store.find(chosen)[1]
        if there.any():
            raise InputError(
                f"the id {chosen[there][0]} is in the index already: "
                f"{'pass ids that are free' if ids is None else 'update it, or remove it first'}"
            )
        epoch = codes.epoch if count else self._epoch
        self._store.add(chosen, codes.words())
        self._epoch, self._next = epoch, self._next + (count if ids is None else 0)

    def remove(self, ids: Any) -> None:
        """Take out codes; every id must be in the index, and given once."""
        chosen = as_ids(ids)
        check_unique(chosen)
        self._store.remove(self._store.places(chosen))

    def update(self, codes: Codes, ids: Any) -> None:
        """Give ids that are in the index other codes."""
        self._check(codes)
        places = self._store.places(self._paired(ids, len(codes)))
        self._store.update(places, codes.words())

    def search(self, codes: Codes, k: int, *, allow: Any = None) -> Hits:
        """The k nearest codes of every query, or all of them if there are fewer.

        allow: ids to choose from; those that are not in the index do not matter.
        """
        self._check(codes)
        k = as_count(k, "k")
        if allow is not None:
            return self._search_among(codes, k, as_ids(allow, "allow"))
        store = self._store
        if not (k := min(k, len(store))):
            return _nothing(len(codes))
        places, distances = scan.nearest(store.words, store.alive, store.end, codes.words(), k)
        return Hits(store.at(places), distances)

    def within(self, codes: Codes, radius: int) -> list[Hits]:
        """For every query all codes that differ from it in at most `radius` bits."""
        self._check(codes)
        radius = min(as_count(radius, "radius", least=0), self.bits)
        store = self._store
        if not len(store):
            return [Hits(np.empty(0, np.int64), np.empty(0, np.int32)) for _ in range(len(codes))]
        found = scan.within(store.words, store.alive, store.end, codes.words(), radius)
        return [Hits(store.at(places), distances) for places, distances in found]

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            return False
        if not -LAST_ID - 1 <= value <= LAST_ID:
            return False
        return bool(self._store.find(np.array([value], np.int64))[1][0])

    def __iter__(self) -> Iterator[int]:
        """The ids, ascending, as they were when the iteration began."""
        return map(int, self._store.ids)

    def __repr__(self) -> str:
        return f"HammingIndex({len(self)} x {self.bits} bits)"

    def _search_among(self, codes: Codes, k: int, allow: Ids) -> Hits:
        places, there = self._store.find(allow)
        ids, words = self._store.take(np.unique(places[there]))
        if not (k := min(k, len(ids))):
            return _nothing(len(codes))
        alive: NDArray[np.bool_] = np.ones(len(ids), np.bool_)
        found, distances = scan.nearest(words, alive, len(ids), codes.words(), k)
        return Hits(ids[found], distances)

    def _default(self, count: int) -> Ids:
        return np.arange(self._next, self._next + count, dtype=np.int64)

    def _paired(self, ids: Any, count: int) -> Ids:
        chosen = as_ids(ids)
        if len(chosen) != count:
            raise InputError(f"there are {len(chosen)} ids for {count} codes: pass one id a code")
        check_unique(chosen)
        return chosen

    def _check(self, codes: Codes) -> None:
        if not isinstance(codes, Codes):
            raise InputError(
                f"codes is a {type(codes).__name__}; pass streambits.Codes, as coder.encode gives"
            )
        if codes.bits != self.bits:
            raise InputError(
                f"codes have {codes.bits} bits, but this index holds codes of {self.bits}: "
                f"encode with a coder of {self.bits} bits"
            )
        if len(self) and len(codes) and codes.epoch != self._epoch:
            raise EpochError(
                f"codes are of epoch {codes.epoch}, and the index holds epoch {self._epoch}: "
                f"encode the rows again with the coder of epoch {self._epoch}"
            )


def _nothing(queries: int) -> Hits:
    return Hits(np.empty((queries, 0), np.int64), np.empty((queries, 0), np.int32))
