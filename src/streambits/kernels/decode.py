"""Codes decoded where they lie, and their distances from queries.

A decoded row is y in coordinates of few columns. With shift, along and two numbers for each query

    square = |shift + y|^2 + squares,    dot = along . (shift + y) + dots

are the squared distance of the row (euclidean), its inner product with the query (inner), or its
squared length and its inner product (cosine). A code without sign bits has square and dot by one
look-up for each of its bytes. In float64, always added in the same order, so a distance does not
depend on where and with which others a code is measured.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled
from streambits.kernels.weighted import NOWHERE, Heap, enter

METRICS = ("euclidean", "inner", "cosine")
EUCLIDEAN, INNER, COSINE = range(3)
CENTRES = 256
CHUNK = 256  # places that are measured together: their memory is waited for together
LANES = 8  # sums side by side
NEAR, LOW, HIGH = 0, -1, 1  # a distance, or what it is at least or at most
SLACK = 1 + 1e-12  # far above the rounding error of a square


class Decoder(NamedTuple):
    """What codes stand for, in coordinates of few columns (`Refinement.decoder`).

    signs: (halves, 16, columns) what the bits of each half byte of a code add together;
    starts: (groups + 1,) int64, where the axes of each group begin, which are the first columns;
    centres: (256 * axes,) the centres of a group one after the other, those of group g from
    256 * starts[g] on, each of starts[g + 1] - starts[g] values.
    """

    signs: Any
    starts: Any
    centres: Any


class RefinedCodes(NamedTuple):
    """Codes at places. words: (width, places) planes; alive: (places,); refinement: (places, r)."""

    words: Any
    alive: Any
    refinement: Any


class Target(NamedTuple):
    """Queries, and how far they are from what codes decode to.

    metric: one of EUCLIDEAN, INNER, COSINE; side: NEAR to measure distances, LOW or HIGH for what
    the distance of the raw row is at least or at most; shift, along: (queries, columns), see above,
    filled up with zeros to a multiple of 8; squares, dots: (queries,); lengths: (queries,) of the
    queries; noise: (queries,) rounding errors of distances, for COSINE in relation to the length of
    a decoded row; radii: (256,) errors that the last byte of a refinement stands for, rounding
    included.
    """

    metric: int
    side: int
    shift: Any
    along: Any
    squares: Any
    dots: Any
    lengths: Any
    noise: Any
    radii: Any


class OneTarget(NamedTuple):
    """A query of a Target, with tables (groups, 256) of squares and dots for codes without bits."""

    metric: int
    side: int
    shift: Any
    along: Any
    square: Any
    dot: Any
    length: Any
    noise: Any
    radii: Any
    square_table: Any
    dot_table: Any


class Memory(NamedTuple):
    """For a chunk: places, words and bytes of codes, squares and dots; decoded: for one row."""

    places: Any
    words: Any
    codes: Any
    squares: Any
    dots: Any
    decoded: Any


class Sources(NamedTuple):
    """Where to look. places: (queries, any), the first `counts` of them; all: every place instead.

    low, high: which of these.
    """

    places: Any
    counts: Any
    all: bool
    low: int
    high: int


@compiled
def _memory(codes: Any, decoder: Any) -> Any:
    columns = -(-decoder.signs.shape[2] // LANES) * LANES
    return Memory(
        np.empty(CHUNK, np.int64),
        np.empty((CHUNK, len(codes.words)), np.uint64),
        np.empty((CHUNK, len(decoder.starts) - 1), np.uint8),
        np.zeros(CHUNK),
        np.zeros(CHUNK),
        np.zeros(columns),
    )


@compiled
def _one(target: Any, q: int, codes: Any, decoder: Any) -> Any:
    groups = len(decoder.starts) - 1 if len(codes.words) == 0 else 0
    shift, along = target.shift[q], target.along[q]
    squares, dots = np.zeros((groups, CENTRES)), np.zeros((groups, CENTRES))
    for g in range(groups):
        low, high = decoder.starts[g], decoder.starts[g + 1]
        for c in range(CENTRES):
            own = decoder.centres[CENTRES * low + c * (high - low) :]
            for j in range(low, high):
                value = shift[j] + own[j - low]
                squares[g, c] += value * value
                dots[g, c] += along[j] * value
    return OneTarget(
        target.metric,
        target.side,
        shift,
        along,
        target.squares[q],
        target.dots[q],
        target.lengths[q],
        target.noise[q],
        target.radii,
        squares,
        dots,
    )


@compiled
def _looked_up(codes: Any, table: Any, places: Any, out: Any) -> None:
    groups = len(table)
    for i in range(len(places)):
        total, place = 0.0, places[i]
        for g in range(groups):
            total += table[g, codes.refinement[place, g]]
        out[i] = total


@compiled
def _decode(word: Any, code: Any, decoder: Any, shift: Any, out: Any) -> None:
    """shift + y of one code, four half bytes at a time; what is beyond the columns stays 0."""
    signs, starts, columns = decoder.signs, decoder.starts, decoder.signs.shape[2]
    halves, h = len(signs), 0
    for j in range(columns):
        out[j] = shift[j]
    while h < halves:
        part = np.int64(word[h // 16] >> np.uint64(4 * (h % 16)) & np.uint64(0xFFFF))
        a, b = signs[h, part & 15], signs[h + 1, part >> 4 & 15]
        if h + 2 < halves:
            c, d = signs[h + 2, part >> 8 & 15], signs[h + 3, part >> 12]
            for j in range(columns):
                out[j] += (a[j] + b[j]) + (c[j] + d[j])
        else:
            for j in range(columns):
                out[j] += a[j] + b[j]
        h += 4
    for g in range(len(code)):
        low, high = starts[g], starts[g + 1]
        own = decoder.centres[CENTRES * low + np.int64(code[g]) * (high - low) :]
        for j in range(low, high):
            out[j] += own[j - low]


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
def _measure(codes: Any, decoder: Any, one: Any, count: int, memory: Any) -> None:
    """Squares and dots of the first `count` places of the memory, where the metric needs them."""
    places, squares, dots = memory.places[:count], memory.squares, memory.dots
    if len(codes.words) == 0:
        if one.metric != INNER:
            _looked_up(codes, one.square_table, places, squares)
        if one.metric != EUCLIDEAN:
            _looked_up(codes, one.dot_table, places, dots)
        return
    _fetch(codes, places, memory)
    for i in range(count):
        _decode(memory.words[i], memory.codes[i], decoder, one.shift, memory.decoded)
        if one.metric != INNER:
            squares[i] = _dot(memory.decoded, memory.decoded)
        if one.metric != EUCLIDEAN:
            dots[i] = _dot(memory.decoded, one.along)


@compiled
def _fetch(codes: Any, places: Any, memory: Any) -> None:
    """Words and bytes of codes that lie far apart, so that their memory is waited for together."""
    for i in range(len(places)):
        for w in range(len(codes.words)):
            memory.words[i, w] = codes.words[w, places[i]]
        for g in range(memory.codes.shape[1]):
            memory.codes[i, g] = codes.refinement[places[i], g]


@compiled
def _distance(one: Any, square: float, dot: float) -> Any:
    """The distance by the metric, and the length of the decoded row (for COSINE)."""
    if one.metric == EUCLIDEAN:
        return math.sqrt(square + one.square), 0.0
    if one.metric == INNER:
        return -(dot + one.dot), 0.0
    length = math.sqrt(square + one.square)
    if length == 0.0 or one.length == 0.0:
        return 1.0, length
    cosine = (dot + one.dot) / (length * one.length)
    return min(max(1.0 - cosine, 0.0), 2.0), length


@compiled
def _cosine_bound(one: Any, distance: float, length: float, radius: float) -> Any:
    """The angle of a row from the query is that of the decoded row, more or less asin(r / length).

    Where the error may be as long as the decoded row, the row may point anywhere.
    """
    side = one.side
    if one.length == 0.0:
        return 1.0
    if radius >= length:
        return 1.0 + side
    noise = one.noise / length
    angle = math.acos(min(max(1.0 - distance - side * noise, -1.0), 1.0))
    angle += side * math.asin(radius / length)
    return 1.0 - math.cos(min(max(angle, 0.0), math.pi)) + side * noise


@compiled
def _bound(one: Any, distance: float, length: float, radius: float) -> Any:
    """What the distance of a row is at least (LOW) or at most (HIGH)."""
    if one.metric == COSINE:
        return _cosine_bound(one, distance, length, radius)
    if one.metric == INNER:
        radius = radius * one.length if one.length > 0.0 else 0.0
    return distance + one.side * (radius + one.noise)


@compiled
def _value(codes: Any, one: Any, memory: Any, i: int) -> Any:
    distance, length = _distance(one, memory.squares[i], memory.dots[i])
    if one.side == NEAR:
        return distance
    last = codes.refinement[memory.places[i], codes.refinement.shape[1] - 1]
    return _bound(one, distance, length, one.radii[last])


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
    while at < min(sources.high, sources.counts[q]) and count < CHUNK:
        memory.places[count] = sources.places[q, at]
        count, at = count + 1, at + 1
    return count, (at if count else sources.high)


@compiled
def nearest_decoded(codes: Any, decoder: Any, target: Any, k: int, sources: Any) -> Any:
    """The k nearest of every query, in no order: places, and distances or bounds of them.

    codes: RefinedCodes; target: Target; sources: Sources. Where there are fewer than k, the rest is
    nowhere, at infinity.
    """
    asked, memory = len(target.shift), _memory(codes, decoder)
    distances, places = np.full((asked, k), np.inf), np.full((asked, k), NOWHERE)
    for q in range(asked):
        heap, one, at = Heap(distances[q], places[q]), _one(target, q, codes, decoder), sources.low
        roof = np.inf  # squares above it are of no interest
        while at < sources.high:
            count, at = _fill(codes, q, sources, at, memory)
            _measure(codes, decoder, one, count, memory)
            for i in range(count):
                if memory.squares[i] > roof:
                    continue
                value, place = _value(codes, one, memory, i), memory.places[i]
                if (value, place) < (heap.distances[0], heap.places[0]):
                    enter(heap, value, place)
                    if one.metric == EUCLIDEAN and one.side == NEAR:
                        roof = heap.distances[0] ** 2 * SLACK - one.square
    return places, distances


@compiled
def measured_at(codes: Any, decoder: Any, target: Any, places: Any) -> Any:
    """Distances of places (queries, any), or bounds of them, (queries, any)."""
    memory, found = _memory(codes, decoder), np.empty(places.shape)
    for q in range(len(places)):
        one = _one(target, q, codes, decoder)
        for low in range(0, places.shape[1], CHUNK):
            count = min(CHUNK, places.shape[1] - low)
            memory.places[:count] = places[q, low : low + count]
            _measure(codes, decoder, one, count, memory)
            for i in range(count):
                found[q, low + i] = _value(codes, one, memory, i)
    return found
