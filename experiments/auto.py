"""Whether `choose_features` finds the better of kernel and linear features, and what it costs.

    STREAMBITS_DATA=folder python -m experiments.auto [--bits 16 64] [--seeds 3] [--data sift]

The truth: ssbc and linear learn a whole stream, and held-out queries search it. R10@10 and R10@100
are the shares of the true ten nearest among the first 10 and 100 answers. The choice is made on the
first 5,000 rows. Its cost is relative to learning 20,000 rows with ssbc, timed in turn with it; the
best of three of each.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import streambits as sb
from paper import datasets
from streambits.methods.choose import Choice, choose_features

QUERIES, K, DEPTHS = 1000, 10, (10, 100)
FIRST, LANDMARKS, LEARNED, TIMES = 5000, 500, 20000, 3
Rows = NDArray[np.float32]


class Case(NamedTuple):
    """Recalls of (R10@10, R10@100), the choice, and its relative cost."""

    ssbc: NDArray[np.float64]
    linear: NDArray[np.float64]
    choice: Choice
    cost: float

    @property
    def loss(self) -> float:
        """By how much the choice is worse than the other, in the worse of the two measures."""
        better = self.linear - self.ssbc
        return float(max(0.0, *(-better if self.choice.method == "linear" else better)))


def stream(name: str, seed: int) -> tuple[Rows, Rows]:
    """Held-out queries, and all other rows in random order."""
    rows = np.asarray(datasets.load(name, seed=seed), np.float32)
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
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


def recalls(
    learner: sb.Learner, queries: Rows, rows: Rows, truth: NDArray[np.intp]
) -> NDArray[np.float64]:
    """The recalls of the codes of a whole stream; zeros where there are none of this length."""
    try:
        coder = learner.learn(rows).coder()
    except sb.errors.RankError:
        return np.zeros(len(DEPTHS))
    index = sb.HammingIndex(learner.bits)
    index.add(coder.encode(rows))
    ids = index.search(coder.encode(queries), max(DEPTHS)).ids
    hit = (ids[:, :, None] == truth[:, None, :]).any(axis=2)
    return np.array([hit[:, :depth].sum(axis=1).mean() / K for depth in DEPTHS])


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cost(rows: Rows, landmarks: Rows, bits: int, seed: int) -> float:
    """The time of the choice over that of learning 20,000 rows with ssbc, timed in turn."""
    learner = sb.ssbc(landmarks, bits, epochs="never")
    pairs = [
        (
            seconds(lambda: choose_features(rows[:FIRST], bits, seed=seed)),
            seconds(lambda: learner.learn(rows[:LEARNED])) * LEARNED / len(rows[:LEARNED]),
        )
        for _ in range(TIMES)
    ]
    choosing, learning = np.min(pairs, axis=0)
    return float(choosing / learning)


def measure(name: str, lengths: list[int], seed: int) -> Iterator[tuple[int, Case]]:
    """A case for each length of codes of which there are linear ones."""
    queries, rows = stream(name, seed)
    truth = nearest(queries, rows)
    landmarks = sb.reservoir([rows[:FIRST]], LANDMARKS, seed=seed)
    for bits in (bits for bits in lengths if bits <= rows.shape[1]):
        choice = choose_features(rows[:FIRST], bits, seed=seed)
        kernel = sb.ssbc(landmarks, bits, epochs="never", seed=seed)
        linear = sb.methods.linear(landmarks, bits, seed=seed)
        found = [recalls(learner, queries, rows, truth) for learner in (kernel, linear)]
        yield bits, Case(found[0], found[1], choice, cost(rows, landmarks, bits, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", type=int, nargs="*", default=[16, 32, 64, 128])
    parser.add_argument("--seeds", type=int, default=3)
    names = ["uniform", "covtype", "cbm", "dsads", "sift", "mnist"]
    parser.add_argument("--data", nargs="*", default=names)
    options = parser.parse_args()
    print("| data | seed | bits | R10@10: ssbc | linear | R10@100: ssbc | linear |", end=" ")
    print("chosen | measured: ssbc | linear | loss | cost |")
    print("|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|")
    losses, costs = [0.0], [0.0]
    for name in filter(datasets.available, options.data):
        for seed in range(options.seeds):
            for bits, case in measure(name, options.bits, seed):
                losses.append(case.loss)
                costs.append(case.cost)
                truth = np.stack([case.ssbc, case.linear], axis=1).ravel()
                print(f"| {name} | {seed} | {bits} |", *(f"{one:.3f} |" for one in truth), end=" ")
                seen = (case.choice.ssbc, case.choice.linear)
                shown = " | ".join("" if one is None else f"{one:.3f}" for one in seen)
                print(f"{case.choice.method} | {shown} | {case.loss:.3f} | {case.cost:.2f} |")
    print(f"largest loss {max(losses):.3f}, largest cost {max(costs):.2f}, {len(losses) - 1} cases")


if __name__ == "__main__":
    main()
