"""Codes decoded where they lie, and their distances from queries.

A decoded row is y in coordinates of few columns. With shift, along and two numbers for each query

    square = |shift + y|^2 + squares,    dot = along . (shift + y) + dots

are the squared distance of the row (euclidean), its inner product with the query (inner), or its
squared length and its inner product (cosine). Inner products, and squares of codes without sign
bits, take one look-up for each byte or half byte. In float64, always added in the same order, so a
distance does not depend on where and with which others a code is measured.

Decoding takes 0.4 microseconds for 64 bits and 128 columns. So codes that cannot be near are ruled
out first (`Screen`), by the distance in the 16 directions in which decoded rows vary most: in whole
numbers of 16 bits, four of which lie in a word and are added together, with room for rounding. That
takes a tenth of the time, and leaves few.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled
from streambits.kernels.far import FAR, far_components
from streambits.kernels.weighted import NOWHERE, Heap, enter

METRICS = ("euclidean", "inner", "cosine")
EUCLIDEAN, INNER, COSINE, CHORD, ALONG = range(5)  # the last two: see `Target`
CENTRES = 256
CHUNK = 256  # places that are measured together: their memory is waited for together
LANES = 8  # sums side by side
DIRECTIONS = 16  # of a screen
ONE, FOUR, HALF, WORD = np.uint64(1), np.uint64(4), np.uint64(15), np.uint64(16)  # of half bytes
SLACK = 1 + 1e-12  # far above the rounding error of a square
ROUNDED = 1e-12  # far above that of a cosine


class Decoder(NamedTuple):
    """What codes stand for, in coordinates of few columns (`Refinement.decoder`).

    signs: (halves, 16, columns) what the bits of each half byte of a code add together;
    starts: (groups + 1,) int64, where the axes of each group begin, which are the first columns;
    centres: (256 * axes,) the centres of a group one after the other, those of group g from
    256 * starts[g] on, each of starts[g + 1] - starts[g] values; far: FarBooks of codes that begin
    with 255, in the same coordinates, without axes where there are no such codes.
    """

    signs: Any
    starts: Any
    centres: Any
    far: Any


class Screen(NamedTuple):
    """What codes stand for in 16 directions, in steps of a unit, four of 16 bits in a word.

    signs: (halves, 16, 4), centres: (groups, 256, 4), uint64; sums are at most 65535 in each
    direction. unit: of lengths. Without half bytes where there is nothing to gain.
    """

    signs: Any
    centres: Any
    unit: float


class RefinedCodes(NamedTuple):
    """Codes at places, and what decodes them.

    words: (width, places) planes; alive: (places,); refinement: (places, r).
    """

    words: Any
    alive: Any
    refinement: Any
    decoder: Any
    screen: Any


class Target(NamedTuple):
    """Queries, and how far they are from what codes decode to.

    metric: one of EUCLIDEAN, INNER, COSINE, or CHORD and ALONG, which are EUCLIDEAN and INNER for
    decoded rows that are brought to the length `reach`, far ones excepted; shift, along: (queries,
    columns), see above, filled up with zeros to a multiple of 8; squares, dots: (queries,);
    lengths: (queries,) of the queries; screened: (queries, 16) where queries are in the directions
    of the screen; doubt: the rounding errors of distances there; both in its unit.
    """

    metric: int
    reach: float
    shift: Any
    along: Any
    squares: Any
    dots: Any
    lengths: Any
    screened: Any
    doubt: float


class OneTarget(NamedTuple):
    """A query of a Target, with tables for what is looked up.

    square_table, dot_table: (groups, 256); half_table: (halves, 16), of dots.
    """

    metric: int
    reach: float
    shift: Any
    along: Any
    square: Any
    dot: Any
    length: Any
    screened: Any
    doubt: Any
    square_table: Any
    dot_table: Any
    half_table: Any


class Memory(NamedTuple):
    """For a chunk: places, words and bytes of codes, squares and dots; decoded: for one row.

    far: which are far codes.
    """

    places: Any
    words: Any
    codes: Any
    squares: Any
    dots: Any
    far: Any
    decoded: Any


class Sources(NamedTuple):
    """Slots to score: the first counts[q] of places[q], or with `all` the slots in [low, high)."""

    places: Any
    counts: Any
    all: bool
    low: int
    high: int


@compiled
def _memory(codes: Any) -> Any:
    columns = -(-codes.decoder.signs.shape[2] // LANES) * LANES
    return Memory(
        np.empty(CHUNK, np.int64),
        np.empty((CHUNK, len(codes.words)), np.uint64),
        np.empty((CHUNK, len(codes.decoder.starts) - 1), np.uint8),
        np.zeros(CHUNK),
        np.zeros(CHUNK),
        np.zeros(CHUNK, np.bool_),
        np.zeros(columns),
    )


@compiled
def _one(codes: Any, target: Any, q: int) -> Any:
    shift, along, decoder = target.shift[q], target.along[q], codes.decoder
    looked_up = target.metric == INNER or len(codes.words) == 0
    groups, halves = (len(decoder.starts) - 1, len(decoder.signs)) if looked_up else (0, 0)
    squares, dots = np.zeros((groups, CENTRES)), np.zeros((groups, CENTRES))
    for g in range(groups):
        low, high = decoder.starts[g], decoder.starts[g + 1]
        for c in range(CENTRES):
            own = decoder.centres[CENTRES * low + c * (high - low) :]
            for j in range(low, high):
                value = shift[j] + own[j - low]
                squares[g, c] += value * value
                dots[g, c] += along[j] * value
    for j in range(decoder.starts[-1] if groups else len(shift), len(shift)):  # without an axis
        squares[0] += shift[j] * shift[j]
        dots[0] += along[j] * shift[j]
    half_dots = np.zeros((halves, 16))
    for h in range(halves):
        for value in range(16):
            for j in range(decoder.signs.shape[2]):
                half_dots[h, value] += along[j] * decoder.signs[h, value, j]
    return OneTarget(
        target.metric,
        target.reach,
        shift,
        along,
        target.squares[q],
        target.dots[q],
        target.lengths[q],
        target.screened[q],
        target.doubt,
        squares,
        dots,
        half_dots,
    )


@compiled
def _fetch(codes: Any, count: int, memory: Any) -> None:
    """Words and bytes of codes that lie far apart, so that their memory is waited for together."""
    for i in range(count):
        place = memory.places[i]
        for w in range(len(codes.words)):
            memory.words[i, w] = codes.words[w, place]
        for g in range(memory.codes.shape[1]):
            memory.codes[i, g] = codes.refinement[place, g]


@compiled
def _looked_up(codes: Any, places: Any, half_table: Any, table: Any, out: Any) -> None:
    """Sums of what half bytes and bytes of codes stand for. Unsigned places are not checked."""
    words, refinement, halves = codes.words, codes.refinement, np.uint64(len(half_table))
    for i in range(len(places)):
        total, h, place = 0.0, np.uint64(0), np.uint64(places[i])
        for w in range(len(words)):
            word = words[w, place]
            for _ in range(min(WORD, halves - h)):
                total += half_table[h, word & HALF]
                word, h = word >> FOUR, h + ONE
        for g in range(np.uint64(len(table))):
            total += table[g, np.uint64(refinement[place, g])]
        out[i] = total


@compiled
def _both_looked_up(codes: Any, one: Any, count: int, memory: Any) -> None:
    """Squares and dots of codes without sign bits, in the order of `_looked_up`."""
    refinement, square_table, dot_table = codes.refinement, one.square_table, one.dot_table
    for i in range(count):
        square, dot, place = 0.0, 0.0, np.uint64(memory.places[i])
        for g in range(np.uint64(len(square_table))):
            value = np.uint64(refinement[place, g])
            square += square_table[g, value]
            dot += dot_table[g, value]
        memory.squares[i], memory.dots[i] = square, dot


@compiled
def _dot(left: Any, right: Any) -> Any:
    """The inner product of a multiple of 8 values, in 8 sums, which are added in pairs."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(0, len(left), LANES):
        a += left[j] * right[j]
        b += left[j + 1] * right[j + 1]
        c += left[j + 2] * right[j + 2]
        d += left[j + 3] * right[j + 3]
        e += left[j + 4] * right[j + 4]
        f += left[j + 5] * right[j + 5]
        g += left[j + 6] * right[j + 6]
        h += left[j + 7] * right[j + 7]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def _measure_far(code: Any, i: int, codes: Any, one: Any, memory: Any) -> None:
    """Square and dot of a code of components, as number i of the memory."""
    far, out = codes.decoder.far, memory.decoded
    found = np.empty(len(far.axes))
    far_components(code, far, found)
    for j in range(len(far.centre)):
        out[j] = far.centre[j]
    for c in range(len(found)):
        for j in range(len(far.centre)):
            out[j] += found[c] * far.axes[c, j]
    for j in range(len(far.centre)):
        out[j] += one.shift[j]
    memory.far[i] = True
    memory.squares[i], memory.dots[i] = _dot(out, out), _dot(out, one.along)


@compiled
def _decode(codes: Any, one: Any, count: int, memory: Any) -> None:
    """Squares and dots of shift + y, of which what is beyond the columns stays 0.

    Two half bytes at a time, which make up a byte.
    """
    signs, starts, centres = codes.decoder.signs, codes.decoder.starts, codes.decoder.centres
    columns, out, shift, along = signs.shape[2], memory.decoded, one.shift, one.along
    some_far = len(codes.decoder.far.axes) > 0
    for i in range(count):
        if some_far and memory.codes[i, 0] == FAR:
            _measure_far(memory.codes[i], i, codes, one, memory)
            continue
        for j in range(columns):
            out[j] = shift[j]
        for h in range(0, len(signs), 2):
            part = np.int64(memory.words[i, h >> 4] >> np.uint64(4 * (h & 15)) & np.uint64(255))
            low, high = part & 15, part >> 4
            for j in range(columns):
                out[j] += signs[h, low, j] + signs[h + 1, high, j]
        for g in range(memory.codes.shape[1]):
            low, high = starts[g], starts[g + 1]
            base = CENTRES * low + np.int64(memory.codes[i, g]) * (high - low) - low
            for j in range(low, high):
                out[j] += centres[base + j]
        memory.squares[i] = _dot(out, out)
        if one.metric != EUCLIDEAN:
            memory.dots[i] = _dot(out, along)


@compiled
def _screen(codes: Any, one: Any, count: int, memory: Any) -> None:
    """Squared distances in the directions of the screen, in its unit, as squares."""
    signs, centres, start = codes.screen.signs, codes.screen.centres, one.screened
    words, own, out, halves = memory.words, memory.codes, memory.squares, np.uint64(len(signs))
    for i in range(count):
        a, b, c, d, h = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
        for w in range(words.shape[1]):
            word = words[i, w]
            for _ in range(min(WORD, halves - h)):
                value = word & HALF
                a += signs[h, value, 0]
                b += signs[h, value, 1]
                c += signs[h, value, 2]
                d += signs[h, value, 3]
                word, h = word >> FOUR, h + ONE
        for g in range(len(centres)):
            value = np.uint64(own[i, g])
            a += centres[g, value, 0]
            b += centres[g, value, 1]
            c += centres[g, value, 2]
            d += centres[g, value, 3]
        near, far = _four(a, start, 0) + _four(b, start, 4), _four(c, start, 8)
        out[i] = near + (far + _four(d, start, 12))


@compiled
def _four(word: Any, start: Any, first: int) -> Any:
    """The squared distance in the four directions of a word."""
    a = np.float64(np.int64(word & np.uint64(0xFFFF))) - start[first]
    b = np.float64(np.int64(word >> np.uint64(16) & np.uint64(0xFFFF))) - start[first + 1]
    c = np.float64(np.int64(word >> np.uint64(32) & np.uint64(0xFFFF))) - start[first + 2]
    d = np.float64(np.int64(word >> np.uint64(48))) - start[first + 3]
    return (a * a + b * b) + (c * c + d * d)


@compiled
def _cut(square: float, doubt: float, unit: float, reach: float) -> Any:
    """The squared distance by the screen, in its unit, above which a code is beyond `reach`."""
    if reach < 0:
        return -1.0
    return (math.sqrt(max(reach * reach * SLACK - square, 0.0)) / unit + doubt) ** 2


@compiled
def _rule_out(codes: Any, one: Any, count: int, top: float, memory: Any) -> Any:
    """Keep the places of the memory that can be nearer than `top`: how many."""
    places, words, own = memory.places, memory.words, memory.codes
    kept, cut = 0, _cut(one.square, one.doubt, codes.screen.unit, top)
    some_far = len(codes.decoder.far.axes) > 0  # which the screen does not know
    _screen(codes, one, count, memory)
    for i in range(count):
        if memory.squares[i] <= cut or (some_far and own[i, 0] == FAR):
            places[kept] = places[i]
            for w in range(words.shape[1]):
                words[kept, w] = words[i, w]
            for g in range(own.shape[1]):
                own[kept, g] = own[i, g]
            kept += 1
    return kept


@compiled
def _measure(codes: Any, one: Any, count: int, top: float, memory: Any) -> Any:
    """Squares and dots, as the metric needs them, of the first `count` places of the memory.

    Those that cannot be nearer than `top` may be left out: gives how many stay.
    """
    memory.far[:] = False
    if len(codes.words) == 0 or one.metric == INNER:
        places, halves = memory.places[:count], one.half_table
        if one.metric == EUCLIDEAN:
            _looked_up(codes, places, halves, one.square_table, memory.squares)
        elif one.metric == INNER:
            _looked_up(codes, places, halves, one.dot_table, memory.dots)
        else:
            _both_looked_up(codes, one, count, memory)
        if len(codes.decoder.far.axes):
            for i in range(count):
                code = codes.refinement[memory.places[i]]
                if code[0] == FAR:
                    _measure_far(code, i, codes, one, memory)
        return count
    _fetch(codes, count, memory)
    if one.metric == EUCLIDEAN and top < np.inf and len(codes.screen.signs):
        count = _rule_out(codes, one, count, top, memory)
    _decode(codes, one, count, memory)
    return count


@compiled
def _distances(one: Any, count: int, memory: Any) -> None:
    """Distances by the metric, in the place of squares."""
    squares, dots, square, dot, own = memory.squares, memory.dots, one.square, one.dot, one.length
    metric, far = one.metric, memory.far
    if one.metric == EUCLIDEAN:
        for i in range(count):
            squares[i] = math.sqrt(squares[i] + square)
    elif one.metric == INNER:
        for i in range(count):
            squares[i] = -(dots[i] + dot)
    else:
        for i in range(count):
            length, cosine = math.sqrt(squares[i] + square), 0.0
            if length > 0.0 and own > 0.0:
                cosine = (dots[i] + dot) / (length * own)
            angle = min(max(1.0 - cosine, 0.0), 2.0)
            reach = length if far[i] else one.reach
            if metric == CHORD:
                squares[i] = math.sqrt((own - reach) ** 2 + 2 * own * reach * angle)
            elif metric == ALONG:
                squares[i] = own * reach * (angle - 1.0)
            else:
                squares[i] = angle


@compiled
def _least_cosine(one: Any, top: float) -> Any:
    """The cosine of a row at distance `top`, less what rounding may do to it."""
    own, reach = one.length, one.reach
    if one.metric == COSINE:
        return 1.0 - top - ROUNDED
    if one.metric == ALONG:
        return -top / (own * reach) - ROUNDED
    least = 1.0 - (top * top - (own - reach) ** 2) / (2 * own * reach)
    return least - ROUNDED * (own / reach + reach / own)


@compiled
def _any_near(one: Any, count: int, top: float, memory: Any) -> Any:
    """Whether any may be at a distance up to `top`; roots of the others are not needed."""
    squares, dots, square, dot, near = memory.squares, memory.dots, one.square, one.dot, False
    if one.metric == INNER:
        return True
    if one.metric == EUCLIDEAN:
        roof = top * top * SLACK - square
        for i in range(count):
            near |= squares[i] <= roof
        return near
    if one.length == 0.0 or top == np.inf:
        return True
    least = _least_cosine(one, top) * one.length
    if not least > 0.0:
        return True
    far, floor = memory.far, least * least
    for i in range(count):
        product = dots[i] + dot
        near |= far[i]
        near |= (product > 0.0) & (product * product >= floor * (squares[i] + square))
    return near


@compiled
def _fill(codes: Any, q: int, sources: Any, at: int, memory: Any) -> Any:
    """Put the next living places into the memory: how many, and where to go on."""
    count = 0
    if sources.all:
        while at < sources.high and count < CHUNK:
            memory.places[count] = at
            count += codes.alive[at]
            at += 1
        return count, at
    end = min(sources.high, sources.counts[q])
    while at < end and count < CHUNK:
        memory.places[count] = sources.places[q, at]
        count, at = count + 1, at + 1
    return count, (at if count else sources.high)


@compiled
def nearest_decoded(codes: Any, target: Any, k: int, sources: Any) -> Any:
    """The k nearest of every query, in no order: places and distances.

    codes: RefinedCodes; target: Target; sources: Sources. Where there are fewer than k, the rest is
    nowhere, at infinity.
    """
    asked, memory = len(target.shift), _memory(codes)
    distances, places = np.full((asked, k), np.inf), np.full((asked, k), NOWHERE)
    for q in range(asked):
        heap, one, at = Heap(distances[q], places[q]), _one(codes, target, q), sources.low
        while at < sources.high:
            count, at = _fill(codes, q, sources, at, memory)
            count = _measure(codes, one, count, heap.distances[0], memory)
            if not _any_near(one, count, heap.distances[0], memory):
                continue
            _distances(one, count, memory)
            for i in range(count):
                if (memory.squares[i], memory.places[i]) < (heap.distances[0], heap.places[0]):
                    enter(heap, memory.squares[i], memory.places[i])
    return places, distances
