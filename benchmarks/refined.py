"""Refined codes beside FAISS IndexPQ at equal bytes: what one query takes, and what it finds.

    [STREAMBITS_DATA=folder] python -m benchmarks.refined [--data sift] [--codes 4000000]

Codes of some sign bits and a refinement of as many bytes as are left of 16, searched with several
numbers of candidates, and product codes of 16 bytes by FAISS, trained on the same sample of rows.
R10@10 is the share of the true ten nearest, by brute force over all rows, in the first ten answers.
Queries are asked one at a time, in turns, with the same number of threads; `ratio` is the median
time of ours over the median time of FAISS. Rows of a data set are made more by moving each towards
one of its nearest, with noise; without one, they are clusters of few directions. Takes some
minutes, most of them for encoding.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import streambits as sb
from paper import datasets

BATCH, SAMPLE, K, ROUNDS = 50_000, 5000, 10, 3
BYTES, NEIGHBOURS, NOISE = 16, 20, 0.1
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


def between(name: str) -> Draw:
    """Rows between a row of a data set and one of its nearest, with noise."""
    rows = datasets.load(name)[:20_000].astype(np.float32)
    flat = faiss.IndexFlatL2(rows.shape[1])
    flat.add(rows)
    near = flat.search(rows, NEIGHBOURS + 1)[1][:, 1:]
    spread = NOISE * rows.std(axis=0)

    def draw(rng: np.random.Generator, size: int) -> Rows:
        first = rng.integers(len(rows), size=size)
        other = near[first, rng.integers(NEIGHBOURS, size=size)]
        share = rng.random((size, 1), np.float32)
        made: Rows = rows[first] + share * (rows[other] - rows[first])
        made += spread * rng.standard_normal(made.shape, np.float32)
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


def in_turns(works: list[Callable[[Rows], Any]], queries: Rows) -> tuple[NDArray[Any], list[Any]]:
    """Milliseconds (works, queries), the best of a few rounds, and what each found."""
    times = np.full((len(works), len(queries)), np.inf)
    found: list[list[Any]] = [[None] * len(queries) for _ in works]
    for _ in range(ROUNDS):
        for w, work in enumerate(works):  # not query by query: threads of OpenMP wait busily
            for q in range(len(queries)):
                start = time.perf_counter()
                hits = work(queries[q : q + 1])
                times[w, q] = min(times[w, q], (time.perf_counter() - start) * 1e3)
                found[w][q] = hits[0].tolist()
    return times, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", choices=datasets.NAMES, help="without it, rows are made up")
    parser.add_argument("--codes", type=int, default=4_000_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--method", default="ssbc", help="of the sign bits")
    parser.add_argument("--bits", type=int, default=64, choices=range(8, 128, 8))
    parser.add_argument("--candidates", type=int, nargs="*", default=[2000, 5000, 10000, 20000])
    options = parser.parse_args()
    draw = between(options.data) if options.data else clusters()
    rng = np.random.default_rng(1)
    sample, queries = draw(rng, SAMPLE), draw(rng, options.queries)
    learner = sb.methods.METHODS[options.method](
        sample[:1000], options.bits, refine=BYTES - options.bits // 8
    )
    coder, truth = learner.learn(sample).coder(), Truth(queries)
    index = sb.HammingIndex(options.bits, strategy="scan")
    padding = ((0, 0), (0, -sample.shape[1] % BYTES))
    rival = faiss.IndexPQ(sample.shape[1] + padding[1][1], BYTES, 8)
    rival.train(np.pad(sample, padding))
    for start, rows in batches(draw, options.codes):
        truth.see(rows, start)
        index.add(coder.encode(rows))
        rival.add(np.pad(rows, padding))
    faiss.omp_set_num_threads(options.threads)

    def ours(count: int) -> Callable[[Rows], Any]:
        return lambda query: index.search(coder.queries(query), K, candidates=count).ids

    works = [lambda query: rival.search(np.pad(query, padding), K)[1]]
    works += [ours(count) for count in options.candidates]
    with threadpool_limits(options.threads, user_api="blas"):
        times, found = in_turns(works, queries)
    middle = np.median(times, axis=1)
    print(f"{len(index):,} codes of 16 bytes, {options.threads} threads, {coder!r}")
    print(f"{'':24} R10@10  milliseconds  ratio")
    names = ["FAISS IndexPQ", *(f"{count:,} candidates" for count in options.candidates)]
    for name, hits, taken in zip(names, found, middle, strict=True):
        print(f"{name:24} {truth.recall(hits):6.3f} {taken:13.2f} {taken / middle[0]:6.2f}")


if __name__ == "__main__":
    main()
