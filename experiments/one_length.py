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
from paper import datasets

QUERIES, K, BATCH = 500, 10, 1000
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


def recalls(rows: Rows, queries: Rows, settings: sb.Settings) -> list[float]:
    """As decoded, and at one length."""
    learner = settings.learner([rows[:5000]])
    for start in range(0, len(rows), BATCH):
        learner.learn(rows[start : start + BATCH])
    coder = learner.coder()
    index = sb.HammingIndex(coder.bits)
    index.add(coder.encode(rows))
    assert coder.refinement is not None
    assert coder.refinement.length > 0
    nowhere = replace(coder.refinement, length=0.0)
    plain = sb.Coder(coder.features, coder.projection, coder.epoch, nowhere)
    exact = rows.astype(np.float64)
    true = np.argsort(np.square(exact).sum(axis=1) - 2 * queries @ exact.T, axis=1)[:, :K]
    found = []
    for one in (plain, coder):
        ids = index.search(one.queries(queries), K, candidates="all").ids
        shared = [np.isin(mine, own).mean() for mine, own in zip(ids, true, strict=True)]
        found.append(float(np.mean(shared)))
    return found


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
                each.append(recalls(held, asked, sb.Settings(seed=seed, **settings)))
            before, after = np.mean(each, axis=0)
            gained = f"{after - before:+.3f}"
            print(f"| {name} | {code} | {before:.3f} | {after:.3f} | {gained} |", flush=True)


if __name__ == "__main__":
    main()
