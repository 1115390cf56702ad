"""Multi-index hashing: codes found by pieces of their bits.

Piece t of a code is `width` of its bits; the pieces lie side by side from the last bit down, and
need not reach the first. Equal codes are kept once. They are numbered in the order of piece 0;
`members` has the places of code g, ascending, from starts[g] to starts[g + 1]. Table t has the
codes in the order of piece t: in `words` as planes, in `owners` their numbers (none for table 0),
and in `offsets` where each value of the piece begins: a bucket.
"""

from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled
from streambits.kernels.bits import popcount
from streambits.kernels.scan import CHUNK, least_of, measure

PREFIX, DIGIT, DIGITS = 24, 11, 4  # bits of a key: those of the code, of a pass; passes
END = 1 << DIGIT * DIGITS  # of all keys
MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = 40  # a candidate is distance << SHIFT | place
FOUND, LIMIT, SPENT, BUDGET = range(4)  # the state of a query; candidates lie below the limit
FAR = 1 << 20  # beyond all distances
AHEAD = 64  # buckets that are looked up together: their memory is waited for together
# What things cost, measured, in words of a scan: to look up a bucket, to open one that is not
# empty or find the places of a code, to measure a word there, to try a place.
LOOK, OPEN, WORD, TRY = 50, 1000, 3, 30


class PieceTables(NamedTuple):
    """Codes under m pieces of `width` of their bits.

    offsets: (m, 2^width + 1) where the bucket of each value begins; owners: (m - 1, codes) numbers
    of codes, in the order of each table but the first; words: (m, words per code, codes) planes;
    starts: (codes + 1,) where the places of each code begin; members: (places,).
    """

    bits: int
    width: int
    offsets: Any
    owners: Any
    words: Any
    starts: Any
    members: Any


class Probe(NamedTuple):
    """One query on its way through the tables.

    own, reach: (m,) the values of its pieces, and in how many bits of each all buckets are opened;
    found: (k,) candidates; state: see FOUND; memory: to measure a chunk and look up buckets.
    """

    query: Any
    own: Any
    reach: Any
    alive: Any
    found: Any
    state: Any
    memory: Any


@compiled
def keys(words: Any, bits: int, low: int, high: int, out: Any) -> None:
    """What codes are sorted by: their last bits, then a hash that brings equal ones together."""
    width, rest = min(bits, PREFIX), DIGIT * DIGITS - PREFIX
    for i in range(low, high):
        mixed = np.uint64(0)
        for w in range(len(words)):
            mixed = (mixed ^ words[w, i]) * MIX
            mixed ^= mixed >> np.uint64(32)
        prefix = bits_of(words, i, bits - width, width) << (PREFIX - width)
        out[i] = np.uint64(prefix << rest) | mixed * MIX >> np.uint64(64 - rest)


@compiled
def bits_of(words: Any, i: int, start: int, width: int) -> Any:
    """Bits start to start + width of code i."""
    word, shift = start >> 6, start & 63
    value = words[word, i] >> np.uint64(shift)
    if shift + width > 64:
        value |= words[word + 1, i] << np.uint64(64 - shift)
    return np.int64(value & np.uint64((1 << width) - 1))


@compiled
def _sort(keys: Any, places: Any) -> None:
    """By key, equal ones as they come: a radix sort, in place after an even number of passes."""
    spare_keys, spare = np.empty_like(keys), np.empty_like(places)
    mask = np.uint64((1 << DIGIT) - 1)
    heads = np.zeros((DIGITS, (1 << DIGIT) + 1), np.int64)
    for i in range(len(keys)):
        for d in range(DIGITS):
            heads[d, np.int64(keys[i] >> np.uint64(d * DIGIT) & mask) + 1] += 1
    for d in range(DIGITS):
        head = np.cumsum(heads[d])
        for i in range(len(keys)):
            digit = np.int64(keys[i] >> np.uint64(d * DIGIT) & mask)
            spare_keys[head[digit]], spare[head[digit]] = keys[i], places[i]
            head[digit] += 1
        keys, spare_keys, places, spare = spare_keys, keys, spare, places


@compiled
def ordered(words: Any, keys: Any, low: Any, high: Any, kind: Any) -> Any:
    """The places with keys from low up to high, sorted, and whether each begins another code."""
    count = 0
    for i in range(len(keys)):
        count += low <= keys[i] < high
    between, places = np.empty(count, np.uint64), np.empty(count, kind.dtype)
    first = np.ones(count, np.bool_)
    count = 0
    for i in range(len(keys)):
        if low <= keys[i] < high:
            between[count], places[count] = keys[i], i
            count += 1
    _sort(between, places)
    for i in range(1, count):
        if between[i] == between[i - 1]:
            first[i] = False
            for w in range(len(words)):
                first[i] |= words[w, places[i]] != words[w, places[i - 1]]
    return places, first


@compiled
def heads(words: Any, start: int, width: int) -> Any:
    """Where each value of a piece begins, once the codes are in its order."""
    counts = np.zeros((1 << width) + 1, np.int64)
    for i in range(words.shape[1]):
        counts[bits_of(words, i, start, width) + 1] += 1
    return np.cumsum(counts)


@compiled
def spread(words: Any, piece: tuple[int, int], heads: Any, owners: Any, out: Any) -> None:
    """Bring codes into the order of a piece (start, width); uses up the heads."""
    for i in range(words.shape[1]):
        value = bits_of(words, i, piece[0], piece[1])
        at = heads[value]
        heads[value] += 1
        owners[at] = i
        for w in range(len(words)):
            out[w, at] = words[w, i]


@compiled
def _sink(heap: Any, at: int) -> None:
    """Put right a heap, largest first, of which only `at` may be too small."""
    while 2 * at + 1 < len(heap):
        child = 2 * at + 1
        if child + 1 < len(heap) and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= heap[at]:
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@compiled
def _try(places: Any, alive: Any, distance: int, found: Any, state: Any) -> None:
    """Try the places of a code, ascending; once k are found, they are a heap, largest first."""
    for i in range(len(places)):
        candidate = distance << SHIFT | np.int64(places[i])
        if candidate >= state[LIMIT] or state[SPENT] > state[BUDGET]:
            return
        state[SPENT] += TRY
        if not alive[places[i]]:
            continue
        if state[FOUND] < len(found):
            found[state[FOUND]] = candidate
            state[FOUND] += 1
            if state[FOUND] < len(found):
                continue
            for at in range(len(found) // 2, 0, -1):
                _sink(found, at)
        else:
            found[0] = candidate
        _sink(found, 0)
        state[LIMIT] = found[0]


@compiled
def _is_new(tables: Any, table: Any, i: int, probe: Any) -> Any:
    """Whether no piece has led to this code before: each differs in more bits than it reached."""
    for t in range(len(probe.own)):
        start = tables.bits - (t + 1) * tables.width
        flips = probe.own[t] ^ bits_of(table, i, start, tables.width)
        if popcount(np.uint64(flips)) <= probe.reach[t]:
            return False
    return True


@compiled
def _open(tables: Any, t: int, table: Any, bucket: tuple[int, int], probe: Any) -> None:
    """Try the codes of a bucket of table t, the nearest first."""
    starts, members, state = tables.starts, tables.members, probe.state
    for low in range(bucket[0], bucket[1], CHUNK):
        measured = probe.memory[: min(CHUNK, bucket[1] - low)]
        if least_of(table, low, low + len(measured), probe.query) << SHIFT >= state[LIMIT]:
            continue
        distance = measure(table, low, probe.query, measured)
        while distance << SHIFT < state[LIMIT]:
            following = FAR
            for i in range(len(measured)):
                if measured[i] > distance:
                    following = min(following, measured[i])
                elif measured[i] == distance and _is_new(tables, table, low + i, probe):
                    code = np.int64(tables.owners[t - 1, low + i]) if t else low + i
                    state[SPENT] += OPEN
                    places = members[starts[code] : starts[code + 1]]
                    _try(places, probe.alive, distance, probe.found, state)
            distance = following


@compiled
def _look_up(offsets: Any, own: int, flips: int, lows: Any, highs: Any) -> Any:
    """Where buckets are that are not empty: how many, how many were looked up, the next flips.

    Flips go through all values with the same number of bits, ascending.
    """
    found, looked, end = 0, 0, len(offsets) - 1
    while flips < end and looked < AHEAD:
        lows[found], highs[found] = offsets[own ^ flips], offsets[(own ^ flips) + 1]
        found += highs[found] > lows[found]
        looked += 1
        lowest = flips & -flips
        raised = flips + lowest
        rest = (flips ^ raised) >> 2 >> popcount(np.uint64(lowest - 1))
        flips = raised | rest if flips else end
    return found, looked, flips


@compiled
def _step(tables: Any, t: int, whole: bool, probe: Any) -> Any:
    """Open the buckets of a piece one bit further away, or the whole table; gives the cost."""
    offsets, table, state, memory = tables.offsets[t], tables.words[t], probe.state, probe.memory
    lows, highs = memory[CHUNK : CHUNK + AHEAD], memory[CHUNK + AHEAD :]
    flips, cost = (1 << (probe.reach[t] + 1)) - 1, 0
    while flips < len(offsets) - 1:
        if whole:
            lows[0], highs[0], opened, looked, flips = 0, table.shape[1], 1, 0, len(offsets)
        else:
            opened, looked, flips = _look_up(offsets, probe.own[t], flips, lows, highs)
        cost += LOOK * looked + OPEN * opened
        for i in range(opened):
            cost += WORD * len(table) * (highs[i] - lows[i])
            if state[SPENT] + cost > state[BUDGET]:
                return cost
            _open(tables, t, table, (lows[i], highs[i]), probe)
    return cost


@compiled
def _search(tables: Any, probe: Any) -> Any:
    """How many candidates were found, or -1 if the budget was too small."""
    width, reach, state = tables.width, probe.reach, probe.state
    pieces, count, codes = tables.words.shape
    costs = np.empty(pieces, np.int64)
    for t in range(pieces):
        own = bits_of(probe.query.reshape(-1, 1), 0, tables.bits - (t + 1) * width, width)
        size = np.int64(tables.offsets[t, own + 1]) - np.int64(tables.offsets[t, own])
        probe.own[t], reach[t], costs[t] = own, -1, LOOK + OPEN + WORD * count * size
    covered, most = 0, OPEN + WORD * count * codes
    while covered << SHIFT < state[LIMIT] and reach.max() < width:
        least = np.argmin(costs)
        if state[SPENT] + min(costs[least], most) > state[BUDGET]:
            return -1
        whole = costs[least] >= most
        cost = _step(tables, 0 if whole else least, whole, probe)
        state[SPENT] += cost
        if whole:
            break
        reach[least] += 1
        covered += 1
        costs[least] = cost * (width - reach[least]) // (reach[least] + 1)
    return state[FOUND] if state[SPENT] <= state[BUDGET] else -1


@compiled
def search_tables(tables: Any, alive: Any, queries: Any, k: int, limits: tuple[int, int]) -> Any:
    """The k nearest living places of every query: candidates, and how many each has.

    limits: a radius, and what a query may cost; one that would cost more has -1 candidates.

    Pieces reach out one bit at a time, always the cheapest next. A code that was not seen differs
    in more bits than were reached, in every piece; once these add up to more than the distance of
    the k-th candidate, nothing is missing.
    """
    pieces, state = len(tables.words), np.empty(4, np.int64)
    own, reach = np.empty(pieces, np.int64), np.empty(pieces, np.int64)
    found, memory = np.empty(k, np.int64), np.empty(CHUNK + 2 * AHEAD, np.int64)
    counts, out, end = np.empty(len(queries), np.int64), np.empty(k, np.int64), 0
    for q in range(len(queries)):
        state[FOUND], state[LIMIT] = 0, (limits[0] + 1) << SHIFT
        state[SPENT], state[BUDGET] = 0, limits[1]
        counts[q] = _search(tables, Probe(queries[q], own, reach, alive, found, state, memory))
        if counts[q] > 0:
            if end + counts[q] > len(out):
                out = np.append(out[:end], np.empty(end + counts[q], np.int64))
            out[end : end + counts[q]] = np.sort(found[: counts[q]])
            end += counts[q]
    return out[:end], counts
