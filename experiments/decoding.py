"""How much of the rows sign bits leave over: bits one by one, and four of them together.

    STREAMBITS_DATA=folder python -m experiments.decoding [--data sift] [--rows 600 5000]

64 bits, fitted on as many rows, judged on 3,000 others: the share of the rows' variance that is
left. `together` is what `Refinement` does: a table for every half byte, in which a ridge shrinks
what bits say only together.
"""

import argparse

import numpy as np

import streambits as sb
from paper import datasets
from streambits.model import refinement

BITS, JUDGED = 64, 3000


def left_over(coder: sb.Coder, fitted: np.ndarray, judged: np.ndarray, ridge: float) -> float:
    """The share of the variance that tables leave, with this ridge on what bits say together."""
    before, refinement.TOGETHER = refinement.TOGETHER, ridge
    try:
        packed = coder.encode(fitted, warn=False).packed
        tables, offset = refinement._fitted_tables(packed, BITS, fitted.astype(np.float64))
    finally:
        refinement.TOGETHER = before
    told = refinement._looked_up(coder.encode(judged, warn=False).packed, tables) + offset
    spread = np.square(judged - fitted.mean(axis=0, dtype=np.float64)).sum()
    return float(np.square(judged - told).sum() / spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[600, 5000])
    parser.add_argument("--data", nargs="*", default=list(datasets.SIZES))
    options = parser.parse_args()
    print("| data | method | rows | one by one | together |")
    print("|---|---|---:|---:|---:|")
    for name in filter(datasets.available, options.data):
        landmarks, rows = datasets.stream(name, *datasets.SIZES[name])
        for method in ("ssbc", "linear"):
            if method == "linear" and rows.shape[1] < BITS:
                continue
            learner = sb.methods.METHODS[method](landmarks, BITS, epochs="never").learn(rows)
            coder, judged = learner.coder(), rows[-JUDGED:]
            for count in options.rows:
                cells = [
                    left_over(coder, rows[:count], judged, ridge)
                    for ridge in (1e12, refinement.TOGETHER)
                ]
                figures = " | ".join(f"{cell:.3f}" for cell in cells)
                print(f"| {name} | {method} | {count} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
