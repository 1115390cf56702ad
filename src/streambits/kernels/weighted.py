"""A scan by weighted distance: what differs is bounded by counting bits, then scored by tables.

A query's weights are rounded to levels 0 .. 2^planes - 1 of a step, some down and some up. Bit b of
all levels is a mask, so the levels of the bits that differ are summed by an AND and a count for
each plane and word, and

    distance >= step * (sum of levels) - excess,    excess = all that was rounded up.

Blocks of codes whose smallest sum is above (k-th distance so far + excess) / step are done. Masks
are made as soon as a k-th distance is known, and again as it falls: step and rounding are those
that a random code passes least likely (Chernoff's bound on the sum), the number of planes is the
cheapest on the codes at hand. Whatever they are, the answers are the same.
"""

from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled
from streambits.kernels.bits import popcount

BLOCK = 256  # places ruled out together
CHUNK = 1 << 14  # words that stay in the second cache while all queries pass over them
FIRST = 1024  # places scored before there are masks
LATER = 16  # times as many places, after which masks are made again
TRIAL = 4096  # places at most to try masks on
MOST = 4  # planes, as many as `_row` and `_survivors` know
STEPS = 10  # to choose from
FAR = 1 << 40  # above all sums of levels
SLACK = 1 + 1e-8  # far above the rounding errors of bounds and distances
NOWHERE = np.iinfo(np.int64).max  # behind all places


class Costs(NamedTuple):
    """What bits that differ cost, for each of the queries.

    tables: by half bytes, see `half_byte_costs`; weights: (queries, bits) relative to the largest;
    most: (queries,) that; samples: (queries, size) of the weights above zero, ascending; shares:
    (queries,) of the sample in all of these; limits: (queries,) distances beyond which nothing is
    of interest.
    """

    tables: Any
    weights: Any
    most: Any
    samples: Any
    shares: Any
    limits: Any


class OneQuery(NamedTuple):
    """A query with its row of `Costs`; memory: for what is left of a block of places."""

    words: Any
    table: Any
    weights: Any
    most: Any
    sample: Any
    share: Any
    memory: Any


class Masked(NamedTuple):
    """A query with the masks of its levels; planes: how many, or a tuple of that length."""

    query: Any
    masks: Any
    planes: Any


class MaskPlan(NamedTuple):
    """How a query rules out codes: those whose sum of levels times `step` less `excess` is high."""

    masked: Any
    step: Any
    excess: Any


class Heap(NamedTuple):
    """The nearest so far, the farthest of them first."""

    distances: Any
    places: Any


@compiled
def half_byte_costs(weights: Any, width: int) -> Any:
    """(queries, 16 width, 16): what the bits of a half byte cost together."""
    costs = np.zeros((len(weights), 16 * width, 16))
    for q in range(len(weights)):
        for bit in range(weights.shape[1]):
            size, half = 1 << bit % 4, bit // 4
            for value in range(size):
                costs[q, half, size + value] = costs[q, half, value] + weights[q, bit]
    return costs


@compiled
def _sum(word: Any, masks: Any, planes: Any) -> Any:
    """The levels of the bits set; `planes` is a tuple as long as there are planes."""
    total = popcount(word & masks[0])
    if len(planes) > 1:
        total += 2 * popcount(word & masks[1])
    if len(planes) > 2:
        total += 4 * popcount(word & masks[2])
    if len(planes) > 3:
        total += 8 * popcount(word & masks[3])
    return total


@compiled
def _row(masks: Any, w: int) -> Any:
    return masks[w, 0], masks[w, 1], masks[w, 2], masks[w, 3]


@compiled
def _next(words: Any, span: Any, asked: Any, limit: int, out: Any) -> Any:
    """Where the first block of the span begins that has a sum within the limit, or its end.

    asked: Masked, its planes a tuple. `out` then has the sums of that block. By four words, then by
    one; unsigned places let the compiler see that they are contiguous.
    """
    query, masks, planes = asked
    (low, high), count = span, len(words)
    fours = count // 4 * 4
    while low < high:
        size, start, least = min(BLOCK, high - low), np.uint64(low), FAR
        for w in range(0, fours, 4):
            p, q, r, s = query[w], query[w + 1], query[w + 2], query[w + 3]
            a, b, c, d = _row(masks, w), _row(masks, w + 1), _row(masks, w + 2), _row(masks, w + 3)
            least, before = FAR, -np.int64(w > 0)  # all ones where there are sums to add to
            for i in range(size):
                at = start + np.uint64(i)
                near = _sum(words[w, at] ^ p, a, planes) + _sum(words[w + 1, at] ^ q, b, planes)
                far = _sum(words[w + 2, at] ^ r, c, planes) + _sum(words[w + 3, at] ^ s, d, planes)
                out[i] = (out[i] & before) + near + far
                least = min(least, out[i])
        for w in range(fours, count):
            p, a = query[w], _row(masks, w)
            least, before = FAR, -np.int64(w > 0)
            for i in range(size):
                out[i] = (out[i] & before) + _sum(words[w, start + np.uint64(i)] ^ p, a, planes)
                least = min(least, out[i])
        if least <= limit:
            break
        low += size
    return low


@compiled
def _survivors(words: Any, span: Any, asked: Any, limit: int, out: Any) -> Any:
    """The first block that is not ruled out, and how many places of it; `out` has which.

    asked: Masked, its planes a number; with none of them nothing is ruled out.
    """
    low, (query, masks, planes) = span[0], asked
    if planes == 1:
        low = _next(words, span, Masked(query, masks, (0,)), limit, out)
    elif planes == 2:
        low = _next(words, span, Masked(query, masks, (0, 0)), limit, out)
    elif planes == 3:
        low = _next(words, span, Masked(query, masks, (0, 0, 0)), limit, out)
    elif planes == 4:
        low = _next(words, span, Masked(query, masks, (0, 0, 0, 0)), limit, out)
    count = 0
    for i in range(min(BLOCK, span[1] - low)):
        near = planes == 0 or out[i] <= limit
        out[count] = i
        count += near
    return low, count


@compiled
def _limit(bound: float, step: float, excess: float) -> Any:
    """The largest sum of levels that a code within the bound can have."""
    return int(min((bound + excess) / step * SLACK, float(FAR)))


@compiled
def _tilt(weights: Any, bound: float) -> Any:
    """If a bit differs with odds of exp(-tilt weight) to 1, codes cost the bound on average."""
    low, high = -4.0, 40.0
    for _ in range(8):
        middle, cost = (low + high) / 2, 0.0
        for weight in weights:
            cost += weight / (1 + np.exp(min(2.0**middle * weight, 700.0)))
        if cost > bound:
            low = middle
        else:
            high = middle
    return 2.0 ** ((low + high) / 2)


@compiled
def _round(weights: Any, tilt: float, step: float, planes: int, levels: Any) -> Any:
    """Levels of the weights; gives Chernoff's bound, up to a constant, and the excess.

    The logarithm of the chance that a sum is within the limit is at most
    tilt (bound + excess) + sum over bits of log((1 + exp(-tilt step level)) / 2).
    """
    top = (1 << planes) - 1
    chance = np.log1p(np.exp(-tilt * step * np.arange(top + 2)))
    chance[top + 1] = np.inf
    total, excess = 0.0, 0.0
    for i in range(len(weights)):
        level = int(min(weights[i] / step, float(top)))
        more = max((level + 1) * step - weights[i], 0.0)
        up = tilt * more + chance[level + 1] < chance[level]
        excess += more * up
        total += chance[level + up]
        levels[i] = level + up
    return total + tilt * excess, excess


@compiled
def _step(sample: Any, tilt: float, planes: int, levels: Any) -> Any:
    """The step that lets the fewest codes pass; one of the weights has the highest level."""
    best, best_step, last = np.inf, 1.0, len(sample) - 1
    for i in range(STEPS):
        step = sample[last - last * i * (i + 1) // STEPS**2] / ((1 << planes) - 1)
        if step > 1e-290:
            chance, _ = _round(sample, tilt, step, planes, levels)
            if chance < best:
                best, best_step = chance, step
    return best_step


@compiled
def _fold(levels: Any, planes: int, masks: Any) -> None:
    """Bit b of all levels as masks[:, b]."""
    for w in range(len(masks)):
        for b in range(planes):
            masks[w, b] = 0
    for i in range(len(levels)):
        for b in range(planes):
            masks[i // 64, b] |= np.uint64(levels[i] >> b & 1) << np.uint64(i % 64)


@compiled
def _price(words: Any, span: Any, asked: Any, limit: int, out: Any) -> Any:
    """What is left to do after counting, as a number of words that could be counted instead.

    Going through a block that is not ruled out takes about as long as counting 8 words for each
    of its places, and scoring a survivor as long as 400 for each of its own.
    """
    (low, high), price = span, 0
    while low < high:
        low, count = _survivors(words, (low, high), asked, limit, out)
        price += (low < high) * 8 * BLOCK + 400 * len(words) * count
        low += BLOCK
    return price


@compiled
def _plan(words: Any, span: Any, query: Any, bound: float) -> Any:
    """The plan of a query for a bound on the distance; span: of places to try masks on."""
    weights, sample, work = query.weights, query.sample, len(words) * (span[1] - span[0])
    tilt, best = _tilt(sample, bound * query.share), np.inf
    levels, some = np.empty(len(weights), np.int64), np.empty(len(sample), np.int64)
    masks = np.zeros((len(words), MOST), np.uint64)
    best_plan = MaskPlan(Masked(query.words, masks, 0), 1.0, 0.0)
    for planes in range(1, MOST + 1):
        step = _step(sample, tilt, planes, some)
        _, excess = _round(weights, tilt, step, planes, levels)
        _fold(levels, planes, masks)
        masked = Masked(query.words, masks, planes)
        price = _price(words, span, masked, _limit(bound, step, excess), query.memory)
        if price + work * planes < best:
            best_plan, best = MaskPlan(masked, step, excess), price + work * planes
        if price < work:
            break  # another plane costs more than it can save
    _round(weights, tilt, best_plan.step, best_plan.masked.planes, levels)
    _fold(levels, best_plan.masked.planes, masks)
    return best_plan


@compiled
def enter(heap: Any, distance: float, place: int) -> None:
    """Take the place of the farthest, the first of a heap; of equal ones the later is farther."""
    (distances, places), i = heap, 0
    while 2 * i + 1 < len(distances):
        j = 2 * i + 1
        if j + 1 < len(distances) and (distances[j + 1], places[j + 1]) > (distances[j], places[j]):
            j += 1
        if (distance, place) > (distances[j], places[j]):
            break
        distances[i], places[i] = distances[j], places[j]
        i = j
    distances[i], places[i] = distance, place


@compiled
def _offer(codes: Any, low: int, some: Any, query: Any, heap: Any) -> None:
    """Score some places from low on: bytes in their order, each the sum of its halves."""
    for i in some:
        place, distance = low + i, 0.0
        if codes.alive[place]:
            for w in range(len(query.words)):
                word = codes.words[w, place] ^ query.words[w]
                for half in range(16 * w, 16 * w + 16, 2):
                    first, second = word & np.uint64(15), word >> np.uint64(4) & np.uint64(15)
                    distance += query.table[half, first] + query.table[half + 1, second]
                    word >>= np.uint64(8)
            if (distance, place) < (heap.distances[0], heap.places[0]):
                enter(heap, distance, place)


@compiled
def _pass(codes: Any, span: Any, query: Any, plan: Any, heap: Any) -> None:
    """Score what the plan of a query does not rule out in a span, and enter what is near."""
    at, high = span
    while at < high:
        limit = _limit(heap.distances[0] / query.most, plan.step, plan.excess)
        at, count = _survivors(codes.words, (at, high), plan.masked, limit, query.memory)
        _offer(codes, at, query.memory[:count], query, heap)
        at += BLOCK


@compiled
def nearest_by_costs(codes: Any, span: tuple[int, int], queries: Any, k: int, costs: Any) -> Any:
    """The k nearest living places of a span for every query, in no order: places, distances.

    codes: PlacedCodes; costs: Costs. Where a span has fewer than k living places up to the limit,
    the rest is nowhere, at the limit.
    """
    asked, width = queries.shape
    distances, places = np.empty((asked, k)), np.full((asked, k), NOWHERE)
    for q in range(asked):
        distances[q] = costs.limits[q]
    none, due = np.zeros((width, MOST), np.uint64), np.full(asked, FIRST)
    plans = [MaskPlan(Masked(queries[q], none, 0), 1.0, 0.0) for q in range(asked)]
    low, high, memory = span[0], min(span[0] + FIRST, span[1]), np.empty(BLOCK, np.int64)
    while low < high:
        for q in range(asked):
            heap, table, weights = Heap(distances[q], places[q]), costs.tables[q], costs.weights[q]
            if heap.distances[0] == 0:
                continue  # nothing is nearer, and what is as near comes later
            most, sample, share = costs.most[q], costs.samples[q], costs.shares[q]
            query = OneQuery(queries[q], table, weights, most, sample, share, memory)
            if low - span[0] >= due[q] and heap.distances[0] < np.inf:
                trial = low, min(high, low + TRIAL)
                plans[q] = _plan(codes.words, trial, query, heap.distances[0] / most)
                due[q] = LATER * (low - span[0])
            _pass(codes, (low, high), query, plans[q], heap)
        low, high = high, min(high + max(1, CHUNK // (width * BLOCK)) * BLOCK, span[1])
    return places, distances
