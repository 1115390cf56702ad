"""BitBudget: what our codes keep of the answers on text embeddings, per byte, by its `evaluate`.

    python -m benchmarks.outside.bitbudget text.npz [more.npz] [--bytes 16 32 48] [--seeds 3]

A file has rows `X`, of which 500 are taken out as queries, another 500 for every seed; or what
`bitbudget embed` wrote for a corpus of BEIR, with its own queries and judgements. Rows should be
embeddings of texts; `experiments/text_embeddings.py` makes some.

What `bitbudget.evaluate` measures (read in version 0.3.1): the share of the ten rows with the
largest inner products in float32 that are among the first ten by a method's scores, averaged over
queries; rows of its embedders have length one, so that is the order of angles. Bytes are those per
stored row: neither ids nor what is shared by all rows (codebooks, rotations) count, for anybody.
`pq` finds its centres on 16,384 of the rows that are searched; `rabitq` is signs after a random
rotation and `binary-mean` signs around the mean, one bit per column, and have no other length.
FAISS OPQ, which BitBudget does not have, is trained on as many rows as `pq`.

Ours are product codes with no further settings (rows are of length one, so all metrics have one
order of answers), which see every row once and keep a sample of 5,000:
"streambits" encodes when the whole stream was seen, as the others do; "streambits, online" is a
`StreamIndex`, whose first rows are encoded by what was known then.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import bitbudget
import faiss
import numpy as np
from numpy.typing import NDArray

import streambits as sb

QUERIES, K, BATCH = 500, 10, 1000
TRAINED = 16_384  # rows that `pq` sees
BY_BITS = ("rabitq", "binary-mean")
FOUND = 100  # answers that get a score: more than any of its metrics looks at
Rows = NDArray[np.float32]
Scores = NDArray[np.float64]
Scorer = Callable[[Rows, Rows], tuple[Scores, float]]


class Corpus(NamedTuple):
    """Rows to be searched, queries, and what BitBudget calls their names and judgements."""

    rows: Rows
    queries: Rows
    names: list[str]
    asked: list[str]
    judged: dict[str, dict[str, int]]


def settings(n_bytes: int, seed: int = 0) -> sb.Settings:
    """Our best code of so many bytes: no sign bits, all bytes a product code."""
    return sb.Settings(method="product", refine=n_bytes, seed=seed)


def after_learning(chosen: sb.Settings) -> Scorer:
    """Codes of all rows by the model of all rows."""

    def score(rows: Rows, queries: Rows) -> tuple[Scores, float]:
        learner = chosen.learner([rows[:BATCH]])
        for batch in batches(rows):
            learner.learn(batch)
        coder = learner.coder()
        codes, index = coder.encode(rows), sb.HammingIndex(coder.bits)
        index.add(codes)
        hits = index.search(coder.queries(queries), min(FOUND, len(rows)))
        return as_scores(hits, len(rows)), stored(codes)

    return score


def online(chosen: sb.Settings) -> Scorer:
    """Codes of rows as they come, by the model of that moment."""

    def score(rows: Rows, queries: Rows) -> tuple[Scores, float]:
        index = sb.StreamIndex(chosen)
        for batch in batches(rows):
            index.add(batch)
        scores = as_scores(index.search(queries, min(FOUND, len(rows))), len(rows))
        if index.waiting:  # fewer rows than it gathers before its first model: they are raw
            return scores, float(rows[0].nbytes)
        return scores, stored(index.encode(rows[:1]))

    return score


def batches(rows: Rows) -> Iterable[Rows]:
    return (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))


def as_scores(hits: sb.Hits, count: int) -> Scores:
    """Similarities (queries, count), as BitBudget wants them: minus infinity for no answers."""
    scores = np.full((len(hits), count), -np.inf)
    np.put_along_axis(scores, hits.ids, -hits.distances, axis=1)
    return scores


def stored(codes: sb.Codes) -> float:
    """All bytes of a code."""
    return float(codes.packed.shape[1] + codes.refine)


def pq(n_bytes: int) -> Scorer:
    """BitBudget's own product code, of another length than its default."""

    def score(rows: Rows, queries: Rows) -> tuple[Scores, float]:
        found: tuple[Scores, float] = bitbudget.METHODS["pq"](rows, queries, m=n_bytes)
        return found

    return score


def opq(n_bytes: int) -> Scorer:
    """FAISS's product code after a rotation that it has learned."""

    def score(rows: Rows, queries: Rows) -> tuple[Scores, float]:
        columns = -(-rows.shape[1] // n_bytes) * n_bytes  # which the bytes must divide
        index = faiss.index_factory(
            rows.shape[1], f"OPQ{n_bytes}_{columns},PQ{n_bytes}x8", faiss.METRIC_INNER_PRODUCT
        )
        index.train(rows[:TRAINED])
        index.add(rows)
        decoded = index.reconstruct_n(0, len(rows))
        return (queries @ decoded.T).astype(np.float64), float(n_bytes)

    return score


def contestants(sizes: list[int], seed: int) -> dict[str, Scorer]:
    """What is compared, by name; BitBudget has its codes of bits without us."""
    found: dict[str, Scorer] = {}
    for size in sizes:
        found[f"streambits, {size} bytes"] = after_learning(settings(size, seed))
        found[f"streambits, online, {size} bytes"] = online(settings(size, seed))
        found[f"pq, {size} bytes"] = pq(size)
        found[f"FAISS OPQ, {size} bytes"] = opq(size)
    return found


def load(path: Path, seed: int) -> Corpus:
    """The rows of a file, all of length one, and queries that are not among them."""
    with np.load(path, allow_pickle=False) as held:
        if "demb" in held:
            judged = json.loads(str(held["qrels"]))
            names, asked = ([str(name) for name in held[key]] for key in ("cids", "qids"))
            return Corpus(held["demb"], held["qemb"], names, asked, judged)
        rows = np.asarray(held["X"], np.float32)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    queries, rows = rows[:QUERIES], rows[QUERIES:]
    names, asked = [str(i) for i in range(len(rows))], [f"q{i}" for i in range(len(queries))]
    return Corpus(rows, queries, names, asked, {})


def judge(corpus: Corpus, sizes: list[int], seed: int = 0) -> dict[str, dict[str, Any]]:
    """What BitBudget says of every contestant, by name."""
    ours = contestants(sizes, seed)
    for name, scorer in ours.items():
        bitbudget.method(name, axis="quantisation")(scorer)
    try:
        found = bitbudget.evaluate(
            *(corpus.rows, corpus.queries, corpus.names, corpus.asked, corpus.judged),
            methods=[*ours, *BY_BITS, "float32"],
            recall_k=K,
        )
    finally:
        for name in ours:
            del bitbudget.METHODS[name]
    return {result["method"]: result for result in found}


def lines(path: Path, sizes: list[int], seeds: int) -> Iterable[str]:
    """The lines of one file in the table: means over the seeds."""
    judged = [judge(load(path, seed), sizes, seed) for seed in range(seeds)]

    def mean(name: str) -> float:
        return float(np.mean([found[name]["recall"] for found in judged]))

    for size in sizes:
        names = ("streambits", "streambits, online", "pq", "FAISS OPQ")
        figures = [mean(f"{name}, {size} bytes") for name in names]
        same = judged[0][BY_BITS[0]]["bytes"] == size
        figures += [mean(name) for name in BY_BITS] if same else []
        cells = [f"{figure:.3f}" for figure in figures] + ["-"] * (6 - len(figures))
        counted = judged[0][f"streambits, {size} bytes"]["bytes"]
        ahead = f"{figures[0] - max(figures[2:]):+.3f}"
        yield f"| {path.stem} | {counted:.0f} | {' | '.join(cells)} | {ahead} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--bytes", type=int, nargs="*", default=[16, 32, 48])
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    columns = ("streambits", "streambits, online", "`pq`", "FAISS OPQ", "`rabitq`", "`binary-mean`")
    print(f"| text | bytes | {' | '.join(columns)} | ahead of the best by |")
    print(f"|---|---:|{'---:|' * len(columns)}---:|", flush=True)
    for path in options.files:
        for line in lines(path, options.bytes, options.seeds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
