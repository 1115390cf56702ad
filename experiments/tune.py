"""What `tune` chooses from a sample of 5000 rows, against the full grid on the whole stream.

    STREAMBITS_DATA=folder python -m experiments.tune [--data uniform sift] [--queries 500]

For each data set and target: every choice that `tune` considers is learned from the whole stream
and measured on it; the table shows the default, the tuned choice and the best of the grid.
"""

import argparse
import time

import numpy as np

import streambits as sb
from paper import datasets
from streambits.evaluation import quality, truth
from streambits.methods.settings import Settings
from streambits.tune import TARGETS, choices, landmarks_for, tune, usual

SHORT = ("cbm", "dsads")  # 32 bits; the others have 64
SAMPLE = 5000


class Board:
    """Measures choices on a whole stream, each once."""

    def __init__(self, name: str, rows: int, queries: int, seed: int) -> None:
        self.landmarks, length = datasets.SIZES[name]
        self.bits = 32 if name in SHORT else 64
        _, self.rows = datasets.stream(name, self.landmarks, min(length, rows), seed=seed)
        order = np.random.default_rng(seed).permutation(len(self.rows))
        self.sample = self.rows[order[:SAMPLE]]
        self.seed = seed
        self.threshold = sb.nearest(30).distance(self.sample[: self.landmarks])
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=list(datasets.SIZES))
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
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
