"""Recall against bytes: the true ten nearest among the first ten answers, at equal bytes per row.

    STREAMBITS_DATA=folder python -m experiments.bytes [--bytes 8 16] [--seeds 3] [--data sift]

Rows are the paper's streams. Queries are rows that were taken out of them: they are neither among
the rows searched nor among those fitted to. All bytes that are stored per row count, but not the
id. Learners see the stream once and keep a uniform sample of 5,000 rows; FAISS is trained on the
same sample. FAISS PQ and OPQ want a number of columns that the bytes divide: rows are padded with
columns of zeros, which change no distance. RaBitQ has one length, a bit per column and 8 bytes; it
stands in a line of its own, beside our codes of as many bytes.

Refined codes have half of their bytes as sign bits (at most 64 bits) and rank 300 candidates by
Hamming distance, or all codes; or they have a quarter as sign bits and rank a tenth of all codes.
Their features are those that `method="auto"` chooses.
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

import streambits as sb
from paper import datasets

QUERIES, K, CANDIDATES = 300, 10, 300
FIRST = 5000  # rows from which landmarks are drawn, and features chosen
Rows = NDArray[np.float32]
Found = NDArray[np.int64]


class Task(NamedTuple):
    """rows: to be searched; sample: of them; queries; seed."""

    rows: Rows
    sample: Rows
    queries: Rows
    seed: int


def nearest(queries: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.intp]:
    """The K nearest rows of each query, in any order."""
    far = np.einsum("ij,ij->i", rows, rows) - 2 * queries @ rows.T
    return np.argpartition(far, K, axis=1)[:, :K]


def recall(found: NDArray[np.intp], truth: NDArray[np.intp]) -> float:
    shared = [len(set(a) & set(b)) for a, b in zip(found.tolist(), truth.tolist(), strict=True)]
    return float(np.mean(shared)) / K


def learned(settings: sb.Settings, task: Task) -> tuple[sb.Coder, sb.HammingIndex]:
    """The coder of the whole stream, and an index of its codes."""
    coder = settings.learner([task.rows[:FIRST]]).learn(task.rows).coder()
    index = sb.HammingIndex(coder.bits)
    index.add(coder.encode(task.rows))
    return coder, index


def product(task: Task, count: int) -> Found:
    settings = sb.Settings(method="product", refine=count, epochs="never", seed=task.seed)
    coder, index = learned(settings, task)
    return index.search(coder.queries(task.queries), K).ids


def refined(share: float, candidates: int | str | None) -> Callable[[Task, int], Found]:
    """Codes with a share of their bytes as sign bits; candidates: None for a tenth of all codes."""

    def search(task: Task, count: int) -> Found:
        signs = min(int(share * count), 8)
        settings = sb.Settings(8 * signs, refine=count - signs, epochs="never", seed=task.seed)
        coder, index = learned(settings, task)
        ranked = len(index) // 10 if candidates is None else candidates
        return index.search(coder.queries(task.queries), K, candidates=ranked).ids

    return search


def signs(method: str, *, real: bool) -> Callable[[Task, int], Found]:
    """Codes of 8 bits per byte, searched by bits or by the real values of the queries."""

    def search(task: Task, count: int) -> Found:
        settings = sb.Settings(8 * count, method, epochs="never", seed=task.seed)
        coder, index = learned(settings, task)
        asked = coder.project(task.queries) if real else coder.encode(task.queries)
        return index.search(asked, K).ids

    return search


def from_faiss(name: str) -> Callable[[Task, int], Found]:
    def search(task: Task, count: int) -> Found:
        padding = ((0, 0), (0, -task.rows.shape[1] % count))
        rows, sample, asked = (np.pad(part, padding) for part in task[:3])
        return answers(faiss.index_factory(rows.shape[1], name.format(count)), rows, sample, asked)

    return search


def rabitq(task: Task, count: int) -> Found:
    if count != rabitq_bytes(task.rows.shape[1]):
        raise sb.errors.InputError("RaBitQ has one length")
    index: Any = faiss.index_factory(task.rows.shape[1], "RR,RaBitQ")
    own: Any = faiss.downcast_index(index.index)
    own.qb = 0  # queries stay as they are: its best ranking
    return answers(index, *task[:3])


def answers(index: faiss.Index, rows: Rows, sample: Rows, asked: Rows) -> Found:
    index.train(sample)
    index.add(rows)
    found: Found = index.search(asked, K)[1]
    return found


def rabitq_bytes(columns: int) -> int:
    return -(-columns // 8) + 8


CONTESTANTS: dict[str, Callable[[Task, int], Found]] = {
    "product (ours)": product,
    "refined, 300 candidates (ours)": refined(0.5, CANDIDATES),
    "refined, all (ours)": refined(0.5, "all"),
    "refined, a quarter signs, a tenth (ours)": refined(0.25, None),
    "FAISS PQ": from_faiss("PQ{}x8"),
    "FAISS OPQ": from_faiss("OPQ{0},PQ{0}x8"),
    "FAISS RaBitQ": rabitq,
    "ssbc, Hamming": signs("ssbc", real=False),
    "ssbc, real-valued": signs("ssbc", real=True),
}


def task_of(name: str, seed: int) -> tuple[Task, NDArray[np.intp]]:
    """A stream, and the true neighbours of its queries."""
    stream = datasets.stream(name, *datasets.SIZES[name], seed=seed).rows
    drawn = np.random.default_rng(seed).permutation(len(stream))
    asked, rows = (
        np.ascontiguousarray(stream[places], np.float32)
        for places in (drawn[:QUERIES], np.sort(drawn[QUERIES:]))
    )
    learner = sb.Settings(method="product", epochs="never", seed=seed).learner([rows[:FIRST]])
    sample = np.ascontiguousarray(learner.learn(rows).sample, np.float32)
    truth = nearest(asked.astype(np.float64), rows.astype(np.float64))
    return Task(rows, sample, asked, seed), truth


Contestants = dict[str, Callable[[Task, int], Found]]


def measure(name: str, count: int | None, seed: int, chosen: Contestants) -> list[float]:
    """The recall of each contestant on one stream; NaN where it has no such code."""
    task, truth = task_of(name, seed)
    size = rabitq_bytes(task.rows.shape[1]) if count is None else count
    found = [float(size)]
    for search in chosen.values():
        try:
            found.append(recall(search(task, size), truth))
        except sb.errors.InputError:  # it has no codes of this length
            found.append(float("nan"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, nargs="*", default=[8, 16])
    parser.add_argument("--rabitq", action="store_true", help="also at the length of RaBitQ")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data", nargs="*", default=list(datasets.SIZES))
    parser.add_argument("--only", default="", help="contestants with this in their names")
    options = parser.parse_args()
    chosen = {name: search for name, search in CONTESTANTS.items() if options.only in name}
    print("| data | bytes |", " | ".join(chosen), "|")
    print("|---|---:|" + "---:|" * len(chosen))
    for name in filter(datasets.available, options.data):
        for count in (*options.bytes, *([None] if options.rabitq else [])):
            found = [measure(name, count, seed, chosen) for seed in range(options.seeds)]
            size, *means = np.mean(found, axis=0)
            cells = ("-" if np.isnan(mean) else f"{mean:.3f}" for mean in means)
            print(f"| {name} | {size:.0f} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
