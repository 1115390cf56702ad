"""Tables: exact search that looks at few of the codes, by multi-index hashing.

Codes that differ in r bits differ in at most r / m bits of one of m pieces (Norouzi, Punjani and
Fleet 2014). So the codes are kept once for each piece, in its order, and a search opens buckets
from the query's own outwards. A query whose neighbours are too far for that is left to the scan.
"""

from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streambits._threads import one_blas_thread, ordered_map
from streambits.index.scan import Alive, Distances, Places, scan_nearest, scan_within
from streambits.index.store import Words, check_shapes
from streambits.index.weighted import Weights, weighted_nearest
from streambits.kernels import multi_index as kernels
from streambits.kernels.weighted import half_byte_costs
from streambits.kernels.weighted_tables import nearest_in_tables

BUDGET = 0.5  # of a scan, that a query may cost before it is left to the scan
FEW = 8  # queries that are not worth another thread
SCOUTS = 16  # a 16th of the queries goes first; if most fail, the rest have a 16th of the budget
BLOCK = 64  # queries that a thread takes at a time
MOST = 1 << 20  # hits of queries that a thread takes at a time
ROOM = 16  # more than a 16th of all codes within a radius are left to the scan
Numbers = NDArray[Any]


class Tables:
    """The codes of a segment under pieces of their bits. They never change; places may die.

    Finds what a scan finds, in at most about twice its time. Memory: 4 bytes per code, and for each
    *distinct* code its words and 4 to 8 bytes for each piece. Built in the time that a scan takes
    for about 500 queries of 64 bits, 1000 if no codes are equal, and more of longer codes.

    words: (width, n) planes, n > 0; bits: of a code; pieces: by default 2 and one for every 32
    bits, at most 8, so a piece has 16 bits for codes of 64, and 21 for codes of 128.

    >>> words = np.array([[0b0000, 0b0111, 0b1111, 0b0111]], np.uint64)
    >>> tables, alive = Tables(words, 4), np.array([True, True, True, False])
    >>> queries = np.array([[0b0110]], np.uint64)
    >>> [found.tolist() for found in tables.nearest(words, alive, 4, queries, 2)]
    [[[1, 0]], [[1, 2]]]
    """

    def __init__(self, words: Words, bits: int, pieces: int | None = None) -> None:
        words = np.ascontiguousarray(words)
        members, starts = _grouped(words, bits)
        codes, pieces = len(starts) - 1, min(bits, pieces or min(8, 2 + bits // 32))
        width = min(bits // pieces, kernels.PREFIX, max(1, codes.bit_length() - 1))
        offsets = np.empty((pieces, (1 << width) + 1), starts.dtype)
        owners = np.empty((pieces - 1, codes), starts.dtype)
        copies = np.empty((pieces, len(words), codes), np.uint64)
        np.take(words, members[starts[:-1]], axis=1, out=copies[0])

        def fill(t: int) -> None:
            piece = bits - (t + 1) * width, width
            heads = kernels.heads(copies[0], *piece)
            offsets[t] = heads
            if t:
                kernels.spread(copies[0], piece, heads, owners[t - 1], copies[t])

        list(ordered_map(fill, range(pieces)))
        self._tables = kernels.PieceTables(bits, width, offsets, owners, copies, starts, members)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._tables[2:])

    def state(self) -> dict[str, Any]:
        return self._tables._asdict()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """From arrays that may be maps of a file: none is read, and `check_shapes` and `check`
        must be called before a search.
        """
        self = cls.__new__(cls)
        bits, width, *arrays = (state[name] for name in kernels.PieceTables._fields)
        self._tables = kernels.PieceTables(bits, width, *map(np.asarray, arrays))
        return self

    def check_shapes(self, bits: int, places: int) -> None:
        """Refuse arrays that do not fit each other or codes of so many bits at so many places."""
        own, width, offsets, owners, words, starts, members = self._tables
        pieces, codes = len(offsets), len(starts) - 1
        if (own, type(width)) != (bits, int) or not 0 < width <= kernels.PREFIX:
            raise ValueError(f"tables of {own} bits in pieces of {width}, for codes of {bits}")
        if not (0 < pieces * width <= bits and 0 < codes <= places):
            raise ValueError(f"{pieces} tables of {codes} distinct codes, for {places} codes")
        number = _number(places)
        check_shapes(
            {
                "offsets": (offsets, number, (pieces, (1 << width) + 1)),
                "owners": (owners, number, (pieces - 1, codes)),
                "words": (words, np.uint64, (pieces, -(-bits // 64), codes)),
                "starts": (starts, number, (codes + 1,)),
                "members": (members, number, (places,)),
            }
        )

    def check(self) -> None:
        """Refuse contents that a kernel would follow out of the arrays."""
        _, _, offsets, owners, words, starts, members = self._tables
        codes, places = words.shape[2], len(members)
        for name, heads, end in (("offsets", offsets, codes), ("starts", starts[None], places)):
            rising = (heads[:, 1:] >= heads[:, :-1]).all()
            if not (rising and (heads[:, 0] == 0).all() and (heads[:, -1] == end).all()):
                raise ValueError(f"the {name} of the tables do not rise from 0 to {end}")
        for name, numbers, end in (("owners", owners, codes), ("members", members, places)):
            if int(numbers.min(initial=0)) < 0 or int(numbers.max(initial=0)) >= end:
                raise ValueError(f"the {name} of the tables go beyond {end}")

    def nearest(
        self, words: Words, alive: Alive, end: int, queries: Words, k: int
    ) -> tuple[Places, Distances]:
        """What `scan_nearest` gives; the words are those that the tables were built of."""
        found, counts = self._search(alive, queries, k, self._tables.bits)
        done, shape = counts >= 0, (len(queries), k)
        places, distances = np.empty(shape, np.int64), np.empty(shape, np.int32)
        places[done], distances[done] = _split(found.reshape(-1, k))
        if not done.all():
            places[~done], distances[~done] = scan_nearest(words, alive, end, queries[~done], k)
        return places, distances

    def within(
        self, words: Words, alive: Alive, end: int, queries: Words, radius: int
    ) -> list[tuple[Places, Distances]]:
        """What `scan_within` gives; the words are those that the tables were built of."""
        room = end // ROOM + 1
        found, counts = self._search(alive, queries, room, radius)
        ends = np.cumsum(np.maximum(counts, 0))
        hits = [_split(some) for some in np.split(found, ends)[:-1]]
        left = np.flatnonzero((counts < 0) | (counts == room))
        if len(left):
            scanned = scan_within(words, alive, end, queries[left], radius)
            for query, its in zip(left, scanned, strict=True):
                hits[query] = its
        return hits

    def nearest_weighted(
        self, words: Words, alive: Alive, end: int, query: tuple[Words, Weights], k: int
    ) -> tuple[Places, Weights]:
        """What `weighted_nearest` gives for the signs and the weights of queries."""
        queries, weights = np.array(query[0], order="C"), np.array(query[1], order="C")
        budget, shape = int(BUDGET * len(words) * len(self._tables.members)), (len(queries), k)
        places, distances = np.empty(shape, np.int64), np.empty(shape, np.float64)
        done = np.empty(len(queries), np.bool_)
        step = min(BLOCK, max(1, MOST // k))

        def work(some: slice) -> None:
            table = half_byte_costs(weights[some], queries.shape[1])
            asked = queries[some], weights[some], table
            places[some], distances[some], done[some] = nearest_in_tables(
                self._tables, alive, *asked, k, budget
            )

        scouts = -(-len(queries) // SCOUTS)
        work(slice(0, scouts))
        if np.count_nonzero(done[:scouts]) * 2 < scouts:
            budget //= SCOUTS
        with one_blas_thread() as workers:
            step = max(1, min(step, -(-(len(queries) - scouts) // workers)))
            starts = range(scouts, len(queries), step)
            list(
                ordered_map(
                    work, [slice(i, i + step) for i in starts], light=len(starts) * step < FEW
                )
            )
        order = np.lexsort((places, distances))
        places = np.take_along_axis(places, order, 1)
        distances = np.take_along_axis(distances, order, 1)
        if not done.all():
            left = queries[~done], weights[~done]
            places[~done], distances[~done] = weighted_nearest(words, alive, end, *left, k)
        return places, distances

    def _search(self, alive: Alive, queries: Words, k: int, radius: int) -> tuple[Numbers, Numbers]:
        """The candidates of all queries, and how many each has: -1 if it is left to the scan."""
        _, width, _ = self._tables.words.shape
        budget = int(BUDGET * width * len(self._tables.members))
        scouts = -(-len(queries) // SCOUTS)
        first = self._parallel(alive, queries[:scouts], k, (radius, budget))
        if np.count_nonzero(first[1] < 0) * 2 > scouts:
            budget //= SCOUTS
        rest = self._parallel(alive, queries[scouts:], k, (radius, budget))
        return np.concatenate([first[0], rest[0]]), np.concatenate([first[1], rest[1]])

    def _parallel(
        self, alive: Alive, queries: Words, k: int, limits: tuple[int, int]
    ) -> tuple[Numbers, Numbers]:
        def work(block: Words) -> tuple[Numbers, Numbers]:
            return kernels.search_tables(self._tables, alive, block, k, limits)  # type: ignore[no-any-return]

        if len(queries) < 2:
            return work(queries)
        with one_blas_thread() as workers:
            step = min(BLOCK, -(-len(queries) // workers))
            blocks = [queries[i : i + step] for i in range(0, len(queries), step)]
            found, counts = zip(*ordered_map(work, blocks), strict=True)
        return np.concatenate(found), np.concatenate(counts)


def _split(candidates: Numbers) -> tuple[Places, Distances]:
    places = candidates & ((1 << kernels.SHIFT) - 1)
    return places, (candidates >> kernels.SHIFT).astype(np.int32)


def _number(places: int) -> Any:
    """The type of a number of a place."""
    return np.uint32 if places < 1 << 32 else np.int64


def _grouped(words: Words, bits: int) -> tuple[Numbers, Numbers]:
    """The places, those of equal codes together, and where each code's begin, and the end."""
    count = words.shape[1]
    kind = np.empty(0, _number(count))
    keys = np.empty(count, np.uint64)
    with one_blas_thread() as workers:
        spans = list(pairwise(count * i // workers for i in range(workers + 1)))
        list(ordered_map(lambda span: kernels.keys(words, bits, *span, keys), spans))
        some = np.sort(keys[:: 1 + count // 4096])
        cuts = [some[len(some) * i // workers] for i in range(1, workers)]
        shares = list(pairwise([np.uint64(0), *cuts, np.uint64(kernels.END)]))
        found = list(ordered_map(lambda share: kernels.ordered(words, keys, *share, kind), shares))
    members = np.concatenate([places for places, _ in found])
    starts = np.flatnonzero(np.concatenate([*(first for _, first in found), [True]]))
    return members, starts.astype(kind.dtype)
