"""Segment: a store, and the way it is searched."""

import timeit
from collections.abc import Callable
from typing import Any, Self

from streambits._threads import ForkSafeLock
from streambits.index import scan, weighted
from streambits.index.multi_index import Tables
from streambits.index.scan import Distances, Limits
from streambits.index.store import SLACK, Places, Store, Words

STRATEGIES = ("auto", "scan", "multi")
LEAST_CODES = 1 << 17  # below this a scan takes less than a tenth of a millisecond
MOST_WORDS = 4  # tables of longer codes take too much memory to build them unasked
TABLES_PAY = 600  # queries scanned that cost as much as building tables does
TRIAL = 16  # queries on which tables must beat the scan
_building = ForkSafeLock()  # held by the thread that builds tables


class Segment:
    """Codes in one store; tables of them are built when they pay.

    strategy 'scan' looks at every code, 'multi' uses multi-index tables, 'auto' scans until its
    scans have cost as much as building the tables, builds them, and keeps them if they answer the
    queries at hand faster. Whichever it is, the answers are the same, so that it does not matter
    to one thread when another has built the tables. Like its store, a segment keeps its codes.
    """

    def __init__(
        self, store: Store, bits: int, strategy: str, tables: Tables | None = None
    ) -> None:
        self.store, self.bits, self.strategy, self.tables = store, bits, strategy, tables
        self._scanned = 0  # queries since the codes last changed

    def __len__(self) -> int:
        return len(self.store)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + (self.tables.nbytes if self.tables else 0)

    def nearest(
        self, queries: Words, k: int, limits: Limits | None = None
    ) -> tuple[Places, Distances]:
        """The k nearest places of every query, k at most the number of codes; see `scan`."""
        way = self._way(queries, k)
        if way is scan:
            return scan.nearest(*self._codes, queries, k, limits=limits)
        found: tuple[Places, Distances] = way.nearest(*self._codes, queries, k)
        return found

    def part(self, queries: Words, k: int) -> scan.Part | None:
        """What is to be scanned for the k nearest; None if it is not scanned."""
        if self._way(queries, k) is not scan:
            return None
        return scan.part(*self._codes, queries, min(k, len(self)))

    def within(self, queries: Words, radius: int) -> list[tuple[Places, Distances]]:
        """For every query the places within the radius."""
        way = self._way(queries, 1)
        found: list[tuple[Places, Distances]] = way.within(*self._codes, queries, radius)
        return found

    def weighted(self, queries: Words, weights: Any, k: int) -> tuple[Places, Any]:
        """The k nearest places of every query where each bit that differs has its weight."""
        return weighted.nearest(*self._codes, queries, weights, k)

    def appended(self, ids: Any, words: Words) -> "Segment":
        """With codes under ids above all others; not beside tables."""
        return Segment(self.store.appended(ids, words), self.bits, self.strategy)

    def without(self, places: Places, *, in_place: bool = False) -> "Segment":
        """Without some codes; beside tables four times as many may lie dead, as they cost more."""
        store, tables = self.store.without(places, in_place=in_place), self.tables
        if store.dead * (SLACK // 4 if tables else SLACK) > store.end:
            return Segment(store.compact(), self.bits, self.strategy)
        rest = Segment(store, self.bits, self.strategy, tables)
        rest._scanned = self._scanned
        return rest

    def union(self, other: "Segment") -> "Segment":
        return Segment(self.store.union(other.store), self.bits, self.strategy)

    @property
    def _codes(self) -> tuple[Words, Any, int]:
        return self.store.words, self.store.alive, self.store.end

    def _way(self, queries: Words, k: int) -> Any:
        """The scan or the tables; a scan as well while another thread builds the tables."""
        if self.tables is None and self.strategy != "scan" and _building.acquire(blocking=False):
            try:
                self._consider(queries, k)
            finally:
                _building.release()
        return self.tables or scan

    def _consider(self, queries: Words, k: int) -> None:
        if self.tables is not None:  # another thread was faster
            return
        if self.strategy == "multi":
            self.tables = self._built()
            return
        self._scanned += len(queries)
        small = self.store.end < LEAST_CODES or len(self.store.words) > MOST_WORDS
        if small or self._scanned < TABLES_PAY:
            return
        tables, some = self._built(), queries[:TRIAL]
        if _seconds(lambda: tables.nearest(*self._codes, some, k)) < _seconds(
            lambda: scan.nearest(*self._codes, some, k)
        ):
            self.tables = tables
        else:
            self._scanned = -(1 << 62)  # not again until the codes change

    def _built(self) -> Tables:
        return Tables(self.store.words[:, : self.store.end], self.bits)

    def state(self) -> dict[str, Any]:
        return {"store": self.store.state(), "tables": self.tables}

    @classmethod
    def from_state(cls, state: dict[str, Any], bits: int, strategy: str) -> Self:
        """From arrays that may be maps of a file: none is read; `check` reads them."""
        store, tables = Store.from_state(state["store"], bits), state["tables"]
        if tables is not None:
            tables.check_shapes(bits, store.end)
        return cls(store, bits, strategy, tables)

    def check(self) -> None:
        """Refuse contents that cannot be: a kernel would follow them out of its arrays."""
        self.store.check(self.bits)
        if self.tables is not None:
            self.tables.check()


def _seconds(work: Callable[[], Any]) -> float:
    """The faster of two goes."""
    return min(timeit.repeat(work, repeat=2, number=1))
