"""HammingIndex: codes under ids, and their exact neighbours."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import LAST_ID, NO_IDS, as_choice, as_count, as_ids
from streambits._threads import ForkSafeLock
from streambits.errors import EpochError, InputError
from streambits.index.certify import check_certified, proven
from streambits.index.hits import Hits, no_hits
from streambits.index.keys import Keys, Numbers, first
from streambits.index.queries import (
    Ranking,
    as_paired_ids,
    as_ranking,
    as_scales,
    by_epoch,
    check_bits,
    have_rows,
    last_of_each,
    metric_for,
    rows_by_epoch,
)
from streambits.index.snapshot import Snapshot
from streambits.kernels.decode import METRICS
from streambits.model.batches import CodeBatch
from streambits.model.codes import MOST_BYTES, Codes, as_bits, check_refine


class HammingIndex:
    """Exact neighbours in Hamming space among codes that come, change and go.

    Parameters
    ----------
    bits
        Sign bits of every code, 1 to 4096; with `refine` also 0, for codes that are a refinement
        and nothing else.
    refine
        Bytes of refinement of every code, 0 for plain codes; by default those of the first codes
        that are added.

    Notes
    -----
    Ids are whole numbers of 64 bits or texts (also UUIDs), in one index of one kind: that of the
    first. An index that has become empty takes either.

    Equal distances are ordered by id, so hits depend on the codes and ids that are in the index,
    and on nothing else: not on threads, blocks, the order of insertion or the way of searching.
    The order of texts is that of their hashes, here and wherever ids come in order: it looks like
    no order, but is the same everywhere and for ever. Texts are known by their hashes (the first 8
    bytes of BLAKE2b), and one that has the same hash as another in the index, which happens in 1 of
    370,000 indexes of ten million texts, is refused.
    A call that raises has changed nothing. Codes of several epochs may be in it; a search then
    needs the queries as each epoch's coder encodes them, and compares distances as they are.

    Any number of threads may search, read and change an index at the same time. Every call sees the
    codes as they were at one moment, and a change is seen whole or not at all; changes wait for
    each other, and searches wait for no change that began while another search was going on. An
    index that was loaded from a file is verified before the first call that needs its codes.

    A scan looks at every code: n bits / 64 words per query, on as many threads as BLAS may use.
    A removal takes about a microsecond in a batch. Memory: 8 bytes for every 64 bits of a code,
    those of its refinement and 9 for its id, and at most an eighth more. A text takes its bytes and
    8 more.

    Examples
    --------
    >>> index = HammingIndex(3)
    >>> index.add(Codes.from_bits([[0, 0, 0], [0, 1, 1], [1, 1, 1]]), [10, 20, 30])
    >>> hits = index.search(Codes.from_bits([[0, 0, 1]]), k=2)
    >>> hits.ids.tolist(), hits.distances.tolist()
    ([[10, 20]], [[1, 1]])
    >>> index.search([[-0.1, -0.2, 0.9]], k=2).ids.tolist()  # the last bit is sure
    [[20, 30]]
    >>> index.remove([10])
    >>> [hits.ids.tolist() for hits in index.within(Codes.from_bits([[0, 0, 1]]), radius=2)]
    [[20, 30]]
    >>> index.upsert(Codes.from_bits([[0, 0, 1], [0, 0, 0]]), [20, 40])
    >>> index.get([20, 40]).unpack().astype(int).tolist()
    [[0, 0, 1], [0, 0, 0]]
    >>> len(index), 10 in index, list(index), index.has([10, 20]).tolist()
    (3, False, [20, 30, 40], [False, True])
    >>> index = HammingIndex(3)
    >>> index.add(Codes.from_bits([[0, 0, 0], [0, 1, 1]]), ["a.txt", "b.txt"])
    >>> index.search(Codes.from_bits([[0, 1, 1]]), k=2).ids.tolist(), "a.txt" in index
    ([['b.txt', 'a.txt']], True)
    """

    def __init__(self, bits: int = 64, *, refine: int | None = None) -> None:
        self.bits = as_bits(bits, least=1 if refine == 0 else 0)
        if refine is not None:
            refine = as_count(refine, "refine", least=0, most=MOST_BYTES)
        self._held = Snapshot(self.bits, refine)
        self._next = 0  # the next id by default
        self._changes = ForkSafeLock()  # held by the one that changes the codes
        self._unverified: Callable[[], None] | None = None

    @property
    def refine(self) -> int | None:
        """Bytes of refinement per code, 0 for plain codes; None until the first codes come."""
        return self._held.refine

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs of the codes held."""
        return self._held.epochs

    @property
    def nbytes(self) -> int:
        """Bytes that codes and ids take in memory."""
        return self._held.nbytes

    def add(self, codes: Codes, ids: Any = None) -> None:
        """Insert codes under new ids.

        Parameters
        ----------
        codes
            Codes of the index's length.
        ids
            (n,) integers of 64 bits or texts, none of them in the index or there twice; without
            them, 0, 1, 2, ... in the order in which codes come.

        Raises
        ------
        InputError
            If an id is in the index (`upsert` replaces its code) or of another kind than those in
            it, or the codes have another number of bits or bytes of refinement.
        """
        check_bits(codes, self.bits)
        passed = None if ids is None else _unique(ids, len(codes))
        self.verify()
        with self._changes:
            self._check_refine(codes)
            new = Keys.of(self._default(len(codes))) if passed is None else passed
            there = self._held.has(new)
            if there.any():
                remedy = "pass ids that are free" if ids is None else "upsert it, or remove it"
                raise InputError(
                    f"the id {first(new.ids[there])} is in the index already: {remedy}"
                )
            self._held.check_apart(new)
            self._held = self._held.added(new, codes)
            self._next += len(codes) if ids is None else 0

    def upsert(self, codes: Codes, ids: Any) -> None:
        """Insert codes, in place of those that their ids have in the index.

        Parameters
        ----------
        codes
            Codes of the index's length.
        ids
            (n,) integers of 64 bits or texts; of an id that comes twice, the last code counts.
        """
        check_bits(codes, self.bits)
        keys = Keys.of(as_paired_ids(ids, len(codes)))
        keys.check_apart()
        last = last_of_each(keys.numbers)
        keys, codes = (keys, codes) if last.all() else (keys.some(last), codes[last])
        self.verify()
        with self._changes:
            self._check_refine(codes)
            there = self._held.has(keys)
            self._held.check_apart(keys)
            if not there.any():
                self._held = self._held.added(keys, codes)
                return
            new, old = (keys.some(~there), codes[~there]), (keys.some(there), codes[there])
            self._held = self._held.added(*new).updated(*old)

    def remove(self, ids: Any) -> None:
        """Take out codes; every id must be in the index, and passed once."""
        gone = Keys.of(as_ids(ids))
        gone.check_unique()
        self.verify()
        with self._changes:
            self._held = self._held.without(gone)

    def update(self, codes: Codes, ids: Any) -> None:
        """Give ids that are in the index other codes, of the same epoch or another."""
        check_bits(codes, self.bits)
        old = _unique(ids, len(codes))
        self.verify()
        with self._changes:
            self._check_refine(codes)
            self._held = self._held.updated(old, codes)

    def _check_refine(self, codes: Codes) -> None:
        """Inside `_changes`, where nobody else adds the first codes."""
        if self._held.refine is not None:
            check_refine(codes, self._held.refine, "those of this index")

    def snapshot(self) -> Snapshot:
        """The codes as they are now, whatever other threads change later."""
        self.verify()
        return self._held

    def verify(self) -> None:
        """Check the codes of an index that was loaded from a file against their digests.

        Done once, at the latest when they are first needed; raises `StorageError` if the file is
        damaged. Reads all of it.
        """
        if self._unverified is None:
            return
        with self._changes:
            if self._unverified is not None:
                self._unverified()
                self._unverified = None

    def verify_by(self, check: Callable[[], None]) -> None:
        """Call `check`, which raises if the codes are damaged, before they are first used."""
        self._unverified = check

    def check(self) -> None:
        """Raise ValueError if the codes contradict themselves, so that a search could not be right.

        Only a file can bring that about.
        """
        self._held.check()

    def get(self, ids: Any) -> Codes:
        """The codes of ids in the index, all of one epoch."""
        asked = Keys.of(as_ids(ids))
        held = self.snapshot()
        held.check_has(asked)
        for epoch, there in held.epochs_of(asked.numbers):
            if there.all():
                return held.codes(epoch, asked.numbers)
            raise EpochError(
                f"the id {first(asked.ids[there])} is of epoch {epoch} and the id "
                f"{first(asked.ids[~there])} of another: get the codes of each epoch by "
                f"themselves"
            )
        empty = np.empty((0, -(-self.bits // 8)), np.uint8)
        refine = held.refine or int(not self.bits)  # codes without bits have bytes
        refinement = np.empty((0, refine), np.uint8) if refine else None
        return Codes(empty, self.bits, next(iter(held.epochs), 0), refinement)

    def has(self, ids: Any) -> NDArray[np.bool_]:
        """(n,) whether each of the ids is in the index."""
        asked = Keys.of(as_ids(ids))
        held = self.snapshot()
        return held.has(asked)

    def items(self, size: int = 65536) -> Iterator[CodeBatch]:
        """All ids and codes, at most `size` at a time, by epoch and then by id.

        Yields
        ------
        CodeBatch
            Codes of one epoch, as they were when the first batch was asked for; until the last is,
            changes take longer.
        """
        size = as_count(size, "size")
        held = self.snapshot()
        for epoch in held.epochs:
            numbers = held.numbers(epoch)
            for start in range(0, len(numbers), size):
                some = numbers[start : start + size]
                yield CodeBatch(held.named(some), held.codes(epoch, some))

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        candidates: int | str | None = None,
        metric: str | None = None,
        exact: Any = None,
        allow: Any = None,
        scales: Any = None,
    ) -> Hits:
        """The k nearest codes of every query, or all of them if there are fewer.

        Parameters
        ----------
        queries
            Codes; or (n, bits) real values, as `coder.project` gives: a bit that differs then costs
            the size of its value, which ranks better than counting bits; or `coder.queries(rows)`,
            which ranks refined codes by what they decode to; or, for an index of several epochs, a
            mapping from each of them to either.
        k
            Number of hits per query.
        candidates
            For `coder.queries`: how many codes of each epoch are found by their bits, and ranked by
            what they decode to; "all" ranks every code. By default a 256th of the epoch's codes, at
            least 300 and 30 k. Codes without bits are all ranked.
        metric
            For `coder.queries`: what distances of decoded rows are, and ranked by; that of the
            coder by default. "euclidean";
            "inner", the inner product with the opposite sign; "cosine", 1 less the cosine of the
            angle, which is 1 for a row of zeros.
        exact
            For `coder.queries` of certified codes: where the raw rows are, an array (also a
            memory-mapped one) whose row i has the id i, or a function from (h,) ids to their (h, d)
            rows. Reads as few as it takes to prove the true k nearest of all codes, and
            distances are those of raw rows.
        allow
            Ids to choose from; those that are not in the index do not matter.
        scales
            For several epochs of codes, a mapping from each to (n, bits + 1) rising numbers: what a
            Hamming distance means there, for each query (`CoderSet.scales`); of real values
            (n, 2 or more), what equal shares of the largest distance mean. Hits are merged by, and
            come with, these; without them, by plain distances. Decoded rows are on one scale.

        Returns
        -------
        Hits
            Ids and distances, (n, k), nearest first. With `exact` also `reads`, how many rows were
            read.
        """
        k = as_count(k, "k")
        metric = None if metric is None else as_choice(metric, "metric", METRICS)
        if have_rows(queries):
            if scales is not None:
                raise InputError("distances of decoded rows are on one scale: leave out scales")
            ranking = as_ranking(candidates, metric_for(queries, metric, exact), exact, k)
            return self._ranked(queries, k, ranking, allow)
        if candidates is not None or exact is not None or metric not in (None, METRICS[0]):
            raise InputError(
                "only queries with rows rank codes by what they decode to: pass "
                "coder.queries(rows), or leave out candidates, metric and exact"
            )
        held = self.snapshot()
        self._check_bits()
        asked, count = by_epoch(queries, self.bits, held.epochs)
        checked = None if scales is None else as_scales(scales, asked, self.bits)
        few = held if allow is None else held.among(Keys.of(as_ids(allow, "allow")))
        best = few.nearest(asked, k, checked)
        if best is None:
            real = checked is not None or any(q.weights is not None for q in asked.values())
            best = no_hits(count, np.float64 if real else np.int32)
        return replace(best, ids=held.named(best.ids))

    def _ranked(self, queries: Any, k: int, ranking: Ranking, allow: Any) -> Hits:
        """What queries with rows find."""
        candidates, metric, look_up = ranking
        held = self.snapshot()
        asked, count = rows_by_epoch(queries, self.bits, held.refine, held.epochs)
        few = held if allow is None else held.among(Keys.of(as_ids(allow, "allow")))
        if look_up is not None:
            check_certified(asked)
            hits = proven(few, asked, k, metric, lambda some: look_up(held.named(some)))
            return replace(hits, ids=held.named(hits.ids))
        found = few.ranked(asked, k, metric=metric, candidates=candidates)
        if found is None:
            found = no_hits(count, np.float64)
        return replace(found, ids=held.named(found.ids))

    def _check_bits(self) -> None:
        if not self.bits:
            raise InputError(
                "codes of this index have no sign bits to compare: search by coder.queries(rows)"
            )

    def within(self, queries: Any, radius: int) -> list[Hits]:
        """All codes that differ from a query in at most `radius` bits.

        Parameters
        ----------
        queries
            Codes, or for an index of several epochs a mapping from each of them to Codes.
        radius
            Number of bits, 0 or more.

        Returns
        -------
        list of Hits
            For each query its hits, nearest first.
        """
        radius = min(as_count(radius, "radius", least=0), self.bits)
        self._check_bits()
        held = self.snapshot()
        asked, count = by_epoch(queries, self.bits, held.epochs)
        if any(query.weights is not None for query in asked.values()):
            raise InputError("a radius counts bits, and queries has real values: pass Codes")
        return _named(held, held.within(asked, radius, count))

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | np.integer | str | UUID):
            return False
        is_text = isinstance(value, str | UUID)
        if isinstance(value, int | np.integer) and not -LAST_ID - 1 <= value <= LAST_ID:
            return False
        try:
            return bool(self.has(as_ids([value]) if is_text else np.array([value], np.int64))[0])
        except (InputError, UnicodeError):  # of the other kind, or not a text that can be an id
            return False

    def __iter__(self) -> Iterator[int] | Iterator[str]:
        """The ids in their order, as they were when the iteration began."""
        held = self.snapshot()
        found = [held.numbers(epoch) for epoch in held.epochs]
        ids = held.named(np.sort(np.concatenate([NO_IDS, *found])))
        return iter(ids.tolist()) if held.has_texts else map(int, ids)

    def __repr__(self) -> str:
        more = f" + {self.refine} bytes" if self.refine else ""
        return f"HammingIndex({len(self)} x {self.bits} bits{more})"

    def state(self) -> dict[str, Any]:
        """Shares its arrays with the index: they are as they are now while inside `pinned`."""
        held = self.snapshot()
        shelves = held.state()
        state = {
            "bits": self.bits,
            "strategy": "auto",  # a place that files have
            "next": self._next,
            "shelves": shelves,
        }
        return state | ({"refine": held.refine} if held.refine else {})

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """From arrays that may be maps of a file: none is read; `check` reads them."""
        index = cls(state["bits"], refine=state.get("refine"))
        index._next = as_count(state["next"], "next", least=0, most=LAST_ID + 1)
        index._held = Snapshot.from_state(state["shelves"], index.bits, index.refine)
        return index

    def _default(self, count: int) -> Numbers:
        if self._next + count > LAST_ID + 1:
            raise InputError(f"the ids 0 to {LAST_ID} are used up: pass ids of your own")
        return np.arange(self._next, self._next + count, dtype=np.int64)


def _unique(ids: Any, count: int) -> Keys:
    keys = Keys.of(as_paired_ids(ids, count))
    keys.check_unique()
    return keys


def _named(held: Snapshot, found: Sequence[Hits]) -> list[Hits]:
    """Hits of several queries with the ids that their numbers stand for."""
    if not (held.has_texts and found):
        return list(found)
    ids = held.named(np.concatenate([hits.ids for hits in found]))
    parts = np.split(ids, np.cumsum([len(hits) for hits in found])[:-1])
    return [replace(hits, ids=part) for hits, part in zip(found, parts, strict=True)]
