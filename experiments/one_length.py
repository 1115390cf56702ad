"""Rows of one length: what it is worth to rank decoded rows as if they had that length.

    STREAMBITS_DATA=folder python -m experiments.one_length [text.npz ...] [--seeds 3]

SIFT, and files of embeddings (`experiments/text_embeddings.py`), brought to length one. The share
of the true ten nearest among the first ten answers, of 500 queries that are held out, by the
default metric; all codes are ranked. `as decoded` compares decoded rows as they are.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streambits as sb
from experiments.bytes import K, Task, learned, nearest, recall
from paper import datasets

QUERIES = 500
CODES: dict[str, dict[str, Any]] = {
    "product, 8 bytes": {"method": "product", "refine": 8},
    "product, 16 bytes": {"method": "product", "refine": 16},
    "product, 48 bytes": {"method": "product", "refine": 48},
    "ssbc, 64 bits + 8 bytes": {"method": "ssbc", "refine": 8},
    "linear, 128 bits + 16 bytes": {"method": "linear", "bits": 128, "refine": 16},
}
Rows = NDArray[np.float32]


def tasks(files: list[Path]) -> Iterator[tuple[str, Rows]]:
    if datasets.available("sift"):
        yield "SIFT", datasets.stream("sift", *datasets.SIZES["sift"], seed=0).rows
    for path in files:
        with np.load(path, allow_pickle=False) as held:
            rows = np.asarray(held["X"], np.float32)
        yield path.stem, rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


def recalls(task: Task, settings: sb.Settings) -> list[float]:
    """As decoded, and at one length."""
    coder, index = learned(settings, task)
    true = nearest(task.queries.astype(np.float64), task.rows.astype(np.float64))
    return [
        recall(index.search(one.queries(task.queries), K, candidates="all").ids, true)
        for one in (as_decoded(coder), coder)
    ]


def as_decoded(coder: sb.Coder) -> sb.Coder:
    """The coder without the length that its rows have."""
    assert coder.refinement is not None
    assert coder.refinement.length > 0
    plain = replace(coder.refinement, length=0.0)
    return sb.Coder(coder.features, coder.projection, coder.epoch, plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print("| data | code | as decoded | at one length | gained |\n|---|---|---:|---:|---:|")
    for name, rows in tasks(options.files):
        for code, settings in CODES.items():
            each = []
            for seed in range(options.seeds):
                order = np.random.default_rng(seed).permutation(len(rows))
                asked, held = rows[order[:QUERIES]], rows[order[QUERIES:]]
                task = Task(held, held, asked, seed)
                each.append(recalls(task, sb.Settings(seed=seed, **settings)))
            before, after = np.mean(each, axis=0)
            gained = f"{after - before:+.3f}"
            print(f"| {name} | {code} | {before:.3f} | {after:.3f} | {gained} |", flush=True)


if __name__ == "__main__":
    main()
