"""Shelf: the codes of one epoch, in a few segments."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits.index.hits import Hits, merged, merged_rows
from streambits.index.ids import Ids
from streambits.index.scan import Limits
from streambits.index.segment import Segment
from streambits.index.store import Places, Store, Words

RATIO = 8  # a segment is at least this many times larger than the next


class Shelf:
    """Codes of one epoch: a large segment, and smaller ones of what came since.

    Ids above all others are appended to the first segment. Any others start a segment at the end,
    which is joined to the one before it until each is 8 times larger than the next: a code is
    moved about 8 log_8(n) times, however few are added at a time, and there are few segments.

    Like its segments, a shelf keeps its codes: every change gives a new one.
    """

    def __init__(self, bits: int, strategy: str, segments: Sequence[Segment] = ()) -> None:
        self.bits, self.strategy = bits, strategy
        self.segments = tuple(segments)

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments)

    @property
    def ids(self) -> Ids:
        """Ascending."""
        parts = [segment.store.ids for segment in self.segments]
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate([_NO_IDS, *parts]))

    def has(self, ids: Ids) -> NDArray[np.bool_]:
        """Whether each id is here."""
        there = np.zeros(len(ids), np.bool_)
        for segment in self.segments:
            there |= segment.store.find(ids)[1]
        return there

    def added(self, ids: Ids, words: Words) -> "Shelf":
        """With codes, words (n, width), under unique ids that are not here."""
        if not len(ids):
            return self
        first = self.segments[0] if self.segments else None
        fits = first is not None and first.tables is None and ids[0] > first.store.last
        if first is not None and fits and (ids[1:] > ids[:-1]).all():
            return self._of([first.appended(ids, words), *self.segments[1:]])
        new = Segment(Store.of(ids, words), self.bits, self.strategy)
        return self._of(_tidy([*self.segments, new]))

    def find(self, ids: Ids) -> list[Places]:
        """The places of those of the ids that are here, for each segment."""
        found = (segment.store.find(ids) for segment in self.segments)
        return [places[there] for places, there in found]

    def without(self, found: Sequence[Places], *, in_place: bool = False) -> "Shelf":
        """Without the places that `find` gave. in_place: nobody reads this shelf any more."""
        if not any(map(len, found)):
            return self
        pairs = zip(self.segments, found, strict=True)
        return self._of(
            _tidy(
                [s.without(places, in_place=in_place) if len(places) else s for s, places in pairs]
            )
        )

    def overwrite(self, ids: Ids, words: Words) -> NDArray[np.bool_]:
        """Other codes for ids that are here, for all that hold this shelf; which were written.

        Only if nobody reads it. Codes that are in tables stay as they are.
        """
        written = np.zeros(len(ids), np.bool_)
        for segment, which, places in self.places(ids):
            if segment.tables is None:
                segment.store.overwrite(places, words[which])
                written |= which
        return written

    def take(self, ids: Ids) -> Words:
        """The codes (n, width) of ids that are here."""
        words = np.empty((len(ids), -(-self.bits // 64)), np.uint64)
        for segment, which, places in self.places(ids):
            words[which] = segment.store.take(places)[1].T
        return words

    def nearest(
        self, queries: Words, k: int, weights: Any = None, limits: Limits | None = None
    ) -> Hits:
        """The k nearest of every query, or all if there are fewer.

        limits: (queries,) only what is closer is of interest; other hits may be at `scan.FAR`.
        """

        def search(segment: Segment) -> Hits:
            most = min(k, len(segment))
            if weights is None:
                places, distances = segment.nearest(queries, most, limits)
            else:
                places, distances = segment.weighted(queries, weights, most)
            return Hits(segment.store.at(places), distances)

        return merged([search(segment) for segment in self.segments], k)

    def within(self, queries: Words, radius: int) -> list[Hits]:
        """For every query all that lie within the radius."""
        found = [
            [Hits(segment.store.at(places), distances) for places, distances in hits]
            for segment in self.segments
            for hits in [segment.within(queries, radius)]
        ]
        return [merged_rows(parts) for parts in zip(*found, strict=True)]

    def places(self, ids: Ids) -> Iterator[tuple[Segment, NDArray[np.bool_], Places]]:
        """For each segment: which of the ids it has, and at which places."""
        for segment in self.segments:
            places, there = segment.store.find(ids)
            if there.any():
                yield segment, there, places[there]

    def _of(self, segments: Sequence[Segment]) -> "Shelf":
        return Shelf(self.bits, self.strategy, segments)

    def state(self) -> dict[str, Any]:
        return {str(i): segment.state() for i, segment in enumerate(self.segments)}

    @classmethod
    def from_state(cls, state: dict[str, Any], bits: int, strategy: str) -> Self:
        found = (Segment.from_state(state[str(i)], bits, strategy) for i in range(len(state)))
        return cls(bits, strategy, list(found))

    def check(self) -> None:
        """Refuse contents that cannot be."""
        for segment in self.segments:
            segment.check()


def _tidy(segments: Sequence[Segment]) -> list[Segment]:
    """Without empty segments, and with those joined that are too small beside the one before."""
    kept = [segment for segment in segments if len(segment)]
    while len(kept) > 1 and len(kept[-1]) * RATIO > len(kept[-2]):
        last = kept.pop()
        kept[-1] = kept[-1].union(last)
    return kept


_NO_IDS: Ids = np.empty(0, np.int64)
