"""Live recall: what `StreamIndex.recall` says, beside recall measured from outside.

    STREAMBITS_DATA=folder python -m experiments.live_recall [--data sift] [--seed 0] [--bytes N]

Rows are all of a data set but 300, which are the queries from outside; their true neighbours are
found by brute force. They come shuffled, or sorted along their first principal component.
`--bytes` is the size of the sample that the index may hold, 32 MiB by default: all rows of these
sets but MNIST. With less, recall is extrapolated.
"""

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streambits as sb
from paper import datasets
from streambits import live_recall

QUERIES, K, BATCH = 300, 10, 5000
KINDS: dict[str, dict[str, Any]] = {
    "64 bits": {"bits": 64},
    "64 bits + 8 bytes": {"bits": 64, "refine": 8},
    "product, 16 bytes": {"method": "product", "refine": 16},
}


def ordered(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows along their first principal component."""
    centred = rows - rows.mean(axis=0)
    _, _, directions = np.linalg.svd(centred[::10], full_matrices=False)
    return rows[np.argsort(centred @ directions[0], kind="stable")]


def outside(
    index: sb.StreamIndex, rows: NDArray[np.float32], queries: NDArray[np.float32]
) -> float:
    """Recall of queries that are not in the index; equally near rows are equally right."""
    held, asked = rows.astype(np.float64), queries.astype(np.float64)
    far = np.vecdot(held, held) - 2 * asked @ held.T
    radius = np.partition(far, K - 1, axis=1)[:, K - 1 : K] + 1e-9 * np.abs(far).max()
    found = index.search(queries, K).ids
    return float((np.take_along_axis(far, found, axis=1) <= radius).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["uniform", "covtype", "cbm", "dsads", "sift", "mnist"]
    parser.add_argument("--data", nargs="*", default=names)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bytes", type=int, default=live_recall.BYTES)
    options = parser.parse_args()
    live_recall.BYTES = options.bytes
    print(
        "| data | order | codes | rows | known | epochs | outside | live | interval | differs | s |"
    )
    print("|---|---|---|---:|---:|---:|---:|---:|---|---:|---:|")
    for name in filter(datasets.available, options.data):
        rows = np.asarray(datasets.load(name, seed=options.seed), np.float32)
        rows = np.random.default_rng(options.seed).permutation(rows)
        asked, held = rows[:QUERIES], rows[QUERIES:]
        for order, stream in (("shuffled", held), ("sorted", ordered(held))):
            for kind, settings in KINDS.items():
                index = sb.StreamIndex(**settings, seed=options.seed)
                for start in range(0, len(stream), BATCH):
                    index.add(stream[start : start + BATCH])
                true = outside(index, stream, asked)
                began = time.perf_counter()
                found = index.recall(K)
                spent = time.perf_counter() - began
                print(
                    f"| {name} | {order} | {kind} | {found.rows} | {found.measured} | "
                    f"{len(index.epochs)} | {true:.3f} | {found.mean:.3f} | {found.low:.3f} to "
                    f"{found.high:.3f} | {found.mean - true:+.3f} | {spent:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
