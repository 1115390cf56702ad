"""Ranking by what codes decode to: candidates by their bits, then distances of decoded rows.

Decoded rows of all epochs are rows, so their distances are on one scale, and are merged as they
are. Nothing is kept for it beside the codes: a candidate is decoded where it lies
(`kernels/decode.py`), in less than 0.1 microseconds for 64 bits and 128 columns.

Where all rows have one length, as embeddings do, a decoded row has only lost some of its own, the
more the less its code says. So it is ranked as if it had that length.
"""

import weakref
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._threads import one_blas_thread, ordered_map
from streambits.index.hits import Hits
from streambits.index.queries import Query, RowQuery
from streambits.index.scan import ranges
from streambits.index.segment import Segment
from streambits.kernels.decode import (
    ALONG,
    CENTRES,
    CHORD,
    CHUNK,
    COSINE,
    DIRECTIONS,
    EUCLIDEAN,
    INNER,
    LANES,
    METRICS,
    Decoder,
    RefinedCodes,
    Screen,
    Sources,
    Target,
    nearest_decoded,
)
from streambits.kernels.scan import prefixes
from streambits.kernels.weighted import NOWHERE
from streambits.model.refinement import Refinement

SHARE = 1 << 11  # codes that a thread should decode for the start of it to pay
PRODUCT_SHARE = 1 << 15  # the same of codes without bits, which are looked up
PER_QUERY = ("shift", "along", "squares", "dots", "lengths", "screened")
TOP = (1 << 16) - 1  # of numbers of 16 bits
SHIFTS = np.array([0, 16, 32, 48], np.uint64)  # of four of them in a word
Rows = NDArray[np.float64]
Places = NDArray[np.int64]


def target_of(query: RowQuery, metric: str) -> Target:
    """The queries in the coordinates of decoded rows, each by itself: batches leave no trace."""
    (basis, origin), rows = query.refinement.coordinates, query.rows
    columns, reach = basis.shape[1], query.refinement.length
    kind, shape = METRICS.index(metric), (len(rows), -(-columns // LANES) * LANES)
    if reach:
        kind = {EUCLIDEAN: CHORD, INNER: ALONG}.get(kind, kind)
    by_angle = kind in (COSINE, CHORD, ALONG)
    shift, along = np.zeros(shape), np.zeros(shape)
    squares, dots, lengths = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    with one_blas_thread():
        centre = basis.T @ origin
        rest = origin - basis @ centre
        for i, row in enumerate(rows):
            lengths[i] = np.sqrt(row @ row)
            if kind == EUCLIDEAN:
                apart = row - origin
                values = basis.T @ apart
                shift[i, :columns], outside = -values, apart - basis @ values
                squares[i] = outside @ outside
            else:
                along[i, :columns] = basis.T @ row
                shift[i, :columns] = centre if by_angle else 0.0
                squares[i], dots[i] = rest @ rest, row @ (rest if by_angle else origin)
    screen = _screen(query.refinement)
    own = (kind, reach, shift, along, squares, dots, lengths)
    return Target(*own, screen.start(shift[:, :columns]), screen.doubt)


class _Screening(NamedTuple):
    """A screen; directions: (columns, 16) orthonormal; least: (16,) what sums of 0 stand for.

    doubt: what rounding does to distances at most, in the unit of the screen.
    """

    tables: Screen
    directions: Rows
    least: Rows
    doubt: float

    def start(self, shift: Rows) -> Rows:
        """Where queries (q, columns) are in the directions, in the unit of the screen."""
        turned = np.stack([row @ self.directions for row in shift])
        return -(turned + self.least) / self.tables.unit


def _screen(refinement: Refinement) -> _Screening:
    """The screen of a refinement, made once."""
    key = id(refinement)
    held = _screens.get(key)
    if held is None:
        with one_blas_thread():
            held = _screens[key] = _screening(refinement.decoder)
        weakref.finalize(refinement, _screens.pop, key, None)
    return held


_screens: dict[int, _Screening] = {}


def _screening(decoder: Decoder) -> _Screening:
    """The directions in which decoded rows vary most, if all values of bytes were as likely."""
    signs, starts, columns = decoder.signs, decoder.starts, decoder.signs.shape[2]
    if columns <= DIRECTIONS or not len(signs):
        none = Screen(np.empty((0, 16, 4), np.uint64), np.empty((0, CENTRES, 4), np.uint64), 1.0)
        return _Screening(none, np.zeros((columns, DIRECTIONS)), np.zeros(DIRECTIONS), 0.0)
    centres = np.zeros((len(starts) - 1, CENTRES, columns))
    for g, (low, high) in enumerate(pairwise(starts)):
        own = decoder.centres[CENTRES * low : CENTRES * high]
        centres[g, :, low:high] = own.reshape(CENTRES, high - low)
    parts = [table - table.mean(axis=0) for table in (*signs, *centres)]
    spread = np.sum([part.T @ part / len(part) for part in parts], axis=0)
    directions = np.ascontiguousarray(np.linalg.eigh(spread)[1][:, -DIRECTIONS:])
    tables = [table @ directions for table in (*signs, *centres)]
    least, most = (
        np.sum([end(table, axis=0) for table in tables], axis=0) for end in (np.min, np.max)
    )
    unit = float((most - least).max()) / (TOP - len(tables)) or 1.0
    steps = [np.rint((table - table.min(axis=0)) / unit).astype(np.uint64) for table in tables]
    words = [(table.reshape(-1, 4, 4) << SHIFTS).sum(axis=2, dtype=np.uint64) for table in steps]
    count = len(signs)
    screen = Screen(np.stack(words[:count]), np.stack(words[count:]), unit)
    doubt = (len(tables) + 1) * 0.5 * DIRECTIONS**0.5
    return _Screening(screen, directions, least, doubt)


def rank(
    segments: Sequence[Segment],
    query: RowQuery,
    target: Target,
    k: int,
    *,
    count: int | None = None,
) -> Hits:
    """The k nearest of every query among the codes of one epoch.

    count: of candidates, the nearest by `find` of the epoch, equal ones by id; None for all codes.
    Every query has as many hits.
    """
    total = sum(map(len, segments))
    if count is None or count >= total or query.find is None:
        sources = [
            Sources(np.empty((0, 0), np.int64), _ALL, True, 0, s.store.end) for s in segments
        ]
    else:
        sources = _candidates(segments, query.find, count)
        total = count
    found = [
        _ranked(segment, query.refinement, target, min(k, total), some)
        for segment, some in zip(segments, sources, strict=True)
    ]
    ids, distances, missing = (np.concatenate(each, axis=1) for each in zip(*found, strict=True))
    order = np.lexsort((ids, distances, missing))[:, : min(k, total)]
    return Hits(np.take_along_axis(ids, order, 1), np.take_along_axis(distances, order, 1))


_ALL = np.empty(0, np.int64)


def _candidates(segments: Sequence[Segment], find: Query, count: int) -> list[Sources]:
    """The nearest `count` codes of every query by their bits, segment by segment."""
    found = [segment.nearest_places(find, count) for segment in segments]
    if len(segments) == 1:
        places = found[0][0]
        counts = [np.full(len(places), places.shape[1])]
    else:
        ids = np.concatenate(
            [s.store.at(places) for s, (places, _) in zip(segments, found, strict=True)], axis=1
        )
        distances = np.concatenate([distances for _, distances in found], axis=1)
        starts = np.cumsum([0, *(places.shape[1] for places, _ in found)])
        counts = list(prefixes(ids, distances, starts, count))
    return [
        Sources(places, own, False, 0, places.shape[1])
        for (places, _), own in zip(found, counts, strict=True)
    ]


def _codes(segment: Segment, refinement: Refinement) -> RefinedCodes:
    store, screen = segment.store, _screen(refinement).tables
    return RefinedCodes(store.words, store.alive, store.refinement, refinement.decoder, screen)


def _ranked(
    segment: Segment, refinement: Refinement, target: Target, k: int, sources: Sources
) -> tuple[Places, Rows, NDArray[np.bool_]]:
    """Ids and distances of the k nearest of a segment, in no order, and where there are none."""
    codes = _codes(segment, refinement)

    def work(task: tuple[slice, tuple[int, int]]) -> tuple[Places, Rows]:
        queries, (low, high) = task
        some = sources._replace(low=low, high=high)
        if not sources.all:
            some = some._replace(places=sources.places[queries], counts=sources.counts[queries])
        own = _some(target, queries)
        return nearest_decoded(codes, own, min(k, high - low), some)  # type: ignore[no-any-return]

    with one_blas_thread() as workers:
        share = SHARE if segment.bits else PRODUCT_SHARE
        queries, spans = _shares(len(target.shift), sources.high, workers, share)
        tasks = [(some, span) for some in queries for span in spans]
        found = list(ordered_map(work, tasks))
    parts = [found[i : i + len(spans)] for i in range(0, len(found), len(spans))]
    places, distances = (
        np.concatenate([np.concatenate([one[i] for one in part], axis=1) for part in parts])
        for i in range(2)
    )
    missing = places == NOWHERE
    places[missing] = 0
    return segment.store.at(places), distances, missing


def _shares(
    asked: int, size: int, workers: int, share: int
) -> tuple[list[slice], list[tuple[int, int]]]:
    """Queries and spans of what each looks at, such that the threads have as much to do."""
    threads = max(1, min(workers, asked * size // share))
    step = -(-asked // threads)
    queries = [slice(i, i + step) for i in range(0, asked, step)]
    return queries, ranges(size, size, -(-threads // asked), block=CHUNK, share=1)


def _some(target: Target, which: slice) -> Target:
    own = {name: getattr(target, name)[which] for name in PER_QUERY}
    return target._replace(**own)
