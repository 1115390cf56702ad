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
from streambits.kernels.multi_index import _piece
from streambits.kernels.weighted import NOWHERE, Heap, enter

AHEAD = 64  # buckets that are looked up together: their memory is waited for together
ROOM = 1024  # codes that are measured together
FIRST, GROWTH = 0.03, 1.5  # thresholds, as shares of all weights, and how they grow
SLACK = 1 + 1e-7  # far above the rounding errors of distances and thresholds
# What things cost, in places that the scan by weights passes: to look up a bucket, to measure a
# word of a code in it, to find the places of a code, to try one of them.
LOOK, WORD, FIND, TRY = 16, 6, 100, 30
SPENT, BUDGET = 0, 1  # the state of a query


class Halves(NamedTuple):
    """What the bits of both halves of each piece cost.

    shift: bits of the first half; sizes: how many values each has; costs: (pieces, 2, larger size)
    by value; orders: the same, values by ascending cost; weights: (pieces,) sums of all.
    """

    shift: int
    sizes: Any
    costs: Any
    orders: Any
    weights: Any


class Probe(NamedTuple):
    """One query on its way through the tables.

    own: (pieces,) values of its pieces; bytes_: (bytes, 256) what the bits of a byte cost; reached:
    (pieces,) the costs up to which all buckets are opened; heap: the nearest so far;
    state: see SPENT; memory: (3, ROOM) where buckets begin and end, and the codes that wait; far:
    (ROOM,) their distances.
    """

    words: Any
    halves: Any
    own: Any
    bytes_: Any
    reached: Any
    alive: Any
    heap: Any
    state: Any
    memory: Any
    far: Any


@compiled
def _order(costs: Any, weights: Any, order: Any, spare: Any) -> Any:
    """Costs of all values of some bits, and the values by ascending cost; gives their number."""
    costs[0], order[0], size = 0.0, 0, 1
    for weight in weights:
        for value in range(size):
            costs[size + value] = costs[value] + weight
        plain, more = 0, 0
        for i in range(2 * size):  # merge the values without this bit and those with it
            if more == size or (plain < size and costs[order[plain]] <= costs[size + order[more]]):
                spare[i] = order[plain]
                plain += 1
            else:
                spare[i] = size + order[more]
                more += 1
        size *= 2
        order[:size] = spare[:size]
    return size


@compiled
def _halves(weights: Any, bits: int, width: int, pieces: int) -> Any:
    shift = width // 2
    room = 1 << (width - shift)
    costs, orders = np.empty((pieces, 2, room)), np.empty((pieces, 2, room), np.int64)
    sums, spare = np.empty(pieces), np.empty(room, np.int64)
    for t in range(pieces):
        start = bits - (t + 1) * width
        low = _order(costs[t, 0], weights[start : start + shift], orders[t, 0], spare)
        high = _order(costs[t, 1], weights[start + shift : start + width], orders[t, 1], spare)
        sums[t] = costs[t, 0, low - 1] + costs[t, 1, high - 1]
    return Halves(shift, (1 << shift, room), costs, orders, sums)


@compiled
def _byte_costs(table: Any) -> Any:
    """(bytes, 256): each the sum of its halves, as `kernels.weighted` adds them up."""
    costs = np.empty((len(table) // 2, 256))
    for i in range(len(costs)):
        for value in range(256):
            costs[i, value] = table[2 * i, value & 15] + table[2 * i + 1, value >> 4]
    return costs


@compiled
def _count(halves: Any, t: int, least: float, most: float) -> Any:
    """How many values of a piece cost more than the least and at most the most."""
    costs, orders, sizes = halves.costs[t], halves.orders[t], halves.sizes
    low, high, count = sizes[1], sizes[1], 0
    for i in range(sizes[0]):
        first = costs[0, orders[0, i]]
        if first > most:
            break
        while high > 0 and first + costs[1, orders[1, high - 1]] > most:
            high -= 1
        while low > 0 and first + costs[1, orders[1, low - 1]] > least:
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
        flips = probe.own[other] ^ _piece(tables.words[t], i, start, tables.width)
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
def _measure(tables: Any, t: int, count: int, probe: Any) -> None:
    """Measure the codes that wait in the memory, and try those that are near."""
    waiting, far, table, heap = probe.memory[2], probe.far, tables.words[t], probe.heap
    for w in range(len(probe.words)):
        own = probe.words[w]
        for i in range(count):
            word, distance = table[w, waiting[i]] ^ own, far[i] if w else 0.0
            for b in range(8 * w, 8 * w + 8):
                distance += probe.bytes_[b, word & np.uint64(255)]
                word >>= np.uint64(8)
            far[i] = distance
    probe.state[SPENT] += WORD * len(probe.words) * count
    for i in range(count):
        if far[i] <= heap.distances[0] and _is_new(tables, t, waiting[i], probe):
            _enter_all(tables, t, waiting[i], far[i], probe)


@compiled
def _open(tables: Any, t: int, keys: int, waits: int, probe: Any) -> Any:
    """Let the codes of some buckets wait, measuring whenever there is no room; how many wait."""
    lows, highs, waiting = probe.memory[0], probe.memory[1], probe.memory[2]
    offsets = tables.offsets[t]
    for i in range(keys):
        value = lows[i]
        lows[i], highs[i] = offsets[value], offsets[value + 1]
    for i in range(keys):
        for at in range(lows[i], highs[i]):
            waiting[waits] = at
            waits += 1
            if waits == ROOM:
                _measure(tables, t, waits, probe)
                waits = 0
    probe.state[SPENT] += LOOK * keys
    return waits


@compiled
def _reach(tables: Any, t: int, most: float, probe: Any) -> None:
    """Open the buckets of piece t that cost at most the most, and were not opened before."""
    halves = probe.halves
    costs, orders, sizes = halves.costs[t], halves.orders[t], halves.sizes
    least, own, keys, waits = probe.reached[t], probe.own[t], 0, 0
    low, high = sizes[1], sizes[1]
    for i in range(sizes[0]):
        flips = orders[0, i]
        first = costs[0, flips]
        if first > most or probe.state[SPENT] > probe.state[BUDGET]:
            break
        while high > 0 and first + costs[1, orders[1, high - 1]] > most:
            high -= 1
        while low > 0 and first + costs[1, orders[1, low - 1]] > least:
            low -= 1
        for j in range(low, high):
            probe.memory[0, keys] = own ^ (flips | orders[1, j] << halves.shift)
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
    (pieces, count, codes), halves = tables.words.shape, probe.halves
    each = LOOK + WORD * count * codes / (len(tables.offsets[0]) - 1)  # for a bucket
    total, share, reached, state = halves.weights.sum(), 0.0, 0.0, probe.state
    if not 0 < total < np.inf:
        return False
    while reached <= probe.heap.distances[0] * SLACK and share < SLACK:
        wanted = probe.heap.distances[0] * SLACK * SLACK / total
        more = min(max(share * GROWTH, FIRST), SLACK)
        share = min(more, max(wanted, FIRST)) if wanted > share else more
        reached = 0.0
        for t in range(pieces):
            if halves.weights[t] <= 0:
                continue
            most = share * halves.weights[t]
            keys = _count(halves, t, probe.reached[t], most)
            if state[SPENT] + keys * each > state[BUDGET]:
                return False
            _reach(tables, t, most, probe)
            if state[SPENT] > state[BUDGET]:
                return False
            reached += most
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
    memory, far = np.empty((3, ROOM), np.int64), np.empty(ROOM)
    for q in range(asked):
        for t in range(pieces):
            start = tables.bits - (t + 1) * tables.width
            own[t] = _piece(queries[q].reshape(-1, 1), 0, start, tables.width)
            reached[t] = -1.0
        state[SPENT], state[BUDGET] = 0, budget
        halves = _halves(weights[q], tables.bits, tables.width, pieces)
        heap, costs = Heap(distances[q], places[q]), _byte_costs(table[q])
        probe = Probe(queries[q], halves, own, costs, reached, alive, heap, state, memory, far)
        done[q] = _search(tables, probe)
    return places, distances, done
