"""Snapshot: all codes of an index at one moment, and what is found among them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import TEXT, Ids, as_count, frozen
from streambits.errors import InputError
from streambits.index.hits import Hits, interpolated, merge_nearest, merge_within, no_hits, scaled
from streambits.index.keys import Keys, Numbers, clashing, first
from streambits.index.queries import Query, RowQuery
from streambits.index.refine import rank, target_of
from streambits.index.scan import Limits, scan_tasks
from streambits.index.segment import Segment
from streambits.index.store import Contents, Places, Store
from streambits.model.codes import Codes

RATIO = 8  # a segment is at least this many times larger than the next
SMALL_QUERY_BATCH = 8  # queries that scan all epochs together
RANKED_AT_ONCE = 1 << 20  # candidates of all queries that are ranked at a time
LEAST_CANDIDATES, CANDIDATES_PER_HIT, CODES_PER_CANDIDATE = 300, 30, 256
NOTHING: Numbers = np.empty(0, np.int64)
Segments = tuple[Segment, ...]
Queries = Mapping[int, Query]
RowQueries = Mapping[int, RowQuery]
Scales = Mapping[int, NDArray[np.float64]] | None


class Snapshot:
    """Codes of one length by epoch, each epoch in a few segments.

    Ids come as keys, and are found as numbers, of which `named` makes ids again.

    An epoch has a large segment, and smaller ones of what came since. Numbers above all others are
    appended to the first segment. Any others start a segment at the end, which is joined to the one
    before it until each is 8 times larger than the next: a code is moved about 8 log_8(n) times,
    however few are added at a time, and there are few segments.

    Like its segments, a snapshot keeps its codes: every change gives a new one, which shares the
    arrays where that cannot be seen.
    """

    def __init__(
        self,
        bits: int,
        refine: int | None = None,
        epochs: Mapping[int, Segments] | None = None,
    ) -> None:
        self.bits = bits
        self.refine = refine  # bytes of refinement; None until the first codes come
        self._epochs = dict(epochs or {})  # never changed

    def __len__(self) -> int:
        return sum(map(len, self._segments()))

    @property
    def epochs(self) -> tuple[int, ...]:
        return tuple(sorted(self._epochs))

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self._segments())

    @property
    def has_texts(self) -> bool | None:
        """Whether ids are texts; None where there are no codes."""
        segment = next(self._segments(), None)
        return None if segment is None else segment.store.texts is not None

    def check_kind(self, keys: Keys) -> None:
        """Refuse texts where ids are whole numbers, and the other way round."""
        kinds = {False: "whole numbers", True: "texts"}
        own, other = self.has_texts, keys.texts is not None
        if len(keys.ids) and own is not None and own != other:
            raise InputError(
                f"the ids of this index are {kinds[own]}, and {first(keys.ids)} is not: pass "
                f"{kinds[own]}, or use another index for {kinds[other]}"
            )

    @property
    def counts(self) -> dict[int, int]:
        """The number of codes of each epoch."""
        return {epoch: sum(map(len, parts)) for epoch, parts in self._epochs.items()}

    def numbers(self, epoch: int) -> Numbers:
        """The numbers of the ids of an epoch, ascending."""
        found = [segment.store.ids for segment in self._epochs[epoch]]
        return found[0] if len(found) == 1 else np.sort(np.concatenate([NOTHING, *found]))

    def named(self, numbers: Numbers) -> Ids:
        """The ids, in any shape, that have these numbers, which are all here."""
        if not self.has_texts:
            return numbers
        unique, places = np.unique(numbers, return_inverse=True)
        found = np.empty(len(unique), TEXT)
        for segment, which, at in _located(self._segments(), unique):
            assert segment.store.texts is not None
            found[which] = segment.store.texts.some(at).strings()
        return np.asarray(found[places.reshape(numbers.shape)])

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Whether each id is here."""
        self.check_kind(keys)
        there = _has(self._segments(), keys.numbers)
        return there if keys.texts is None else there & ~self._clashes(keys)

    def check_has(self, keys: Keys) -> None:
        """Refuse an id that is not here."""
        there = self.has(keys)
        if not there.all():
            raise InputError(f"the id {first(keys.ids[~there])} is not in the index: add it first")

    def check_apart(self, keys: Keys) -> None:
        """Refuse a text that has the same hash as another that is here."""
        clash = self._clashes(keys)
        if clash.any():
            raise clashing(keys.ids[clash], self.named(keys.numbers[clash]))

    def _clashes(self, keys: Keys) -> NDArray[np.bool_]:
        """Which of some texts have the same number as another one that is here."""
        clash = np.zeros(len(keys.numbers), np.bool_)
        if keys.texts is not None:
            for segment, which, at in _located(self._segments(), keys.numbers):
                assert segment.store.texts is not None
                clash[which] = ~segment.store.texts.some(at).equal(keys.texts.some(which))
        return clash

    def codes(self, epoch: int, ids: Numbers) -> Codes:
        """The codes of ids that are in an epoch."""
        codes = self._contents(epoch, ids)
        refinement = frozen(codes.refinement) if self.refine else None
        return Codes.from_words(codes.words, self.bits, epoch, refinement)

    def epochs_of(self, ids: Numbers) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Every epoch that has some of the ids, and which of them."""
        for epoch, segments in self._epochs.items():
            there = _has(segments, ids)
            if there.any():
                yield epoch, there

    def added(self, keys: Keys, codes: Codes) -> "Snapshot":
        """With codes under unique ids that are not here."""
        if not len(keys.ids):
            return self
        more = Contents.of(codes, keys.texts)
        grown = self._grown(self._epochs.get(codes.epoch, ()), keys.numbers, more)
        epochs = {**self._epochs, codes.epoch: grown}
        return Snapshot(self.bits, codes.refine, epochs)

    def without(self, keys: Keys) -> "Snapshot":
        """Without ids, which must all be here; an epoch without codes is gone."""
        self.check_kind(keys)
        ids = keys.numbers
        found = {
            epoch: [places[there] for places, there in (s.store.find(ids) for s in segments)]
            for epoch, segments in self._epochs.items()
        }
        few = sum(len(places) for each in found.values() for places in each) < len(ids)
        if few or keys.texts is not None:
            self.check_has(keys)
        rest = {epoch: _without(segments, found[epoch]) for epoch, segments in self._epochs.items()}
        return self._with({epoch: segments for epoch, segments in rest.items() if segments})

    def updated(self, keys: Keys, codes: Codes) -> "Snapshot":
        """With other codes for ids, which must all be here, in whatever epoch."""
        self.check_has(keys)
        return self.without(keys).added(keys, codes)

    def among(self, keys: Keys) -> "Snapshot":
        """The codes of these ids alone, as far as they are here; without texts."""
        self.check_kind(keys)
        ids = keys.numbers if keys.texts is None else keys.numbers[self.has(keys)]
        few, ids = Snapshot(self.bits, self.refine), np.unique(ids)
        return few._with(
            {
                epoch: few._grown((), ids[there], self._contents(epoch, ids[there]))
                for epoch, there in self.epochs_of(ids)
            }
        )

    def nearest(self, asked: Queries, k: int, scales: Scales = None) -> Hits | None:
        """The k nearest of every query over all epochs; None where there are no codes.

        scales: what a Hamming distance means in each epoch, (queries, bits + 1); of queries with
        weights, what equal shares of the sum of these mean, (queries, any).
        """
        few = all(
            len(query.words) <= SMALL_QUERY_BATCH and query.weights is None
            for query in asked.values()
        )
        together = self._nearest_together(asked, k, scales) if few else None
        return together or self._nearest_in_turn(asked, k, scales)

    def _nearest_together(self, asked: Queries, k: int, scales: Scales) -> Hits | None:
        """What few queries find by scans of all segments together; None where that is no gain."""
        pairs = [(epoch, one) for epoch, segments in self._epochs.items() for one in segments]
        if len(pairs) < 2:
            return None
        tasks = [segment.scan_task(asked[epoch].words, k) for epoch, segment in pairs]
        hits = []
        for (epoch, segment), found in zip(pairs, scan_tasks(tasks), strict=True):
            some = segment.hits(*found)
            hits.append(some if scales is None else scaled(some, scales[epoch]))
        return merge_nearest(hits, k)

    def _nearest_in_turn(self, asked: Queries, k: int, scales: Scales) -> Hits | None:
        """What queries find, the largest epoch first, whose hits limit what follows."""
        best: Hits | None = None
        for epoch in sorted(self._epochs, key=lambda e: -sum(map(len, self._epochs[e]))):
            scale, query = None if scales is None else scales[epoch], asked[epoch]
            limits = None if best is None or query.weights is not None else _limits(best, k, scale)
            found = [segment.nearest(query, k, limits) for segment in self._epochs[epoch]]
            hits = merge_nearest(found, k)
            if scale is not None and query.weights is not None:
                hits = interpolated(hits, scale, query.weights.sum(axis=1))
            elif scale is not None:
                hits = scaled(hits, scale)
            best = hits if best is None else merge_nearest([best, hits], k)
        return best

    def ranked(
        self,
        asked: RowQueries,
        k: int,
        *,
        metric: str = "euclidean",
        candidates: int | str | None = None,
    ) -> Hits | None:
        """The k nearest of every query by what codes decode to; None where there are no codes.

        candidates: how many of each epoch are ranked, "all", or None for a share of its codes.
        """
        counts = {
            epoch: _count(candidates, k, sum(map(len, segments)))
            for epoch, segments in self._epochs.items()
        }
        if not counts:
            return None
        step = max(1, RANKED_AT_ONCE // max(k, *(count or 1 for count in counts.values())))
        size = max(len(query.rows) for query in asked.values())
        found = []
        for some in (slice(i, i + step) for i in range(0, size, step)):
            queries = {epoch: asked[epoch].some(some) for epoch in counts}
            hits = [
                rank(segments, query, target_of(query, metric), k, count=counts[epoch])
                for epoch, segments in self._epochs.items()
                for query in [queries[epoch]]
            ]
            found.append(merge_nearest(hits, k))
        ids, distances = [hits.ids for hits in found], [hits.distances for hits in found]
        return Hits(np.concatenate(ids), np.concatenate(distances))

    def within(self, asked: Queries, radius: int, count: int) -> list[Hits]:
        """For every query, of which there are `count`, all codes within the radius."""
        found = [
            segment.within(asked[epoch].words, radius)
            for epoch in self.epochs
            for segment in self._epochs[epoch]
        ]
        if not found:
            return [Hits(none.ids[0], none.distances[0]) for none in [no_hits(1)] * count]
        return [merge_within(hits) for hits in zip(*found, strict=True)]

    def state(self) -> dict[str, Any]:
        return {
            str(epoch): {str(i): segment.state() for i, segment in enumerate(segments)}
            for epoch, segments in self._epochs.items()
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], bits: int, refine: int | None = None) -> Self:
        """From arrays that may be maps of a file: none is read; `check` reads them."""
        refine = 0 if state and refine is None else refine

        def opened(segments: dict[str, Any]) -> Segments:
            each = (segments[str(i)] for i in range(len(segments)))
            return tuple(Segment.from_state(one, bits, refine or 0) for one in each)

        epochs = {
            as_count(int(epoch), "epoch", least=0): opened(segments)
            for epoch, segments in state.items()
        }
        found = cls(bits, refine, epochs)
        if len({segment.store.texts is None for segment in found._segments()}) > 1:
            raise ValueError("some ids are texts, and others are not")
        return found

    def check(self) -> None:
        """Refuse contents that cannot be."""
        for segment in self._segments():
            segment.check()

    def _segments(self) -> Iterator[Segment]:
        return (segment for segments in self._epochs.values() for segment in segments)

    def _contents(self, epoch: int, ids: Numbers) -> Contents:
        words = np.empty((len(ids), -(-self.bits // 64)), np.uint64)
        refinement = np.empty((len(ids), self.refine or 0), np.uint8)
        for segment, which, places in _located(self._epochs[epoch], ids):
            words[which], refinement[which], _ = segment.store.codes_at(places)
        return Contents(words, refinement)

    def _with(self, epochs: Mapping[int, Segments]) -> "Snapshot":
        return Snapshot(self.bits, self.refine, epochs)

    def _grown(self, segments: Segments, ids: Numbers, codes: Contents) -> Segments:
        """Segments of one epoch with more codes."""
        first = segments[0] if segments else None
        fits = first is not None and ids[0] > first.store.last
        if first is not None and fits and (ids[1:] > ids[:-1]).all():
            return (first.appended(ids, codes), *segments[1:])
        return _tidy([*segments, Segment(Store.of(ids, codes), self.bits)])


def default_candidates(k: int, codes: int) -> int:
    """Codes of an epoch that are ranked by what they decode to, unless a search says how many."""
    return max(LEAST_CANDIDATES, CANDIDATES_PER_HIT * k, codes // CODES_PER_CANDIDATE)


def _count(candidates: int | str | None, k: int, codes: int) -> int | None:
    """How many candidates an epoch of so many codes has; None for all of them."""
    if candidates is None:
        return default_candidates(k, codes)
    return candidates if isinstance(candidates, int) else None


def _has(segments: Iterable[Segment], ids: Numbers) -> NDArray[np.bool_]:
    there = np.zeros(len(ids), np.bool_)
    for segment in segments:
        there |= segment.store.find(ids)[1]
    return there


def _located(
    segments: Iterable[Segment], ids: Numbers
) -> Iterator[tuple[Segment, NDArray[np.bool_], Places]]:
    """For each segment: which of the ids it has, and at which places."""
    for segment in segments:
        places, there = segment.store.find(ids)
        if there.any():
            yield segment, there, places[there]


def _without(segments: Segments, found: Sequence[Places]) -> Segments:
    """Without the places that were found in each."""
    if not any(map(len, found)):
        return segments
    pairs = zip(segments, found, strict=True)
    return _tidy([s.without(at) if len(at) else s for s, at in pairs])


def _tidy(segments: Sequence[Segment]) -> Segments:
    """Without empty segments, and with those joined that are too small beside the one before."""
    kept = [segment for segment in segments if len(segment)]
    while len(kept) > 1 and len(kept[-1]) * RATIO > len(kept[-2]):
        last = kept.pop()
        kept[-1] = kept[-1].union(last)
    return tuple(kept)


def _limits(best: Hits, k: int, scale: NDArray[np.float64] | None) -> Limits | None:
    """The Hamming distances below which a hit of another epoch can still be among the k best."""
    if best.ids.shape[1] < k:
        return None
    last = best.distances[:, -1:]
    if scale is None:
        return np.asarray(last[:, 0].astype(np.int64) + 1)  # as far, with a smaller id
    return np.asarray((scale <= last).sum(axis=1))
