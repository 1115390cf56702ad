"""A scan: top-k by counting, over planes of words."""

from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled
from streambits.kernels.bits import popcount

CHUNK = 1024  # places that stay in the first cache while all queries pass over them
BLOCK = 64  # of them that are passed over together where none is near
FAR = np.int16(np.iinfo(np.int16).max)  # beyond all distances
SAMPLED, APART = 64, 2048  # places in a row that are sampled, and from one row to the next


class PlacedCodes(NamedTuple):
    """Codes at places. words: (width, places) planes; alive: (places,) whether each is a code."""

    words: Any
    alive: Any


@compiled
def measure(words: Any, low: int, query: Any, out: Any) -> Any:
    """Distances of the places from low on, filling `out`, by four words; gives the smallest."""
    size, count = len(out), len(words)
    high = low + size
    fours = count // 4 * 4
    for i in range(size):
        out[i] = 0
    for w in range(0, fours, 4):
        a, b, c, d = (
            words[w, low:high],
            words[w + 1, low:high],
            words[w + 2, low:high],
            words[w + 3, low:high],
        )
        p, q, r, s = query[w], query[w + 1], query[w + 2], query[w + 3]
        for i in range(size):
            out[i] += (
                popcount(a[i] ^ p) + popcount(b[i] ^ q) + popcount(c[i] ^ r) + popcount(d[i] ^ s)
            )
    for w in range(fours, count):
        a, p = words[w, low:high], query[w]
        for i in range(size):
            out[i] += popcount(a[i] ^ p)
    least = out[0]
    for i in range(size):
        least = min(least, out[i])
    return least


@compiled
def least_of(words: Any, low: int, high: int, query: Any) -> Any:
    """The smallest distance among the places low to high of codes of 1, 2 or 4 words.

    These lengths are common, and keep all in registers; 0, which rules out nothing, for others.
    """
    count, size, least = len(words), high - low, 256
    if count != 1 and count != 2 and count != 4:  # noqa: PLR1714 - a set is built at every call
        return 0
    a, p = words[0, low:high], query[0]
    b, q = words[count // 2, low:high], query[count // 2]
    if count == 1:
        for i in range(size):
            least = min(least, popcount(a[i] ^ p))
    elif count == 2:
        for i in range(size):
            least = min(least, popcount(a[i] ^ p) + popcount(b[i] ^ q))
    else:
        c, r, d, s = words[1, low:high], query[1], words[3, low:high], query[3]
        for i in range(size):
            near, far = popcount(a[i] ^ p), popcount(c[i] ^ r)
            least = min(least, near + far + popcount(b[i] ^ q) + popcount(d[i] ^ s))
    return least


@compiled
def closer(words: Any, low: int, query: Any, bound: int, out: Any) -> Any:
    """Whether a place from low on lies closer than bound; if so `out` has the distances."""
    if least_of(words, low, low + len(out), query) >= bound:
        return False
    return measure(words, low, query, out) < bound


class Candidates(NamedTuple):
    """What was found so far, for each of the queries.

    places, distances: (queries, room), the first `filled` of them; counts: (queries, distances) a
    histogram of those that can still be among the k nearest, `near` of them, none beyond the radius
    `top`; bound: what enters must be closer.
    """

    places: Any
    distances: Any
    counts: Any
    filled: Any
    near: Any
    top: Any
    bound: Any


@compiled
def _shrink(found: Any, q: int, k: int) -> None:
    """Keep the candidates closer than the radius, and the first at it: k in all, in order."""
    places, distances, top = found.places[q], found.distances[q], found.top[q]
    below = found.near[q] - found.counts[q, top]
    kept, ties = 0, k - below
    for i in range(found.filled[q]):
        if distances[i] < top or (distances[i] == top and ties > 0):
            ties -= distances[i] == top
            places[kept], distances[kept] = places[i], distances[i]
            kept += 1
    found.counts[q, top], found.counts[q, top + 1 :] = k - below, 0
    found.filled[q], found.near[q] = kept, k


@compiled
def _admit(found: Any, q: int, k: int, place: int, distance: int) -> None:
    """Add a candidate, and lower the radius while it holds k others."""
    at, counts = found.filled[q], found.counts[q]
    found.places[q, at], found.distances[q, at] = place, distance
    found.filled[q] = at + 1
    counts[distance] += 1
    near, top = found.near[q] + 1, found.top[q]
    while near - counts[top] >= k:
        near -= counts[top]
        top -= 1
    found.near[q], found.top[q] = near, top
    if near >= k:
        found.bound[q] = min(found.bound[q], top)


@compiled
def _place(places: Any, distances: Any, counts: Any, out: Any, out_distances: Any) -> None:
    """Counting sort: by distance, equal ones in the order they came."""
    start = 0
    for d in range(len(counts)):
        start, counts[d] = start + counts[d], start
    for i in range(len(places)):
        at = counts[distances[i]]
        counts[distances[i]] += 1
        if at < len(out):
            out[at], out_distances[at] = places[i], distances[i]


@compiled
def nearest_in_span(codes: Any, span: tuple[int, int], queries: Any, k: int, limits: Any) -> Any:
    """The k nearest living places of a span for every query: places, distances, counts.

    codes: PlacedCodes; limits: for each query, the distance that they must be below.
    A histogram of the candidates' distances gives the radius `top` that holds k of them; from
    then on only what is strictly closer can enter, for equal distances come with larger ids.
    Costs about k log(n / k) candidates per query; memory 2 k + 1024 of them and the histogram.
    """
    asked, most, room = len(queries), 64 * len(codes.words), 2 * k + CHUNK
    found = Candidates(
        np.empty((asked, room), np.int64),
        np.empty((asked, room), np.int32),
        np.zeros((asked, most + 1), np.int64),
        np.zeros(asked, np.int64),
        np.zeros(asked, np.int64),
        np.full(asked, most, np.int64),
        limits.copy(),
    )
    memory = np.empty(CHUNK, np.int64)
    for low in range(span[0], span[1], CHUNK):
        measured = memory[: min(CHUNK, span[1] - low)]
        for q in range(asked):
            if closer(codes.words, low, queries[q], found.bound[q], measured):
                if found.filled[q] > room - CHUNK:
                    _shrink(found, q, k)
                for i in range(len(measured)):
                    if measured[i] < found.bound[q] and codes.alive[low + i]:
                        _admit(found, q, k, low + i, measured[i])
    places, distances = np.zeros((asked, k), np.int64), np.zeros((asked, k), np.int32)
    for q in range(asked):
        end = found.filled[q]
        _place(
            found.places[q, :end],
            found.distances[q, :end],
            found.counts[q],
            places[q],
            distances[q],
        )
    return places, distances, np.minimum(found.filled, k)


@compiled
def likely_limits(codes: Any, end: int, queries: Any, k: int) -> Any:
    """For each query a distance below which at least k places are likely to lie, by a sample.

    That is 64 places in a row of every 2048, for places that follow each other may be alike.
    """
    most = 64 * len(codes.words)
    limits, memory = np.empty(len(queries), np.int64), np.empty(SAMPLED, np.int64)
    for q in range(len(queries)):
        counts, looked = np.zeros(most + 1, np.int64), 0
        for low in range(0, end, APART):
            measured = memory[: min(SAMPLED, end - low)]
            measure(codes.words, low, queries[q], measured)
            looked += len(measured)
            for i in range(len(measured)):
                counts[measured[i]] += codes.alive[low + i]
        wanted = k * looked / end
        wanted += 2 * np.sqrt(wanted)
        found, limit = 0, 0
        while limit <= most and found < wanted:
            found += counts[limit]
            limit += 1
        limits[q] = limit
    return limits


@compiled
def gather_in_span(codes: Any, span: tuple[int, int], queries: Any, limits: Any, room: int) -> Any:
    """All living places of a span below the limits: places, distances, counts; ascending.

    For many hits, where there is nothing to gain from looking before measuring. What is beyond
    `room` is left out.
    """
    asked, room = len(queries), min(room, span[1] - span[0])
    counts, memory = np.zeros(asked, np.int64), np.full(CHUNK, FAR, np.int16)
    places, distances = np.empty((asked, room), np.int64), np.empty((asked, room), np.int32)
    for low in range(span[0], span[1], CHUNK):
        size = min(CHUNK, span[1] - low)
        memory[size:] = FAR
        for q in range(asked):
            at, limit = counts[q], np.int16(limits[q])
            if measure(codes.words, low, queries[q], memory[:size]) >= limit:
                continue
            for start in range(0, CHUNK, BLOCK):
                near = False
                for i in range(BLOCK):
                    near |= memory[start + i] < limit
                if not near:
                    continue
                for i in range(start, start + BLOCK):
                    if memory[i] < limit and codes.alive[low + i] and at < room:
                        places[q, at], distances[q, at] = low + i, memory[i]
                        at += 1
            counts[q] = at
    return places, distances, counts


@compiled
def first_of(places: Any, distances: Any, counts: Any, k: int, most: int) -> Any:
    """The k nearest of what was gathered, ascending places, by distance: places, distances."""
    out, out_distances = np.empty((len(places), k), np.int64), np.empty((len(places), k), np.int32)
    for q in range(len(places)):
        histogram = np.zeros(most + 1, np.int64)
        for i in range(counts[q]):
            histogram[distances[q, i]] += 1
        end = counts[q]
        _place(places[q, :end], distances[q, :end], histogram, out[q], out_distances[q])
    return out, out_distances


@compiled
def prefixes(ids: Any, distances: Any, starts: Any, count: int) -> Any:
    """How many of each list are among the `count` nearest of all lists: (lists, queries).

    ids, distances: (queries, any), those of list l from starts[l] to starts[l + 1], the nearest
    first and equal ones by id.
    """
    lists = len(starts) - 1
    taken = np.zeros((lists, len(ids)), np.int64)
    for q in range(len(ids)):
        for _ in range(count):
            best, best_at = -1, 0
            for one in range(lists):
                at = starts[one] + taken[one, q]
                if at < starts[one + 1]:
                    pair = distances[q, at], ids[q, at]
                    if best < 0 or pair < (distances[q, best_at], ids[q, best_at]):
                        best, best_at = one, at
            taken[best, q] += 1
    return taken


class Ranges(NamedTuple):
    """Places and distances, where those of query q end at ends[q] as far as they are written."""

    ends: Any
    places: Any
    distances: Any


@compiled
def _visit(codes: Any, span: Any, queries: Any, radius: int, out: Any) -> None:
    """Write what lies within the radius of each query, or count it where there is no room."""
    memory = np.empty(CHUNK, np.int64)
    for low in range(span[0], span[1], CHUNK):
        measured = memory[: min(CHUNK, span[1] - low)]
        for q in range(len(queries)):
            if closer(codes.words, low, queries[q], radius + 1, measured):
                for i in range(len(measured)):
                    if measured[i] <= radius and codes.alive[low + i]:
                        if len(out.places):
                            end = out.ends[q]
                            out.places[end], out.distances[end] = low + i, measured[i]
                        out.ends[q] += 1


@compiled
def within_in_span(codes: Any, span: tuple[int, int], queries: Any, radius: int) -> Any:
    """The living places of a span within the radius: places, distances, where queries end.

    codes: PlacedCodes. Those of a query lie together, ascending. Measures twice, to count first.
    """
    counts = np.zeros(len(queries), np.int64)
    _visit(
        codes, span, queries, radius, Ranges(counts, np.empty(0, np.int64), np.empty(0, np.int32))
    )
    total = counts.sum()
    heads = np.cumsum(counts) - counts
    out = Ranges(heads, np.empty(total, np.int64), np.empty(total, np.int32))
    if total:
        _visit(codes, span, queries, radius, out)
    return out.places, out.distances, out.ends
