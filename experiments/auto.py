"""Whether `method="auto"` finds the better of kernel and linear features, and what that costs.

    STREAMBITS_DATA=folder python -m experiments.auto [--bits 64] [--refine 0 8] [--seeds 3]
        [--data sift low_rank ...] [--rows embeddings.npz ...] [--cost]

The way of a newcomer: `Settings(bits, refine=...)`, `encode_online`, and `CoderSet.search` as it is
by default, with real-valued queries. Rows are in random order, at most 20,000 of them, and 1,000
queries are held out. R10@10 is the share of the true ten nearest among the first ten answers; the
shortfall is that of the better method less that of "auto", whose codes are those of the method that
it has chosen. A line has means over the seeds, and the largest shortfall of them.

--rows takes further data from files: .npy, or .npz with an array X (`experiments.text_embeddings`
makes one). Of the data sets by name, the last six are made here, to see whether the choice
generalises. --cost adds the processor time of the choice over that of learning 20,000 rows with
ssbc, timed in turn, the best of three of each.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import streambits as sb
from paper import datasets
from streambits.methods.choose import choose_features

QUERIES, MOST, K, BATCH = 1000, 20000, 10, 1000
LEARNED, TIMES = 20000, 3
METHODS = ("ssbc", "linear")
Rows = NDArray[np.float32]


class Case(NamedTuple):
    """The recall of both methods, and which of them "auto" has chosen."""

    ssbc: float
    linear: float
    chosen: str

    @property
    def auto(self) -> float:
        """The recall of "auto"."""
        return self.linear if self.chosen == "linear" else self.ssbc

    @property
    def shortfall(self) -> float:
        """By how much that is below the better one."""
        return float(np.nanmax([self.ssbc, self.linear])) - self.auto


# Data that are made


def low_rank(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Twenty dimensions in 200 columns, and noise in all of them."""
    inner = rng.standard_normal((count, 20)) @ rng.standard_normal((20, 200))
    return inner + rng.standard_normal((count, 200))


def clusters(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """A hundred clusters of different widths in 96 columns."""
    centres, widths = 2 * rng.standard_normal((100, 96)), rng.uniform(0.3, 1.5, 100)
    which = rng.integers(100, size=count)
    return centres[which] + widths[which, None] * rng.standard_normal((count, 96))


def heavy_tail(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Student's t with 3 degrees of freedom in 128 columns that depend on one another."""
    turn = np.linalg.qr(rng.standard_normal((128, 128)))[0]
    return np.asarray((rng.standard_t(3, (count, 128)) * np.arange(1, 129) ** -0.5) @ turn)


def sphere(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Topics of topics in 384 columns, of length one: like embeddings of texts."""
    scale = np.arange(1, 385) ** -0.35
    topics = rng.standard_normal((40, 384))[rng.integers(40, size=400)]
    topics = topics + rng.standard_normal((400, 384))
    rows = (topics[rng.integers(400, size=count)] + 2 * rng.standard_normal((count, 384))) * scale
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def surface(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """A bent surface of 5 dimensions in 150 columns."""
    waves = rng.standard_normal((5, 150))
    return np.sin(2 * rng.random((count, 5)) @ waves) + 0.02 * rng.standard_normal((count, 150))


def sparse(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Few words of many, as square roots of their counts, in 256 columns."""
    topics = rng.dirichlet(np.full(256, 0.05), 30)
    shares = rng.dirichlet(np.full(30, 0.1), count) @ topics
    return np.sqrt(rng.poisson(60 * shares))


MADE = {made.__name__: made for made in (low_rank, clusters, heavy_tail, sphere, surface, sparse)}


def load(name: str, seed: int) -> Rows:
    """The rows of a data set, or of a file."""
    if name in MADE:
        return MADE[name](np.random.default_rng(seed), MOST + QUERIES).astype(np.float32)
    if name not in datasets.NAMES:
        found = np.load(name)
        return np.asarray(found["X"] if isinstance(found, np.lib.npyio.NpzFile) else found)
    return np.asarray(datasets.load(name, seed=seed), np.float32)


def stream(name: str, seed: int) -> tuple[Rows, Rows]:
    """Held-out queries, and other rows in random order."""
    rows = load(name, seed)
    rows = rows[np.random.default_rng(seed).permutation(len(rows))[: MOST + QUERIES]]
    return rows[:QUERIES], rows[QUERIES:]


def nearest(queries: Rows, rows: Rows) -> NDArray[np.intp]:
    """The K nearest rows of each query, in any order."""
    mean = rows.mean(axis=0, dtype=np.float64)
    queries, rows = ((part - mean).astype(np.float64) for part in (queries, rows))
    squares = np.vecdot(rows, rows)
    blocks = (queries[i : i + 100] for i in range(0, len(queries), 100))
    return np.concatenate(
        [np.argpartition(squares - 2 * block @ rows.T, K, axis=1)[:, :K] for block in blocks]
    )


def answers(settings: sb.Settings, queries: Rows, rows: Rows) -> NDArray[np.intp]:
    """What a newcomer finds."""
    batches = [
        (np.arange(i, min(i + BATCH, len(rows))), rows[i : i + BATCH])
        for i in range(0, len(rows), BATCH)
    ]
    index, coders = sb.HammingIndex(settings.bits), sb.CoderSet()
    for ids, codes in sb.encode_online(settings, batches, coders=coders):
        index.add(codes, ids)
    return coders.search(index, queries, K).ids


def measure(
    name: str, lengths: list[int], refined: list[int], seed: int
) -> Iterator[tuple[tuple[int, int], Case]]:
    """A case for each length of codes and each refinement of them."""
    queries, rows = stream(name, seed)
    truth = nearest(queries, rows)
    for bits in lengths:
        for refine in refined:
            auto = sb.Settings(bits, refine=refine or None, seed=seed)
            chosen = auto.resolved([rows[: auto.gathered]]).method
            ways = {method: replace(auto, method=method) for method in METHODS} | {chosen: auto}
            found = {name: recall_of(way, queries, rows, truth) for name, way in ways.items()}
            yield (bits, refine), Case(**found, chosen=chosen)


def recall_of(settings: sb.Settings, queries: Rows, rows: Rows, truth: NDArray[np.intp]) -> float:
    """The recall of what a newcomer finds; NaN where there are no codes of this length."""
    try:
        found = answers(settings, queries, rows)
    except sb.errors.InputError:
        return float("nan")
    return float((found[:, :, None] == truth[:, None, :]).any(axis=1).mean())


def seconds(work: Callable[[], object]) -> float:
    """Of processor time, which other work on the machine does not change."""
    start = time.process_time()
    work()
    return time.process_time() - start


def cost(name: str, bits: int) -> float:
    """The time of the choice over that of learning 20,000 rows with ssbc, timed in turn."""
    rows, settings = stream(name, 0)[1], sb.Settings(bits, "ssbc", epochs="never")
    first, learned = rows[: settings.gathered], rows[:LEARNED]
    learner = settings.learner([first])
    pairs = [
        (
            seconds(lambda: choose_features(first, bits)),
            seconds(lambda: learner.learn(learned)) * LEARNED / len(learned),
        )
        for _ in range(TIMES)
    ]
    choosing, learning = np.min(pairs, axis=0)
    return float(choosing / learning)


def shown(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def line(name: str, bits: int, refine: int, cases: list[Case], *, cost_too: bool) -> str:
    """A line of the table: means, how often each was chosen, and the largest shortfall."""
    means = np.mean([(case.ssbc, case.linear, case.auto) for case in cases], axis=0)
    chosen = sorted({case.chosen for case in cases})
    shortfall = max(case.shortfall for case in cases)
    cells = [Path(name).stem, f"{bits}", f"{refine}", *map(shown, means)]
    cells += [", ".join(chosen), f"{shortfall:.3f}"]
    cells += [f"{cost(name, bits):.2f}"] if cost_too else []
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", type=int, nargs="*", default=[32, 64, 128])
    parser.add_argument("--refine", type=int, nargs="*", default=[0, 8])
    parser.add_argument("--seeds", type=int, default=3)
    names = ["uniform", "covtype", "cbm", "dsads", "sift", "mnist"]
    parser.add_argument("--data", nargs="*", default=[*names, *MADE])
    parser.add_argument("--rows", nargs="*", default=[], help="files of further rows")
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    print("| data | bits | refine | ssbc | linear | auto | chosen | largest shortfall |", end="")
    print(" cost |" if options.cost else "")
    print("|---|---:|---:|---:|---:|---:|---|---:|" + "---:|" * options.cost)
    here = [name for name in options.data if name in MADE or datasets.available(name)]
    for name in (*here, *options.rows):
        runs = [
            dict(measure(name, options.bits, options.refine, seed)) for seed in range(options.seeds)
        ]
        for bits, refine in runs[0]:
            cases = [run[bits, refine] for run in runs]
            print(line(name, bits, refine, cases, cost_too=options.cost), flush=True)


if __name__ == "__main__":
    main()
