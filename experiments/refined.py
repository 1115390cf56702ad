"""Refined codes in a stream: handed out online, sorted, and over several epochs.

    STREAMBITS_DATA=folder python -m experiments.refined [--seeds 3] [--data sift] [--method ssbc]

R10@10: the share of the true ten nearest among the first ten answers, for 300 rows that are held
out. 64 sign bits and 8 bytes of refinement, 300 candidates by Hamming distance in every epoch.
Landmarks come from the first 5,000 rows, as in a job.

end       the whole stream learned, then encoded by the last coder
online    the first 5,000 rows learned, then every row encoded before it is learned
          (`encode_online`), over `end`
sorted    the same, rows sorted along their first principal component, over `online`
epochs    a new epoch after each quarter of the stream, over all rows encoded by the last coder;
          the stream shuffled, and sorted
"""

import argparse
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import streambits as sb
from paper import datasets
from streambits._arrays import blocks

QUERIES, K, BATCH, FIRST, CANDIDATES = 300, 10, 2000, 5000, 300
Rows = NDArray[np.float32]
Ids = NDArray[np.int64]


class Task(NamedTuple):
    """A stream, rows that are not in it, and their true neighbours, by ids of the stream."""

    rows: Rows
    ids: Ids
    queries: Rows
    truth: NDArray[np.intp]

    def sorted(self) -> "Task":
        """The same, along the first principal component."""
        centred = self.rows - self.rows.mean(axis=0)
        axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
        order = np.argsort(centred @ axis, kind="stable")
        return self._replace(rows=self.rows[order], ids=self.ids[order])

    def recall(self, coders: sb.CoderSet, index: sb.HammingIndex) -> float:
        """R10@10 of a search over all epochs."""
        found = coders.search(index, self.queries, K, candidates=CANDIDATES).ids
        pairs = zip(found.tolist(), self.truth.tolist(), strict=True)
        return float(np.mean([len(set(a) & set(b)) for a, b in pairs])) / K


def task(name: str, seed: int) -> Task:
    rows = np.ascontiguousarray(
        datasets.stream(name, *datasets.SIZES[name], seed=seed).rows, np.float32
    )
    held = np.zeros(len(rows), np.bool_)
    held[np.random.default_rng(seed).choice(len(rows), QUERIES, replace=False)] = True
    queries, rows = rows[held], rows[~held]
    far = np.square(rows, dtype=np.float64).sum(axis=1) - 2 * queries.astype(float) @ rows.T
    return Task(rows, np.arange(len(rows)), queries, np.argpartition(far, K, axis=1)[:, :K])


def new(settings: sb.Settings, given: Task) -> tuple[sb.Learner, sb.CoderSet, sb.HammingIndex]:
    return settings.learner([given.rows[:FIRST]]), sb.CoderSet(), sb.HammingIndex(settings.bits)


def at_the_end(settings: sb.Settings, given: Task) -> float:
    learner, coders, index = new(settings, given)
    coder = learner.learn(given.rows).coder()
    codes = coder.encode(given.rows)
    coders.record(coder, given.rows, codes)
    index.add(codes, given.ids)
    return given.recall(coders, index)


def online(settings: sb.Settings, given: Task) -> tuple[float, int]:
    coders, index = sb.CoderSet(), sb.HammingIndex(settings.bits)
    stream = zip(blocks(given.ids[:, None], BATCH), blocks(given.rows, BATCH), strict=True)
    batches = ((ids[:, 0], rows) for ids, rows in stream)
    for ids, codes in sb.encode_online(settings, batches, coders=coders):
        index.add(codes, ids)
    return given.recall(coders, index), len(index.epochs)


def over_epochs(settings: sb.Settings, given: Task) -> float:
    """Four epochs, each quarter encoded by the coder at its end, over all by the last coder."""
    learner, coders, index = new(replace(settings, epochs="never"), given)
    for part in np.array_split(np.arange(len(given.rows)), 4):
        learner.learn(given.rows[part])
        learner.renew() if settings.method == "ssbc" else learner.new_epoch()
        coder = learner.coder()
        codes = coder.encode(given.rows[part], warn=False)
        coders.record(coder, given.rows[part], codes)
        index.add(codes, given.ids[part])
    apart = given.recall(coders, index)
    last, again = coders.newest, sb.HammingIndex(settings.bits)
    again.add(last.encode(given.rows, warn=False), given.ids)
    return apart / given.recall(coders, again)


def measure(name: str, method: str, seed: int) -> list[float]:
    given = task(name, seed)
    bits = min(64, given.rows.shape[1]) if method == "linear" else 64
    settings = sb.Settings(bits, method, refine=8, seed=seed)
    end, (straight, _) = at_the_end(settings, given), online(settings, given)
    moved, epochs = online(settings, given.sorted())
    quarters = [over_epochs(settings, one) for one in (given, given.sorted())]
    return [end, straight / end, moved / straight, epochs, *quarters]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--method", default="ssbc")
    parser.add_argument("--data", nargs="*", default=list(datasets.SIZES))
    options = parser.parse_args()
    print("| data | end | online | sorted | epochs of it | 4 epochs, shuffled | 4 epochs, sorted |")
    print("|---|" + "---:|" * 6)
    for name in filter(datasets.available, options.data):
        found = [measure(name, options.method, seed) for seed in range(options.seeds)]
        cells = (f"{value:.3f}" for value in np.mean(found, axis=0))
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
