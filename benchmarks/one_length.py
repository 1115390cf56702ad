"""Rows of one length: what it costs to rank decoded rows at that length, beside ranking as decoded.

    STREAMBITS_DATA=folder python -m benchmarks.one_length [--codes 280000]

SIFT, made more by noise of 1 in every column. `ratio` is the time per query of ranking at one
length over that of distances, in turns, one thread; candidates are the default, or all codes.
"""

import argparse
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import streambits as sb
from benchmarks.timer import figures, in_turns, machine
from experiments.one_length import as_decoded
from paper import datasets

QUERIES, K, ROUNDS = 100, 10, 5
CODES: dict[str, dict[str, Any]] = {
    "product, 16 bytes": {"method": "product", "refine": 16},
    "linear, 64 bits + 8 bytes": {"method": "linear", "refine": 8},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=int, default=280_000)
    options = parser.parse_args()
    rows, rng = datasets.load("sift").astype(np.float32), np.random.default_rng(0)
    places = rng.integers(len(rows), size=options.codes)
    held = rows[places] + rng.standard_normal((options.codes, rows.shape[1]), np.float32)
    print(f"{machine()}\n{options.codes:,} codes, one thread\n")
    print("| code | candidates | as decoded, ms | at one length, ms | ratio |")
    print("|---|---|---:|---:|---:|")
    for name, settings in CODES.items():
        coder = sb.Settings(**settings).learner([rows[:5000]]).learn(rows).coder()
        index = sb.HammingIndex(coder.bits)
        index.add(coder.encode(held))
        for candidates in (None, "all") if coder.bits else ("all",):
            with threadpool_limits(1, user_api="blas"):
                works = [
                    partial(index.search, one.queries(rows[:QUERIES] + 1), K, candidates=candidates)
                    for one in (as_decoded(coder), coder)
                ]
                before, after = in_turns(*works, rounds=ROUNDS, repeats=1)
            cells = (figures(1000 * each.per(QUERIES).best) for each in (before, after))
            asked = "the default" if candidates is None else "all"
            print(f"| {name} | {asked} | {' | '.join(cells)} | {after.over(before)} |", flush=True)


if __name__ == "__main__":
    main()
