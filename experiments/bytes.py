"""Recall against bytes: the true ten nearest among the first ten answers, at equal bytes per row.

    STREAMBITS_DATA=folder python -m experiments.bytes [--bytes 8 16] [--seeds 3] [--data sift]

Rows are the paper's streams. Queries are rows that were taken out of them: they are neither among
the rows searched nor among those fitted to. All bytes that are stored per row count, but not the
id. Every contestant is fitted on the same 5,000 rows, drawn uniformly from the stream; the signs
learn from all rows, one after the other, as they do in use. FAISS PQ and OPQ want a
number of columns that the bytes divide: rows are padded with columns of zeros, which change no
distance.
"""

import argparse
from collections.abc import Callable, Iterator

import faiss
import numpy as np
from numpy.typing import NDArray

import streambits as sb
from paper import datasets
from streambits.model.quantiser import ProductQuantiser

SAMPLE, QUERIES, K = 5000, 300, 10
Rows = NDArray[np.float32]


def nearest(queries: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.intp]:
    """The K nearest rows of each query, in any order."""
    far = np.einsum("ij,ij->i", rows, rows) - 2 * queries @ rows.T
    return np.argpartition(far, K, axis=1)[:, :K]


def recall(found: NDArray[np.intp], truth: NDArray[np.intp]) -> float:
    shared = [len(set(a) & set(b)) for a, b in zip(found.tolist(), truth.tolist(), strict=True)]
    return float(np.mean(shared)) / K


def product(rows: Rows, sample: Rows, asked: Rows, count: int) -> NDArray[np.intp]:
    quantiser = ProductQuantiser.fit(sample, count)
    return nearest(asked.astype(np.float64), quantiser.decode(quantiser.encode(rows)))


def signs(build: Callable[..., sb.Learner], *, real: bool) -> Callable[..., NDArray[np.intp]]:
    """Codes of 8 bits per byte, searched by bits or by the real values of the queries."""

    def search(rows: Rows, sample: Rows, asked: Rows, count: int) -> NDArray[np.intp]:
        learner = build(sample[: min(500, len(sample))], 8 * count)
        coder = learner.learn(rows).coder()
        index = sb.HammingIndex(8 * count)
        index.add(coder.encode(rows))
        queries = coder.project(asked) if real else coder.encode(asked)
        return index.search(queries, K).ids

    return search


def from_faiss(name: str) -> Callable[..., NDArray[np.intp]]:
    def search(rows: Rows, sample: Rows, asked: Rows, count: int) -> NDArray[np.intp]:
        padding = ((0, 0), (0, -rows.shape[1] % count))
        rows, sample, asked = (np.pad(part, padding) for part in (rows, sample, asked))
        index = faiss.index_factory(rows.shape[1], name.format(count))
        index.train(sample)
        index.add(rows)
        found: NDArray[np.intp] = index.search(asked, K)[1]
        return found

    return search


CONTESTANTS: dict[str, Callable[..., NDArray[np.intp]]] = {
    "product (ours)": product,
    "FAISS PQ": from_faiss("PQ{}x8"),
    "FAISS OPQ": from_faiss("OPQ{0},PQ{0}x8"),
    "ssbc, Hamming": signs(sb.ssbc, real=False),
    "ssbc, real-valued": signs(sb.ssbc, real=True),
    "itq, real-valued": signs(sb.methods.itq, real=True),
}


def measure(name: str, count: int, seed: int) -> Iterator[tuple[str, float]]:
    """The recall of each contestant on one stream; NaN where it has no such code."""
    _, stream = datasets.stream(name, *datasets.SIZES[name], seed=seed)
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(stream))
    asked, rows = (
        np.ascontiguousarray(stream[places], np.float32)
        for places in (drawn[:QUERIES], np.sort(drawn[QUERIES:]))
    )
    sample = rows[rng.choice(len(rows), min(SAMPLE, len(rows)), replace=False)]
    truth = nearest(asked.astype(np.float64), rows.astype(np.float64))
    for contestant, search in CONTESTANTS.items():
        try:
            yield contestant, recall(search(rows, sample, asked, count), truth)
        except sb.errors.InputError:  # more bits than columns
            yield contestant, float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, nargs="*", default=[8, 16])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data", nargs="*", default=["uniform", "covtype", "cbm", "dsads", "sift"])
    options = parser.parse_args()
    print("| data | bytes |", " | ".join(CONTESTANTS), "|")
    print("|---|---:|" + "---:|" * len(CONTESTANTS))
    for name in filter(datasets.available, options.data):
        for count in options.bytes:
            found = [dict(measure(name, count, seed)) for seed in range(options.seeds)]
            means = [np.mean([one[contestant] for one in found]) for contestant in CONTESTANTS]
            print(
                f"| {name} | {count} |",
                " | ".join(f"{mean:.3f}" for mean in means),
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
