"""Labels: precision of supervised_ibp on MNIST and DSADS, and known latent features of made data.

    STREAMBITS_DATA=folder python -m experiments.supervised [--bits 16 32] [--seeds 3] [--made]
        [--features 4 6 8 10] [--data mnist dsads]

MNIST, DSADS: 20,000 rows are searched, of which 5,000 are labelled; 1,000 queries are held out,
neither among the rows nor among the labelled. An answer is right if it has the class of the query,
by the first 100 answers in Hamming distance (ties by id). `ssbc` and `semi_supervised` see the same
rows, the latter the same labels. supervised_ibp has at most so many bits; how many it has is beside
it. "extended" learns the first five classes first, in at most half of the bits, and then appends
bits for all: the first bits of every row are compared.

Made data: rows are sums of the features that they have, which is known, plus noise; the triplets
say which of two rows shares more features with a third. Columns of held-out codes are matched to
features, or to their opposites; the error is the share of bits that differ.
"""

import argparse
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import streambits as sb
from paper import datasets, methods

ROWS, LABELLED, QUERIES, K = 20_000, 5_000, 1_000, 100
LANDMARKS = 1_000
OLD = 5  # number of classes that are learned first where bits are appended later
SAMPLE, COLUMNS, NOISE = 800, 16, 0.3  # of the made data
Whole = NDArray[np.int64]


class Task(NamedTuple):
    """rows and their labels; queries and the labels that are wanted."""

    rows: NDArray[np.float32]
    labels: Whole
    queries: NDArray[np.float32]
    wanted: Whole


def drawn_from(name: str, seed: int) -> Task:
    rows, labels = datasets.load(name), datasets.labels(name)
    drawn = np.random.default_rng(seed).permutation(len(rows))[: QUERIES + ROWS]
    asked, found = drawn[:QUERIES], drawn[QUERIES:]
    return Task(rows[found], labels[found], rows[asked], labels[asked])


def precision(learner: sb.Learner, task: Task) -> float:
    coder = learner.coder()
    index = sb.HammingIndex(learner.bits)
    index.add(coder.encode(task.rows))
    found = index.search(coder.encode(task.queries), K).ids
    return float(np.mean(task.labels[found] == task.wanted[:, None]))


def extended(task: Task, bits: int, seed: int) -> tuple[sb.Learner, float]:
    """A learner of all classes that began with some, and the share of first bits that changed."""
    rows, labels = task.rows[:LABELLED], task.labels[:LABELLED]
    old = labels < np.unique(labels)[OLD]
    first = methods.supervised_ibp(rows[old], bits // 2, labels=labels[old], seed=seed)
    longer = methods.supervised_ibp(rows, bits, labels=labels, extends=first, seed=seed)
    before, after = (one.coder().encode(task.rows).unpack() for one in (first, longer))
    return longer, float(np.mean(before != after[:, : first.bits]))


def on_classes(name: str, bits: int, seed: int) -> str:
    task = drawn_from(name, seed)
    rows, labels = task.rows[:LABELLED], task.labels[:LABELLED]
    blind = sb.ssbc(task.rows[:LANDMARKS], bits, epochs="never", seed=seed).learn(task.rows)
    guided = methods.semi_supervised(rows, bits, labels=labels, seed=seed).learn(task.rows)
    latent = methods.supervised_ibp(rows, bits, labels=labels, seed=seed)
    longer, changed = extended(task, bits, seed)
    without, semi, ours, appended = (precision(m, task) for m in (blind, guided, latent, longer))
    return (
        f"| {name} | {bits} | {seed} | {without:.3f} | {semi:.3f} | {ours:.3f} ({latent.bits}) | "
        f"{ours - without:+.3f} | {appended:.3f} ({longer.bits}) | {changed:.4%} |"
    )


def made(features: int, seed: int) -> tuple[NDArray[np.float64], Whole, Whole]:
    """Rows, the features that they have, and triplets of the first half of them."""
    rng = np.random.default_rng(seed)
    held = (rng.random((2 * SAMPLE, features)) < 0.4).astype(np.int64)
    rows = held @ rng.standard_normal((features, COLUMNS))
    rows = rows + NOISE * rng.standard_normal(rows.shape)
    one = np.repeat(np.arange(SAMPLE), 20)
    near, far = rng.integers(SAMPLE, size=(2, len(one)))
    to_near, to_far = ((held[one] != held[other]).sum(axis=1) for other in (near, far))
    near, far = np.where(to_near > to_far, (far, near), (near, far))
    return rows, held, np.stack([one, near, far], axis=1)[to_near != to_far]


def on_made(features: int, seed: int) -> str:
    rows, held, triplets = made(features, seed)
    learner = methods.supervised_ibp(rows[:SAMPLE], 16, triplets=triplets, seed=seed)
    bits, true = learner.coder().encode(rows[SAMPLE:]).unpack(), held[SAMPLE:]
    differ = (bits[:, :, None] != true[:, None, :]).mean(axis=0)
    differ = np.minimum(differ, 1 - differ)
    error = differ[linear_sum_assignment(differ)].sum() / features
    missing = max(0, features - learner.bits) / features / 2  # a feature without a bit is a guess
    farthest = differ.min(axis=1).max()
    return f"| {features} | {seed} | {learner.bits} | {error + missing:.4f} | {farthest:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", type=int, nargs="*", default=[16, 32, 64])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--features", type=int, nargs="*", default=[4, 6, 8, 10], help="made data")
    parser.add_argument("--data", nargs="*", default=["mnist", "dsads"], help="labelled data sets")
    parser.add_argument("--made", action="store_true", help="only the made data")
    options = parser.parse_args()
    print("| features | seed | bits | error | farthest bit |\n|---:|---:|---:|---:|---:|")
    for features in options.features:
        for seed in range(options.seeds):
            print(on_made(features, seed), flush=True)
    if options.made:
        return
    print("\n| data | bits | seed | ssbc | semi_supervised | supervised_ibp (bits) | ", end="")
    print("above ssbc | extended (bits) | old bits changed |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in filter(datasets.available, options.data):
        for bits in options.bits:
            for seed in range(options.seeds):
                print(on_classes(name, bits, seed), flush=True)


if __name__ == "__main__":
    main()
