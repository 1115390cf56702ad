"""Exact search by looking at every code, on all threads.

The threads take different codes, so a single query is as parallel as many; what they find is put
together in the order of places, and does not depend on where the codes were cut.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._threads import one_blas_thread, ordered_map
from streambits.index.store import Words
from streambits.kernels.scan import (
    CHUNK,
    PlacedCodes,
    first_of,
    gather_in_span,
    likely_limits,
    nearest_in_span,
    within_in_span,
)

Places = NDArray[np.int64]
Distances = NDArray[np.int32]
Alive = NDArray[np.bool_]
Limits = NDArray[np.int64]
FAR = np.int32(np.iinfo(np.int32).max)  # beyond all distances

SHARE = 1 << 16  # words a thread should have for the start of it to pay
CANDIDATES = 1 << 21  # kept at a time over all queries of a group
GROUP = 128  # queries that pass over a chunk together
GATHER_K, SPARSE = 512, 8  # k from which hits are gathered, of so many times as many codes
ROOM = 4  # times k that are gathered at most, for distances are whole numbers


class ScanTask(NamedTuple):
    """Codes to be scanned by some queries.

    codes: words as planes (width, places), and which places live; end: of the places in use;
    queries: (queries, width); k: at most the living before `end`; limits: (queries,) only what is
    closer than these is of interest.
    """

    codes: PlacedCodes
    end: int
    queries: Words
    k: int
    limits: Limits


def scan_task(
    words: Words, alive: Alive, end: int, queries: Words, k: int, *, limits: Limits | None = None
) -> ScanTask:
    """A task, without limits unless they are passed."""
    beyond = np.full(len(queries), 64 * len(words) + 1, np.int64)
    closer = beyond if limits is None else np.minimum(limits, beyond)
    return ScanTask(PlacedCodes(words, alive), end, queries, k, closer)


def scan_nearest(
    words: Words, alive: Alive, end: int, queries: Words, k: int, *, limits: Limits | None = None
) -> tuple[Places, Distances]:
    """The k nearest places (queries, k) and their distances; equal ones by place.

    Where fewer than k are closer than the limits, the distances after them are `FAR` and their
    places mean nothing. The arguments are those of `scan_task`.
    """
    step = max(1, min(GROUP, CANDIDATES // k))
    whole = scan_task(words, alive, end, queries, k, limits=limits)
    many = limits is None and k >= GATHER_K and end >= SPARSE * k
    find = _many if many else _few
    groups = [
        find(whole._replace(queries=queries[some], limits=whole.limits[some]))
        for some in (slice(i, i + step) for i in range(0, len(queries), step))
    ]
    places = np.concatenate([np.empty((0, k), np.int64), *(g[0] for g in groups)])
    return places, np.concatenate([np.empty((0, k), np.int32), *(g[1] for g in groups)])


def _few(task: ScanTask) -> tuple[Places, Distances]:
    return scan_tasks([task])[0]


def _many(task: ScanTask) -> tuple[Places, Distances]:
    """The nearest of a task with a large k: all below a likely limit are gathered, then sorted.

    Takes a third of the time of `_few`, which counts while it looks; queries whose limit turns out
    to be too low or much too high are left to that.
    """
    codes, end, queries, k, _ = task
    limits = likely_limits(codes, end, queries, k)

    def work(span: tuple[int, int]) -> tuple[Places, Distances, Places]:
        return gather_in_span(codes, span, queries, limits, ROOM * k)  # type: ignore[no-any-return]

    with one_blas_thread() as workers:
        found = list(ordered_map(work, _spans(codes.words, end, workers)))
    counts = np.stack([one[2] for one in found])
    done = (counts < ROOM * k).all(axis=0) & (counts.sum(axis=0) >= k)
    places, distances = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.int32)
    for q in np.flatnonzero(done):
        near = [(one[0][q, : one[2][q]], one[1][q, : one[2][q]]) for one in found]
        gathered = (np.concatenate(side)[None] for side in zip(*near, strict=True))
        total = counts[:, q].sum(keepdims=True)
        places[q], distances[q] = first_of(*gathered, total, k, 64 * len(codes.words))
    if not done.all():
        rest = task._replace(queries=queries[~done], limits=task.limits[~done])
        places[~done], distances[~done] = _few(rest)
    return places, distances


def scan_tasks(tasks: Sequence[ScanTask]) -> list[tuple[Places, Distances]]:
    """The nearest of each task, as `scan_nearest` gives them; every thread has a share of each.

    Meant for few queries, as all are looked at together.
    """
    if all(task.codes.words.size < 2 * SHARE for task in tasks):  # too little for two threads
        return [_found(task, (0, task.end)) for task in tasks]
    with one_blas_thread() as workers:
        spans = [_spans(task.codes.words, task.end, workers) for task in tasks]

        def work(thread: int) -> list[tuple[int, Places, Distances]]:
            shares = [(i, some[thread]) for i, some in enumerate(spans) if thread < len(some)]
            return [(i, *_found(tasks[i], span)) for i, span in shares]

        found = [*chain(*ordered_map(work, range(max(map(len, spans)))))]
    return [
        _joined([hits[1:] for hits in found if hits[0] == i], task.k)
        for i, task in enumerate(tasks)
    ]


def _found(task: ScanTask, span: tuple[int, int]) -> tuple[Places, Distances]:
    most = min(task.k, span[1] - span[0])
    places, distances, count = nearest_in_span(task.codes, span, task.queries, most, task.limits)
    return places, np.where(np.arange(most) < count[:, None], distances, FAR)


def _joined(shares: Sequence[tuple[Places, Distances]], k: int) -> tuple[Places, Distances]:
    """The k nearest of shares in the order of places."""
    if len(shares) == 1:
        return shares[0]
    distances = np.concatenate([d for _, d in shares], axis=1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    places = np.concatenate([places for places, _ in shares], axis=1)
    return np.take_along_axis(places, order, 1), np.take_along_axis(distances, order, 1)


def scan_within(
    words: Words, alive: Alive, end: int, queries: Words, radius: int
) -> list[tuple[Places, Distances]]:
    """For every query the places within the radius and their distances; equal ones by place."""
    groups = (queries[i : i + GROUP] for i in range(0, len(queries), GROUP))
    return [hits for some in groups for hits in _within(words, alive, end, some, radius)]


def ranges(words: int, end: int, workers: int, *, block: int, share: int) -> list[tuple[int, int]]:
    """Spans of whole blocks, about as many for every thread.

    words: in all; share: words that a thread should have for the start of it to pay.
    """
    count = max(1, min(workers, words // share))
    step = -(-end // (count * block)) * block
    return [(i, min(i + step, end)) for i in range(0, end, step)]


def _spans(words: Words, end: int, workers: int) -> list[tuple[int, int]]:
    return ranges(end * len(words), end, workers, block=CHUNK, share=SHARE)


def _within(
    words: Words, alive: Alive, end: int, queries: Words, radius: int
) -> list[tuple[Places, Distances]]:
    codes = PlacedCodes(words, alive)

    def work(span: tuple[int, int]) -> list[tuple[Places, Distances]]:
        places, distances, ends = within_in_span(codes, span, queries, radius)
        return list(zip(np.split(places, ends[:-1]), np.split(distances, ends[:-1]), strict=True))

    with one_blas_thread() as workers:
        found = list(ordered_map(work, _spans(words, end, workers)))
    return [_in_order(shares) for shares in zip(*found, strict=True)]


def _in_order(shares: Sequence[tuple[Places, Distances]]) -> tuple[Places, Distances]:
    places, distances = (np.concatenate(side) for side in zip(*shares, strict=True))
    order = np.argsort(distances, kind="stable")
    return places[order], distances[order]
