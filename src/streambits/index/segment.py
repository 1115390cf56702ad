"""Segment: a store, and the way it is searched."""

from typing import Any, Self

from streambits.index.hits import Hits
from streambits.index.queries import Query
from streambits.index.scan import Limits, ScanTask, scan_nearest, scan_task, scan_within
from streambits.index.store import SLACK, Contents, Places, Store, Words
from streambits.index.weighted import weighted_nearest


class Segment:
    """Codes in one store, which are scanned.

    Like its store, a segment keeps its codes.
    """

    def __init__(self, store: Store, bits: int) -> None:
        self.store, self.bits = store, bits

    def __len__(self) -> int:
        return len(self.store)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes

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
        if query.weights is None:
            return scan_nearest(*self._codes, query.words, k, limits=limits)
        return weighted_nearest(*self._codes, query.words, query.weights, k)

    def scan_task(self, queries: Words, k: int) -> ScanTask:
        """What is to be scanned for the k nearest."""
        return scan_task(*self._codes, queries, min(k, len(self)))

    def within(self, queries: Words, radius: int) -> list[Hits]:
        """For every query all that lie within the radius."""
        return [self.hits(*one) for one in scan_within(*self._codes, queries, radius)]

    def appended(self, ids: Any, codes: Contents) -> "Segment":
        """With codes under ids above all others."""
        return Segment(self.store.appended(ids, codes), self.bits)

    def without(self, places: Places) -> "Segment":
        """Without some codes, which lie dead until they are a sixteenth of all."""
        store = self.store.without(places)
        if store.dead * SLACK > store.end:
            store = store.compact()
        return Segment(store, self.bits)

    def union(self, other: "Segment") -> "Segment":
        return Segment(self.store.union(other.store), self.bits)

    @property
    def _codes(self) -> tuple[Words, Any, int]:
        return self.store.words, self.store.alive, self.store.end

    def state(self) -> dict[str, Any]:
        return {"store": self.store.state(), "tables": None}  # a place that files have

    @classmethod
    def from_state(cls, state: dict[str, Any], bits: int, refine: int = 0) -> Self:
        """From arrays that may be maps of a file: none is read; `check` reads them."""
        return cls(Store.from_state(state["store"], bits, refine), bits)

    def check(self) -> None:
        """Refuse contents that cannot be: a kernel would follow them out of its arrays."""
        self.store.check(self.bits)
