"""Refined codes beside FAISS IndexPQ at equal bytes: what one query takes, and what it answers.

    python -m benchmarks --only refined

Codes of some sign bits and a refinement of as many bytes as are left of 16, and product codes of 16
bytes by FAISS, trained on the same sample of rows, which are clusters of few directions. R10@10 is
the share of the true ten nearest, by brute force over all rows, in the first ten answers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import streambits as sb
from benchmarks.report import Line
from benchmarks.timer import in_turns
from streambits._threads import one_blas_thread

BATCH, SAMPLE, K = 50_000, 10_000, 10
BYTES, NOISE = 16, 0.1
Rows = NDArray[np.float32]
Draw = Callable[[np.random.Generator, int], Rows]


def clusters(width: int = 128, rank: int = 24, count: int = 2000) -> Draw:
    """Rows around centres, with more variance in some directions than in others."""
    rng = np.random.default_rng(0)
    falling = 1 / np.sqrt(np.arange(1, rank + 1))
    axes = rng.standard_normal((rank, width)) * falling[:, None]
    centres = 2 * rng.standard_normal((count, rank))

    def draw(rng: np.random.Generator, size: int) -> Rows:
        latent = centres[rng.integers(count, size=size)] + rng.standard_normal((size, rank))
        made: Rows = (latent @ axes + NOISE * rng.standard_normal((size, width))).astype(np.float32)
        return made

    return draw


class Truth:
    """The K nearest of all rows that went by."""

    def __init__(self, queries: Rows) -> None:
        self.queries = queries
        self.ids = np.empty((len(queries), 0), np.int64)
        self.far = np.empty((len(queries), 0), np.float32)

    def see(self, rows: Rows, start: int) -> None:
        """Rows with ids from start on."""
        flat = faiss.IndexFlatL2(rows.shape[1])
        flat.add(rows)
        far, ids = flat.search(self.queries, K)
        self.far = np.concatenate([self.far, far], axis=1)
        self.ids = np.concatenate([self.ids, ids + start], axis=1)
        order = np.argsort(self.far, axis=1, kind="stable")[:, :K]
        self.far = np.take_along_axis(self.far, order, 1)
        self.ids = np.take_along_axis(self.ids, order, 1)

    def recall(self, found: list[Any]) -> float:
        """The share of the true ones among those found."""
        pairs = zip(self.ids.tolist(), found, strict=True)
        return float(np.mean([len({*true} & {*some}) for true, some in pairs])) / K


def batches(draw: Draw, count: int) -> Iterator[tuple[int, Rows]]:
    rng = np.random.default_rng(2)
    for start in range(0, count, BATCH):
        yield start, draw(rng, min(BATCH, count - start))


@dataclass(frozen=True)
class Contest:
    """The same rows in an index of refined codes and in one of product codes, and the truth."""

    coder: sb.Coder
    index: sb.HammingIndex
    rival: Any
    queries: Rows
    truth: Truth

    @classmethod
    def of(
        cls,
        draw: Draw,
        count: int,
        queries: int,
        *,
        bits: int = 64,
        sample: int = SAMPLE,
    ) -> "Contest":
        """Encode so many rows both ways."""
        rng = np.random.default_rng(1)
        first, asked = draw(rng, sample), draw(rng, queries)
        learner = sb.ssbc(first[: sample // 10], bits, refine=BYTES - bits // 8).learn(first)
        coder, truth = learner.coder(), Truth(asked)
        index = sb.HammingIndex(bits)
        rival = faiss.IndexPQ(padded(first).shape[1], BYTES, 8)
        rival.pq.cp.min_points_per_centroid = 1  # no complaints
        rival.train(padded(first))
        for start, rows in batches(draw, count):
            truth.see(rows, start)
            index.add(coder.encode(rows))
            rival.add(padded(rows))
        return cls(coder, index, rival, asked, truth)

    def ours(self, candidates: int) -> list[Any]:
        """Ids that refined codes find, query by query."""
        found = (
            self.index.search(self.coder.queries(one), K, candidates=candidates).ids[0]
            for one in np.split(self.queries, len(self.queries))
        )
        return [ids.tolist() for ids in found]

    def theirs(self) -> list[Any]:
        """Ids that product codes find, query by query."""
        split = np.split(padded(self.queries), len(self.queries))
        return [self.rival.search(one, K)[1][0].tolist() for one in split]


def padded(rows: Rows) -> Rows:
    """With columns of zeros, so that their number is a multiple of BYTES."""
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % BYTES)))


def lines(*, small: bool = False) -> Iterator[Line]:
    """One query at a time over made-up rows."""
    count, queries, candidates = (5000, 4, 100) if small else (1_000_000, 20, 5000)
    sample = 1000 if small else SAMPLE
    contest = Contest.of(clusters(count=sample // 5), count, queries, sample=sample)
    with one_blas_thread() as threads:
        faiss.omp_set_num_threads(threads)
    mine, theirs = in_turns(
        partial(contest.ours, candidates), contest.theirs, rounds=1 if small else 5, repeats=1
    )
    recall = [contest.truth.recall(found) for found in (contest.ours(candidates), contest.theirs())]
    yield Line.of(
        f"search {count / 1e6:g} million refined codes of {BYTES} bytes, one query",
        "FAISS IndexPQ",
        mine.per(queries),
        theirs.per(queries),
        unit="query",
        note=f"R10@10 {recall[0]:.2f}, theirs {recall[1]:.2f}",
    )
