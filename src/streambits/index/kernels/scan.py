"""A scan: top-k by counting, over planes of words."""

from typing import Any

import numpy as np

from streambits.index.kernels import compiled
from streambits.index.kernels.bits import popcount

CHUNK = 1024  # places that stay in the first cache while all queries pass over them


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


@compiled
def _shrink(places: Any, distances: Any, k: int, top: int, below: int) -> int:
    """Keep the `below` candidates closer than top, and the first at top, k in all, in order."""
    kept, ties = 0, k - below
    for i in range(len(places)):
        if distances[i] < top or (distances[i] == top and ties > 0):
            ties -= distances[i] == top
            places[kept], distances[kept] = places[i], distances[i]
            kept += 1
    return kept


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
def nearest(codes: Any, span: tuple[int, int], queries: Any, k: int, limits: Any) -> Any:
    """The k nearest living places of a span for every query: places, distances, counts.

    codes: (words, alive); limits: for each query, the distance that they must be below.
    A histogram of the candidates' distances gives the radius `top` that holds k of them; from
    then on only what is strictly closer can enter, for equal distances come with larger ids.
    Costs about k log(n / k) candidates a query; memory 2 k + 1024 of them and the histogram.
    """
    words, alive = codes
    asked, most, room = len(queries), 64 * len(words), 2 * k + CHUNK
    places, distances = np.empty((asked, room), np.int64), np.empty((asked, room), np.int32)
    counts = np.zeros((asked, most + 1), np.int64)
    filled, within = np.zeros(asked, np.int64), np.zeros(asked, np.int64)
    top, bound = np.full(asked, most, np.int64), limits.copy()
    memory = np.empty(CHUNK, np.int64)
    for low in range(span[0], span[1], CHUNK):
        measured = memory[: min(CHUNK, span[1] - low)]
        for q in range(asked):
            if not closer(words, low, queries[q], bound[q], measured):
                continue
            if filled[q] > room - CHUNK:
                old, below = filled[q], within[q] - counts[q, top[q]]
                filled[q] = _shrink(places[q, :old], distances[q, :old], k, top[q], below)
                counts[q, top[q]], counts[q, top[q] + 1 :] = k - below, 0
                within[q] = k
            for i in range(len(measured)):
                if measured[i] < bound[q] and alive[low + i]:
                    places[q, filled[q]], distances[q, filled[q]] = low + i, measured[i]
                    filled[q] += 1
                    within[q] += 1
                    counts[q, measured[i]] += 1
                    while within[q] - counts[q, top[q]] >= k:
                        within[q] -= counts[q, top[q]]
                        top[q] -= 1
                    if within[q] >= k:
                        bound[q] = min(bound[q], top[q])
    found, radii = np.zeros((asked, k), np.int64), np.zeros((asked, k), np.int32)
    for q in range(asked):
        end = filled[q]
        _place(places[q, :end], distances[q, :end], counts[q], found[q], radii[q])
    return found, radii, np.minimum(filled, k)


@compiled
def within(words: Any, alive: Any, span: tuple[int, int], queries: Any, radius: int) -> Any:
    """The living places of a span within the radius: places, distances, where queries end.

    Those of a query lie together, ascending. Measures twice, to count first.
    """
    heads = np.zeros(len(queries) + 1, np.int64)
    memory = np.empty(CHUNK, np.int64)
    places, distances = np.empty(0, np.int64), np.empty(0, np.int32)
    for write in (False, True):
        for low in range(span[0], span[1], CHUNK):
            measured = memory[: min(CHUNK, span[1] - low)]
            for q in range(len(queries)):
                if closer(words, low, queries[q], radius + 1, measured):
                    for i in range(len(measured)):
                        if measured[i] <= radius and alive[low + i]:
                            if write:
                                places[heads[q]], distances[heads[q]] = low + i, measured[i]
                            heads[q + (not write)] += 1
        if not write:
            heads = np.cumsum(heads)
            places, distances = np.empty(heads[-1], np.int64), np.empty(heads[-1], np.int32)
    return places, distances, heads[:-1]
