"""Segment: a store, and the way it is searched."""

import timeit
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from streambits._device import is_device
from streambits._threads import ForkSafeLock
from streambits.index.device import DeviceStore
from streambits.index.hits import Hits
from streambits.index.multi_index import Tables
from streambits.index.queries import Query
from streambits.index.scan import Limits, ScanTask, scan_nearest, scan_task, scan_within
from streambits.index.store import SLACK, Contents, Places, Store, Words
from streambits.index.weighted import weighted_nearest

STRATEGIES = ("auto", "scan", "multi")
TABLED = ("auto", "multi")
LEAST_CODES = 1 << 17  # below this a scan takes less than a tenth of a millisecond
MOST_WORDS = 4  # tables of longer codes take too much memory to build them unasked
TABLES_PAY = 600  # queries scanned that cost as much as building tables does
TRIAL, TRIAL_HITS = 16, 10  # queries on which tables must beat the scan; hits of each
_building = ForkSafeLock()  # held by the thread that builds tables


class Segment:
    """Codes in one store; tables of them are built when they pay.

    strategy 'scan' looks at every code, 'multi' uses multi-index tables, 'auto' scans until its
    scans have cost as much as building the tables, builds them, and keeps them if they answer the
    queries at hand faster; the name of a device scans there. Whichever it is, the answers are the
    same, so that it does not matter to one thread when another has built the tables. Like its
    store, a segment keeps its codes.
    """

    def __init__(
        self, store: Store, bits: int, strategy: str, tables: Tables | None = None
    ) -> None:
        self.store, self.bits, self.strategy, self.tables = store, bits, strategy, tables
        self._there: DeviceStore | None = None
        self._scanned = 0  # queries since the codes last changed
        # With weights or without: whether tables proved faster. Those that are there did without.
        self._faster: dict[bool, bool] = {False: True} if tables else {}

    def __len__(self) -> int:
        return len(self.store)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + (self.tables.nbytes if self.tables else 0)

    def hits(self, places: Places, distances: Any) -> Hits:
        """What was found at places, of any shape, by their ids."""
        return Hits(self.store.at(places), distances)

    def nearest(self, query: Query, k: int, limits: Limits | None = None) -> Hits:
        """The k nearest of every query, or all if there are fewer.

        limits: (queries,) only what is closer is of interest; other hits may be at `scan.FAR`.
        """
        return self.hits(*self.nearest_places(query, k, limits))

    def nearest_places(
        self, query: Query, k: int, limits: Limits | None = None
    ) -> tuple[Places, Any]:
        """The same as places (queries, k) and distances; equal ones by place."""
        k = min(k, len(self))
        if self.there is not None and query.weights is None:
            return self.there.nearest(query.words, k, limits)
        tables = self._tables_for(query, k)
        return self._scan(query, k, limits) if tables is None else self._look_up(tables, query, k)

    def _scan(self, query: Query, k: int, limits: Limits | None = None) -> tuple[Places, Any]:
        if query.weights is None:
            return scan_nearest(*self._codes, query.words, k, limits=limits)
        return weighted_nearest(*self._codes, query.words, query.weights, k)

    def _look_up(self, tables: Tables, query: Query, k: int) -> tuple[Places, Any]:
        if query.weights is None:
            return tables.nearest(*self._codes, query.words, k)
        return tables.nearest_weighted(*self._codes, (query.words, query.weights), k)

    @property
    def there(self) -> DeviceStore | None:
        """The codes on the device that the strategy names, put there when they are first asked for.

        Two threads at once may put them there twice.
        """
        if self._there is None and is_device(self.strategy):
            self._there = DeviceStore(self.store, self.strategy)
        return self._there

    def overwrite(self, places: Places, codes: Contents) -> None:
        """Other codes at places, for all that hold this segment: only if nobody reads it."""
        self.store.overwrite(places, codes)
        self._there = None

    def scan_task(self, queries: Words, k: int) -> ScanTask | None:
        """What is to be scanned for the k nearest; None if it is not scanned here."""
        k = min(k, len(self))
        if is_device(self.strategy) or self._tables_for(Query(queries, None), k) is not None:
            return None
        return scan_task(*self._codes, queries, k)

    def within(self, queries: Words, radius: int) -> list[Hits]:
        """For every query all that lie within the radius."""
        tables = self._tables_for(Query(queries, None), 1)
        if tables is None:
            found = scan_within(*self._codes, queries, radius)
        else:
            found = tables.within(*self._codes, queries, radius)
        return [self.hits(*one) for one in found]

    def appended(self, ids: Any, codes: Contents) -> "Segment":
        """With codes under ids above all others; not beside tables."""
        return Segment(self.store.appended(ids, codes), self.bits, self.strategy)

    def without(self, places: Places, *, in_place: bool = False) -> "Segment":
        """Without some codes; beside tables four times as many may lie dead, as they cost more."""
        store, tables = self.store.without(places, in_place=in_place), self.tables
        if store.dead * (SLACK // 4 if tables else SLACK) > store.end:
            return Segment(store.compact(), self.bits, self.strategy)
        rest = Segment(store, self.bits, self.strategy, tables)
        rest._scanned, rest._faster = self._scanned, dict(self._faster)
        return rest

    def union(self, other: "Segment") -> "Segment":
        return Segment(self.store.union(other.store), self.bits, self.strategy)

    @property
    def _codes(self) -> tuple[Words, Any, int]:
        return self.store.words, self.store.alive, self.store.end

    def build_tables(self) -> None:
        """Build the tables now that searches would build some time, if they would.

        With 'auto' some of the codes are the queries on which tables must beat the scan.
        """
        if self.strategy not in TABLED or not self.bits:  # without bits there is nothing to look up
            return
        with _building:
            if self.tables is not None:
                return
            step = -(-self.store.end // TRIAL)
            some = np.ascontiguousarray(self.store.words[:, : self.store.end : step].T)
            self._scanned, self._faster = TABLES_PAY, {}
            self._consider(Query(some, None), min(TRIAL_HITS, len(self)))

    def _tables_for(self, query: Query, k: int) -> Tables | None:
        """The tables, or None for a scan: so too while another thread builds or tries them."""
        kind = query.weights is not None
        if self.strategy not in TABLED or not self.bits:
            return None
        if (self.tables is None or kind not in self._faster) and _building.acquire(blocking=False):
            try:
                self._scanned += len(query.words)
                self._consider(query, k)
            finally:
                _building.release()
        return self.tables if self._faster.get(kind) else None

    def _consider(self, query: Query, k: int) -> None:
        """Build tables if they are asked for, or if they pay and are faster on such queries.

        Whether they are faster is tried once for queries with weights and once for those without,
        until the codes change.
        """
        kind = query.weights is not None
        if self.strategy == "multi":
            self.tables = self.tables or self._built()
            self._faster[kind] = True
        if kind in self._faster or not len(query.words):
            return
        small = self.store.end < LEAST_CODES or len(self.store.words) > MOST_WORDS
        if self.tables is None and (small or self._scanned < TABLES_PAY):
            return
        tables = self.tables or self._built()
        some = query.some(slice(TRIAL))
        self._faster[kind] = _seconds(lambda: self._look_up(tables, some, k)) < _seconds(
            lambda: self._scan(some, k)
        )
        if self._faster[kind]:
            self.tables = tables

    def _built(self) -> Tables:
        return Tables(self.store.words[:, : self.store.end], self.bits)

    def state(self) -> dict[str, Any]:
        return {"store": self.store.state(), "tables": self.tables}

    @classmethod
    def from_state(cls, state: dict[str, Any], bits: int, strategy: str, refine: int = 0) -> Self:
        """From arrays that may be maps of a file: none is read; `check` reads them."""
        store, tables = Store.from_state(state["store"], bits, refine), state["tables"]
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
