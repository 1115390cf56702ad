"""What `tune` chooses from a sample of 5000 rows, against the full grid on the whole stream.

    STREAMBITS_DATA=folder python -m experiments.tune [--data uniform sift] [--queries 500]
    STREAMBITS_DATA=folder python -m experiments.tune --bytes 16 [--seeds 3] [--seconds 60]

For each data set and target: every choice that `tune` considers is learned from the whole stream
and measured on it; the table shows the default, the tuned choice and the best of the grid.

With --bytes: R10@10, the share of the true ten nearest among the first ten answers, of every split
of the bytes between sign bits and refinement, with kernel and linear features; 300 candidates by
Hamming distance. Queries are rows that are held out. `tune` sees 5000 rows of the stream.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

import streambits as sb
from paper import datasets
from streambits.evaluation import quality, truth
from streambits.methods.settings import Settings
from streambits.tune import TARGETS, choices, code_size, landmarks_for, tune, usual

SHORT = ("cbm", "dsads")  # 32 bits; the others have 64
SAMPLE = 5000
LANDMARKS, CANDIDATES, K = 500, 300, 10
SHARES = (3 / 16, 4 / 16, 5 / 16, 6 / 16, 8 / 16, 10 / 16, 12 / 16)  # of the bytes for sign bits


class Board:
    """Measures choices on a whole stream, each once."""

    def __init__(self, name: str, rows: int, queries: int, seed: int) -> None:
        self.landmarks, length = datasets.SIZES[name]
        self.bits = 32 if name in SHORT else 64
        _, self.rows = datasets.stream(name, self.landmarks, min(length, rows), seed=seed)
        order = np.random.default_rng(seed).permutation(len(self.rows))
        self.sample = self.rows[order[:SAMPLE]]
        self.seed = seed
        self.threshold = sb.bandwidth.nearest(30).distance(self.sample[: self.landmarks])
        places = truth.draw_queries(queries, len(self.rows), seed=seed)
        self.truth = truth.find(self.rows, places, self.threshold)
        self.found: dict[Settings, quality.Quality] = {}

    def measure(self, choice: Settings) -> quality.Quality:
        """Learn the stream with this choice, and search it."""
        if choice not in self.found:
            try:
                learner = choice.build(landmarks_for(choice, self.sample))
                codes = learner.learn(self.rows).coder().encode(self.rows)
                got = quality.quality(self.truth, lambda some: codes[some].hamming(codes))
            except sb.errors.InputError:
                got = quality.Quality(-1.0, -1.0)
            self.found[choice] = got
        return self.found[choice]


class Refined:
    """Measures refined codes on a whole stream, each once."""

    def __init__(self, name: str, rows: int, queries: int, seed: int) -> None:
        landmarks, length = datasets.SIZES[name]
        stream = datasets.stream(name, landmarks, min(length, rows), seed=seed).rows
        order = np.random.default_rng(seed).permutation(len(stream))
        self.queries, held = stream[order[:queries]], order[queries:]
        self.rows, self.sample = stream[np.sort(held)], stream[held[:SAMPLE]]
        self.near = truth.true_neighbours(self.rows, self.queries, K)
        self.found: dict[Settings, float] = {}

    def measure(self, choice: Settings) -> float:
        """R10@10 after the stream was learned with this choice."""
        if choice not in self.found:
            learner = choice.build(landmarks_for(choice, self.sample), reference=self.sample)
            coder = learner.learn(self.rows).coder()
            index = sb.HammingIndex(coder.bits)
            index.add(coder.encode(self.rows))
            ids = index.search(coder.queries(self.queries), K, candidates=CANDIDATES).ids
            self.found[choice] = float(np.take_along_axis(self.near, ids, axis=1).mean())
        return self.found[choice]

    def grid(self, n_bytes: int, seed: int) -> list[Settings]:
        """Every split with both features; linear ones have a bit per column at most."""
        kernel = usual(8, LANDMARKS, seed)
        linear = replace(kernel, method="linear", whitening=0.0, bandwidth_factor=None)
        signs = sorted({max(1, round(share * n_bytes)) for share in SHARES})
        return [
            replace(base, bits=8 * count, refine=n_bytes - count)
            for base in (kernel, linear)
            for count in signs
            if base is kernel or 8 * count <= self.rows.shape[1]
        ]


def by_bytes(options: argparse.Namespace) -> None:
    """Print the grid of each data set, and what `tune` chose."""
    for name in filter(datasets.available, options.data):
        for seed in range(options.seed, options.seed + options.seeds):
            board = Refined(name, options.rows, options.queries, seed)
            grid = board.grid(options.bytes, seed)
            start = time.perf_counter()
            tuned = tune(board.sample, bytes=options.bytes, seconds=options.seconds, seed=seed)
            spent = time.perf_counter() - start
            best, got = max(grid, key=board.measure), board.measure(tuned.settings)
            print(
                f"{name:8} seed {seed}  tuned {got:.3f}  best {board.found[best]:.3f}  "
                f"{got - board.found[best]:+.3f}  {spent:.0f} s, {len(tuned.trials)} trials  "
                f"{tuned.settings} | {best.method} {code_size(best)}"
            )
            cells = (f"{one.method} {code_size(one)}: {board.measure(one):.3f}" for one in grid)
            print("   ", ", ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=list(datasets.SIZES))
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bytes", type=int, help="measure splits of so many bytes")
    parser.add_argument("--seeds", type=int, default=1, help="with --bytes: number of seeds")
    parser.add_argument("--seconds", type=float, default=60.0, help="with --bytes: time to tune")
    options = parser.parse_args()
    if options.bytes:
        by_bytes(options)
        return
    print(
        f"{'data':8} {'target':6} {'default':>7} {'tuned':>7} {'best':>7} {'to best':>8} "
        f"{'tuning':>7}  chosen | best"
    )
    for name in filter(datasets.available, options.data):
        board = Board(name, options.rows, options.queries, options.seed)
        default = usual(board.bits, board.landmarks, options.seed)
        for choice in choices(default):
            board.measure(choice)
        for target in TARGETS:
            start = time.perf_counter()
            tuned = tune(
                board.sample,
                board.bits,
                target=target,
                n_landmarks=board.landmarks,
                threshold=board.threshold,
                seed=options.seed,
            )
            spent = time.perf_counter() - start
            score = {c: getattr(q, target) for c, q in board.found.items()}
            best = max(score, key=lambda choice: score[choice])
            got = getattr(board.measure(tuned.settings), target)
            print(
                f"{name:8} {target:6} {score[default]:7.3f} {got:7.3f} {score[best]:7.3f} "
                f"{got - score[best]:+8.3f} {spent:6.0f}s  {tuned.settings} | {best}",
                flush=True,
            )


if __name__ == "__main__":
    main()
