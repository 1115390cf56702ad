"""Runbooks of the streaming track of NeurIPS'23, on our module for it, called as its runner calls.

    python -m benchmarks.outside.runbooks --made                       # as its data set random-xs
    STREAMBITS_DATA=folder python -m benchmarks.outside.runbooks --data sift mnist
    python -m benchmarks.outside.runbooks --runbook final_runbook.yaml --dataset NAME \
        --rows base.npy --queries queries.npy

A runbook is a YAML file of the track. For rows that it has none for, one of each of its kinds is
generated (clustered, expiring, sliding window: `benchmarks.runbooks`), written and read
again. The module is the file that is copied there (`big_ann_benchmarks/streambits/`), with 16 bytes
per row, and the same with raw rows kept, 100 answers ranked again by them. The figure is that of
the track: recall@10, averaged over all searches, beside the worst of them.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.outside.layouts import streaming_module
from benchmarks.runbooks import Runbook, generate, play, read, true_radii
from paper import datasets

K, QUERIES = 10, 200
KINDS = ("clustered", "expiry", "sliding_window")
PARAMS: dict[str, dict[str, Any]] = {
    "16 bytes": {},
    "16 bytes, ranked by rows": {"keep_rows": True},
}
ASKED = {"16 bytes, ranked by rows": {"rerank": 100}}
Rows = NDArray[np.float32]


class Task(NamedTuple):
    """Rows, queries, and a runbook that is for the rows in this order."""

    name: str
    rows: Rows
    queries: Rows
    runbook: Runbook


class Adapter:
    """Calls of `play` as the runner of the track makes them."""

    def __init__(self, algorithm: Any, rows: Rows) -> None:
        self.algorithm, self.ids = algorithm, np.empty(0)
        algorithm.setup("float32", len(rows), rows.shape[1])

    def add(self, rows: NDArray[Any], ids: NDArray[np.int64]) -> None:
        self.algorithm.insert(rows, ids.astype(np.uint32))

    def remove(self, ids: NDArray[np.int64]) -> None:
        self.algorithm.delete(ids.astype(np.uint32))

    def search(self, queries: NDArray[Any], k: int) -> "Adapter":
        self.algorithm.query(queries, k)
        self.ids = self.algorithm.get_results()
        return self


def made(count: int = 10_000, columns: int = 20) -> tuple[str, Rows, Rows]:
    """Rows of the size of the track's random-xs."""
    rows = np.random.default_rng(0).standard_normal((count + QUERIES, columns), dtype=np.float32)
    return f"random, {count:,} x {columns}", rows[QUERIES:], rows[:QUERIES]


def held(name: str) -> tuple[str, Rows, Rows]:
    """A data set of the paper; queries are taken out of it."""
    stream = datasets.stream(name, *datasets.SIZES[name], seed=0).rows
    order = np.random.default_rng(0).permutation(len(stream))
    queries, rows = order[:QUERIES], np.sort(order[QUERIES:])
    return name, stream[rows].astype(np.float32), stream[queries].astype(np.float32)


def tasks(name: str, rows: Rows, queries: Rows) -> Iterator[Task]:
    """One runbook of each kind, through a file of the track's format."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            generated = generate(kind, rows, dataset="rows", seed=0)
            path = Path(folder) / f"{kind}.yaml"
            generated.runbook.write(path)
            yield Task(f"{name}, {kind}", rows[generated.order], queries, read(path, "rows"))


def lines(task: Task) -> Iterator[str]:
    """The lines of a task in the table."""
    radii = true_radii(task.runbook, task.rows, task.queries, K)
    for name, params in PARAMS.items():
        module = streaming_module()
        algorithm = module.Streambits("euclidean", {"method": "product", "refine": 16, **params})
        algorithm.set_query_arguments(ASKED.get(name, {}))
        adapter = Adapter(algorithm, task.rows)
        played = play(task.runbook, task.rows, task.queries, adapter, K, radii=radii)
        more = algorithm.get_additional()
        yield (
            f"| {task.name} | {len(played.searches)} | {name} | {played.mean:.3f} "
            f"| {played.worst:.3f} | {more['epochs']} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--made", action="store_true")
    parser.add_argument("--data", nargs="*", default=[])
    parser.add_argument("--runbook", type=Path)
    parser.add_argument("--dataset", help="name in the runbook")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--queries", type=Path)
    options = parser.parse_args()
    print("| runbook | searches | streambits | recall@10, mean | worst | epochs |")
    print("|---|---:|---|---:|---:|---:|", flush=True)
    if options.runbook is not None:
        rows, queries = np.load(options.rows, mmap_mode="r"), np.load(options.queries)
        runbook = read(options.runbook, options.dataset)
        for line in lines(Task(options.runbook.stem, rows, queries, runbook)):
            print(line, flush=True)
    found = ([made()] if options.made else []) + [held(name) for name in options.data]
    for name, rows, queries in found:
        for task in tasks(name, rows, queries):
            for line in lines(task):
                print(line, flush=True)


if __name__ == "__main__":
    main()
