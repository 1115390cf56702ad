"""Tables searched by weighted distance: buckets in the order of what their bits cost.

What the bits of a piece cost together is the sum of two halves of it, each in ascending order, so
the values of a piece that cost at most a threshold are gone through without looking at others. A
code that no piece has led to costs more than the threshold in every one of them: once the
thresholds add up to more than the k-th distance so far, nothing is missing. They grow in
proportion to the weights of their pieces, so that about as many values of each are looked up.
"""

from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled
from streambits.kernels.bits import popcount
from streambits.kernels.multi_index import bits_of
from streambits.kernels.weighted import NOWHERE, Heap, enter

AHEAD = 64  # buckets that are looked up together: their memory is waited for together
ROOM = 1024  # codes that are measured together
FIRST, GROWTH = 0.03, 1.5  # thresholds, as shares of all weights, and how they grow
SLACK = 1 + 1e-7  # far above the rounding errors of distances and thresholds
# What things cost, in places that the scan by weights passes: to look up a bucket, to measure a
# word of a code in it, to find the places of a code, to try one of them.
LOOK, WORD, FIND, TRY = 16, 6, 100, 30
STEP = 0.6  # of a mean weight, that a level has
FAR = 1 << 40  # above all sums of levels
SPENT, BUDGET = 0, 1  # the state of a query


class Halves(NamedTuple):
    """What the bits of both halves of each piece cost.

    shift: bits of the first half; sizes: how many values each has; costs: (pieces, 2, larger size)
    by value; weights: (pieces,) sums of all.
    """

    shift: int
    sizes: Any
    costs: Any
    weights: Any


class Probe(NamedTuple):
    """One query on its way through the tables.

    own: (pieces,) values of its pieces; bytes_: (bytes, 256) what the bits of a byte cost; reached:
    (pieces,) the costs up to which all buckets are opened; heap: the nearest so far;
    masks, step: see `_levels`; state: see SPENT; memory: where buckets begin and end, which codes
    wait, and sums of their levels; codes: (words, ROOM) these codes; orders: memory of `_order` for
    both halves.
    """

    words: Any
    halves: Any
    own: Any
    bytes_: Any
    reached: Any
    alive: Any
    heap: Any
    masks: Any
    step: Any
    state: Any
    memory: Any
    codes: Any
    orders: Any


@compiled
def _halves(weights: Any, bits: int, width: int, pieces: int) -> Any:
    shift = width // 2
    sizes = (1 << shift, 1 << (width - shift))
    costs, sums = np.zeros((pieces, 2, sizes[1])), np.empty(pieces)
    for t in range(pieces):
        bit = bits - (t + 1) * width
        for half in range(2):
            size = 1
            while size < sizes[half]:
                for value in range(size):
                    costs[t, half, size + value] = costs[t, half, value] + weights[bit]
                size, bit = 2 * size, bit + 1
        sums[t] = costs[t, 0, sizes[0] - 1] + costs[t, 1, sizes[1] - 1]
    return Halves(shift, sizes, costs, sums)


@compiled
def _order(costs: Any, size: int, most: float, memory: Any) -> Any:
    """The values that cost at most the most, by ascending cost: bit by bit, two lists are merged.

    costs: (values,) of which the first `size` count. memory: two arrays for as many values.
    """
    order, spare = memory
    order[0], count, bit = 0, 1, 1
    while bit < size:
        plain, more, merged = 0, 0, 0
        while more < count and costs[bit + order[more]] <= most:
            first, second = order[min(plain, count - 1)], bit + order[more]
            ours = plain < count and costs[first] <= costs[second]
            spare[merged] = first if ours else second
            plain, more, merged = plain + ours, more + (not ours), merged + 1
        for i in range(plain, count):
            spare[merged + i - plain] = order[i]
        count, bit = merged + count - plain, 2 * bit
        order, spare = spare, order
    return order[:count]


@compiled
def _byte_costs(table: Any) -> Any:
    """(bytes, 256): each the sum of its halves, as `kernels.weighted` adds them up."""
    costs = np.empty((len(table) // 2, 256))
    for i in range(len(costs)):
        for value in range(256):
            costs[i, value] = table[2 * i, value & 15] + table[2 * i + 1, value >> 4]
    return costs


@compiled
def _levels(weights: Any, masks: Any) -> Any:
    """Weights rounded down to 0 to 3 steps, bit 0 and bit 1 of that as masks; gives the step.

    The steps of the bits that differ are a lower bound of the distance, which rules out nearly all
    codes of a bucket; by counts of bits, which take a tenth of the time of adding weights up.
    """
    above, count = 0.0, 0
    for weight in weights:
        above += weight
        count += weight > 0
    step = max(STEP * above / max(count, 1), 1e-300)
    for w in range(len(masks)):
        masks[w, 0] = masks[w, 1] = 0
    for i in range(len(weights)):
        level = int(min(weights[i] / step, 3.0))
        masks[i // 64, 0] |= np.uint64(level & 1) << np.uint64(i % 64)
        masks[i // 64, 1] |= np.uint64(level >> 1) << np.uint64(i % 64)
    return step


@compiled
def _count(costs: Any, orders: Any, least: float, most: float) -> Any:
    """How many values of a piece cost more than the least and at most the most.

    costs: (2, values) of its halves; orders: those of each half that cost at most the most.
    """
    low = high = len(orders[1])
    count = 0
    for value in orders[0]:
        first = costs[0, value]
        while high > 0 and first + costs[1, orders[1][high - 1]] > most:
            high -= 1
        while low > 0 and first + costs[1, orders[1][low - 1]] > least:
            low -= 1
        count += high - low
    return count


@compiled
def _is_new(tables: Any, t: int, i: int, probe: Any) -> Any:
    """Whether no other piece has led to code i of table t before."""
    halves, mask = probe.halves, probe.halves.sizes[0] - 1
    for other in range(len(probe.own)):
        if other == t or probe.reached[other] < 0:
            continue
        start = tables.bits - (other + 1) * tables.width
        flips = probe.own[other] ^ bits_of(tables.words[t], i, start, tables.width)
        costs = halves.costs[other]
        if costs[0, flips & mask] + costs[1, flips >> halves.shift] <= probe.reached[other]:
            return False
    return True


@compiled
def _enter_all(tables: Any, t: int, i: int, distance: float, probe: Any) -> None:
    """Try the places of code i of table t."""
    code = np.int64(tables.owners[t - 1, i]) if t else i
    heap, state = probe.heap, probe.state
    state[SPENT] += FIND
    for at in range(tables.starts[code], tables.starts[code + 1]):
        place = np.int64(tables.members[at])
        if (distance, place) >= (heap.distances[0], heap.places[0]):
            return  # and so are those that follow
        state[SPENT] += TRY
        if state[SPENT] > state[BUDGET]:
            return
        if probe.alive[place]:
            enter(heap, distance, place)


@compiled
def _sums(codes: Any, count: int, probe: Any, sums: Any) -> None:
    """Levels of the bits in which waiting codes differ from the query."""
    for w in range(len(codes)):
        own, odd, high = probe.words[w], probe.masks[w, 0], probe.masks[w, 1]
        before = -np.int64(w > 0)  # all ones where there are sums to add to
        for i in range(count):
            word = codes[w, i] ^ own
            more = popcount(word & odd) + 2 * popcount(word & high)
            sums[i] = (sums[i] & before) + more


@compiled
def _measure(tables: Any, t: int, count: int, probe: Any) -> None:
    """Measure the codes that wait in the memory, and try those that are near."""
    (_, _, waiting, sums), codes, heap = probe.memory, probe.codes, probe.heap
    limit = min(heap.distances[0] * SLACK / probe.step, float(FAR))
    _sums(codes, count, probe, sums)
    probe.state[SPENT] += WORD * len(codes) * count
    for i in range(count):
        if sums[i] > limit:
            continue
        distance = 0.0
        for w in range(len(codes)):
            word = codes[w, i] ^ probe.words[w]
            for b in range(8 * w, 8 * w + 8):
                distance += probe.bytes_[b, word & np.uint64(255)]
                word >>= np.uint64(8)
        if distance <= heap.distances[0] and _is_new(tables, t, waiting[i], probe):
            _enter_all(tables, t, waiting[i], distance, probe)


@compiled
def _open(tables: Any, t: int, keys: int, waits: int, probe: Any) -> Any:
    """Let the codes of some buckets wait, measuring whenever there is no room; how many wait."""
    (lows, highs, waiting, _), codes = probe.memory, probe.codes
    offsets, table = tables.offsets[t], tables.words[t]
    for i in range(keys):
        value = lows[i]
        lows[i], highs[i] = offsets[value], offsets[value + 1]
    for i in range(keys):
        low = lows[i]
        while low < highs[i]:
            size = min(highs[i] - low, ROOM - waits)
            for w in range(len(codes)):
                to, of = codes[w, waits : waits + size], table[w, low : low + size]
                for j in range(size):
                    to[j] = of[j]
            some = waiting[waits : waits + size]
            for j in range(size):
                some[j] = low + j
            low, waits = low + size, waits + size
            if waits == ROOM:
                _measure(tables, t, waits, probe)
                waits = 0
    probe.state[SPENT] += LOOK * keys
    return waits


@compiled
def _reach(tables: Any, t: int, most: float, probe: Any) -> None:
    """Open the buckets of piece t that cost at most the most, and were not opened before."""
    halves, (own, least, state) = probe.halves, (probe.own[t], probe.reached[t], probe.state)
    costs, keys, waits = halves.costs[t], 0, 0
    orders = (
        _order(costs[0], halves.sizes[0], most, probe.orders[0]),
        _order(costs[1], halves.sizes[1], most, probe.orders[1]),
    )
    each = LOOK + WORD * tables.words[t].size / (len(tables.offsets[t]) - 1)  # for a bucket
    if state[SPENT] + each * _count(costs, orders, least, most) > state[BUDGET]:
        state[SPENT] = state[BUDGET] + 1
        return
    low = high = len(orders[1])
    for flips in orders[0]:
        first = costs[0, flips]
        while high > 0 and first + costs[1, orders[1][high - 1]] > most:
            high -= 1
        while low > 0 and first + costs[1, orders[1][low - 1]] > least:
            low -= 1
        for j in range(low, high):
            probe.memory[0][keys] = own ^ (flips | orders[1][j] << halves.shift)
            keys += 1
            if keys == AHEAD:
                waits = _open(tables, t, keys, waits, probe)
                keys = 0
    waits = _open(tables, t, keys, waits, probe)
    _measure(tables, t, waits, probe)
    probe.reached[t] = most


@compiled
def _search(tables: Any, probe: Any) -> Any:
    """Whether all was found within the budget."""
    halves = probe.halves
    total, share, reached, state = halves.weights.sum(), 0.0, 0.0, probe.state
    if not 0 < total < np.inf:
        return False
    while reached <= probe.heap.distances[0] * SLACK and share < SLACK:
        wanted = probe.heap.distances[0] * SLACK * SLACK / total
        more = min(max(share * GROWTH, FIRST), SLACK)
        share = min(more, max(wanted, FIRST)) if wanted > share else more
        reached = 0.0
        for t in range(len(halves.weights)):
            if halves.weights[t] > 0:
                _reach(tables, t, share * halves.weights[t], probe)
                if state[SPENT] > state[BUDGET]:
                    return False
                reached += probe.reached[t]
    return True  # at the latest when a piece has led to every code


@compiled
def nearest_in_tables(  # noqa: PLR0917 - as `nearest_by_costs`, and a budget
    tables: Any, alive: Any, queries: Any, weights: Any, table: Any, k: int, budget: int
) -> Any:
    """The k nearest living places of every query, in no order: places, distances, whether found.

    tables: PieceTables; weights: (queries, bits); table: `half_byte_costs` of them; budget: what a
    query may cost, in places of a scan; k: at most the living.
    """
    pieces, asked = len(tables.words), len(queries)
    distances, places = np.full((asked, k), np.inf), np.full((asked, k), NOWHERE)
    done, state = np.zeros(asked, np.bool_), np.zeros(2, np.int64)
    own, reached = np.empty(pieces, np.int64), np.empty(pieces)
    codes, masks = (
        np.empty((queries.shape[1], ROOM), np.uint64),
        np.empty((queries.shape[1], 2), np.uint64),
    )
    room = 1 << (tables.width - tables.width // 2)
    orders = (
        (np.empty(room, np.int64), np.empty(room, np.int64)),
        (np.empty(room, np.int64), np.empty(room, np.int64)),
    )
    ends = np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64)
    memory = (*ends, np.empty(ROOM, np.int64), np.empty(ROOM, np.int64))
    for q in range(asked):
        for t in range(pieces):
            start = tables.bits - (t + 1) * tables.width
            own[t] = bits_of(queries[q].reshape(-1, 1), 0, start, tables.width)
            reached[t] = -1.0
        state[SPENT], state[BUDGET] = 0, budget
        halves = _halves(weights[q], tables.bits, tables.width, pieces)
        heap, costs = Heap(distances[q], places[q]), _byte_costs(table[q])
        step = _levels(weights[q], masks)
        probe = Probe(
            queries[q],
            halves,
            own,
            costs,
            reached,
            alive,
            heap,
            masks,
            step,
            state,
            memory,
            codes,
            orders,
        )
        done[q] = _search(tables, probe)
    return places, distances, done
