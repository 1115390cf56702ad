"""Learning by partitions against one pass: quality, sketches, and 1,000 small shards.

    STREAMBITS_DATA=folder python -m experiments.partitions [--data sift mnist] [--seeds 1]
    python -m experiments.partitions --shards 1000        # error growth alone, on uniform rows

Streams are those of `experiments.core`, with 300 rows held out as queries. Everything is learned in
this process, which gives the bits of Dask. Partitions are
equal pieces of the shuffled stream, or of the stream sorted by its first principal component; one
pass reads the shuffled stream. With the landmarks of the stream, all differences come from merging;
with "drawn", landmarks are the distributed sample of 10 x 500 rows, and of one pass its first rows,
so differences have the noise of drawing other landmarks. Rotation and refinement are fitted to a
sample of 5,000 rows, so one pass varies too, by which rows are drawn; that is a line of its own.
R10@10 is that of 64 bits and 8 bytes with
300 candidates, MAP that of the bits alone (tie-aware, sigma_30 of the landmarks).
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streambits as sb
from experiments.bytes import CANDIDATES, QUERIES, K, nearest, recall
from experiments.core import WANTED
from paper import datasets, methods
from streambits.engines.partitions import ArrayPartition, sample_partition
from streambits.engines.shards import MergeTree, finished, learn_partition
from streambits.evaluation import quality, truth

PARTITIONS = (1, 4, 16, 64)
DRAWS = 6  # of the sample, in one pass
Rows = NDArray[Any]


def by_component(rows: Rows) -> NDArray[np.intp]:
    """The order of rows along their first principal component."""
    centred = rows - rows.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    return np.argsort(centred @ vectors[:, -1])


class Task:
    """Rows, queries and the truth, by which a learner is scored."""

    def __init__(self, name: str, seed: int) -> None:
        self.landmarks, stream = datasets.stream(name, *datasets.SIZES[name], seed=seed)
        self.queries, self.rows = stream[:QUERIES], stream[QUERIES:]
        self.near = nearest(self.queries.astype(float), self.rows.astype(float))
        self.threshold = sb.bandwidth.nearest(30).distance(self.landmarks)
        self.asked = truth.draw_queries(1000, len(self.rows), seed=seed)

    def score(self, learner: sb.Learner) -> tuple[float, float]:
        """R10@10 and MAP."""
        coder = learner.coder()
        codes = coder.encode(self.rows)
        index = sb.HammingIndex(coder.bits)
        index.add(codes)
        found = index.search(coder.queries(self.queries), K, candidates=CANDIDATES).ids
        signs = sb.Codes(codes.packed, codes.bits, codes.epoch)
        precision = quality.mean_average_precision(signs, self.rows, self.asked, self.threshold)
        return recall(found, self.near), precision


def gram_error(learner: sb.Learner, other: sb.Learner) -> float:
    """How far the sums of products differ, relative to their size."""
    mine, theirs = (one.sketch.state()["sum"] for one in (learner, other))
    return float(np.linalg.norm(mine - theirs) / np.linalg.norm(theirs))


def learned(rows: Rows, count: int, begin: sb.Learner | sb.Settings) -> sb.Learner:
    """What `count` partitions of rows have learned."""
    parts = [ArrayPartition(n, part) for n, part in enumerate(np.array_split(rows, count))]
    if isinstance(begin, sb.Settings):
        drawn = MergeTree(count)
        for one in parts:
            drawn.add(one.number, sample_partition(one, begin.gathered, begin.seed))
        begin = begin.learner([drawn.result().rows])
    tree = MergeTree(count)
    for one in parts:
        tree.add(one.number, learn_partition(begin, one))
    return finished(begin, tree.result())


def control(task: Task, begin: sb.Learner, head: str, wanted: tuple[float, float]) -> None:
    """How much one pass varies by the rows that its sample draws: the sketch is the same."""
    scores = [task.score(begin.shard(1000 + n).learn(task.rows)) for n in range(DRAWS)]
    off = np.array(scores) - wanted
    low, high = off.min(axis=0), off.max(axis=0)
    print(
        f"{head} one pass, {DRAWS} other samples | | {low[0]:+.4f} to {high[0]:+.4f} | "
        f"{low[1]:+.4f} to {high[1]:+.4f} | 0 | | |",
        flush=True,
    )


def quality_by_partitions(name: str, seed: int) -> None:
    """A line for each number of partitions."""
    task, (bits, _) = Task(name, seed), WANTED[name]
    begin = sb.ssbc(task.landmarks, bits, refine=8, epochs="never", seed=seed)
    settings = sb.Settings(bits=bits, method="ssbc", refine=8, epochs="never", seed=seed)
    alone = begin.fresh().learn(task.rows)
    first = settings.learner([task.rows[: settings.gathered]]).learn(task.rows)
    wanted, drawn = task.score(alone), task.score(first)
    print(
        f"| {name} | {seed} | one pass | | {wanted[0]:.4f} | {wanted[1]:.4f} | | "
        f"{drawn[0]:.4f} | {drawn[1]:.4f} |",
        flush=True,
    )
    control(task, begin, f"| {name} | {seed} |", wanted)
    in_order = task.rows[by_component(task.rows)]
    for count in PARTITIONS:
        for order, rows in (("shuffled", task.rows), ("sorted", in_order)):
            found = learned(rows, count, begin)
            again = learned(rows, count, begin)
            assert sb.to_bytes(found) == sb.to_bytes(again)
            other = learned(rows, count, settings)
            (r, m), (rd, md) = task.score(found), task.score(other)
            print(
                f"| {name} | {seed} | {count} | {order} | {r - wanted[0]:+.4f} | "
                f"{m - wanted[1]:+.4f} | {gram_error(found, alone):.1e} | {rd - drawn[0]:+.4f} | "
                f"{md - drawn[1]:+.4f} |",
                flush=True,
            )


def growth(most: int, rows_each: int = 64) -> None:
    """Errors of sums and certificates, for more and more shards of few rows."""
    print(
        f"\n| shards of {rows_each} rows | Gram: error | R10@10 | FD: certificate / energy |",
        end="",
    )
    print(" of one pass |\n|---:|---:|---:|---:|---:|")
    rng = np.random.default_rng(0)
    every = rng.random((most * rows_each + 1000, 32), dtype=np.float32)
    queries, every = every[:1000], every[1000:]
    exact = sb.ssbc(every[:200], 64, refine=8, epochs="never")
    sketched = methods.rff_fd(every[:200], 32, count=400, epsilon=1.0)
    count = 1
    while count <= most:
        rows = every[: count * rows_each]
        alone = exact.fresh().learn(rows)
        merged = learned(rows, count, exact)
        one, many = (
            sketched.fresh().learn(rows),
            learned(rows, count, sketched),
        )
        energy = float(np.sum(one.sketch.directions(32).energies)) * one.sketch.weight
        score = ""
        if len(rows) > 1000:
            near = nearest(queries.astype(float), rows.astype(float))
            both = []
            for learner in (merged, alone):
                coder = learner.coder()
                index = sb.HammingIndex(coder.bits)
                index.add(coder.encode(rows))
                asked = coder.queries(queries)
                both.append(recall(index.search(asked, K, candidates=CANDIDATES).ids, near))
            score = f"{both[0]:.4f} ({both[0] - both[1]:+.4f})"
        print(
            f"| {count} | {gram_error(merged, alone):.1e} | {score} | "
            f"{many.sketch.certificate / energy:.2e} | {one.sketch.certificate / energy:.2e} |",
            flush=True,
        )
        count *= 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=list(WANTED))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--shards", type=int, default=0, help="error growth alone, up to so many")
    options = parser.parse_args()
    if not options.shards:
        print("| data | seed | partitions | order | R10@10 | MAP | Gram: error |", end="")
        print(" drawn: R10@10 | MAP |\n|---|---:|---:|---|---:|---:|---:|---:|---:|")
        for name in filter(datasets.available, options.data):
            for seed in range(options.seeds):
                quality_by_partitions(name, seed)
    growth(options.shards or 1000)


if __name__ == "__main__":
    main()
