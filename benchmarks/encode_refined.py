"""Rows per second of refined codes beside plain ones, and what their first coder takes.

    python -m benchmarks.encode_refined

54 columns, 500 landmarks, 64 bits, 8 bytes; the best of five, in turns, in one run.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import streambits as sb

COLUMNS, LANDMARKS, ROWS, ROUNDS = 54, 500, 200_000, 5
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "refined": {"refine": 8},
    "certified": {"refine": 8, "certified": True},
}


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((COLUMNS, COLUMNS)) * 0.9 ** np.arange(COLUMNS)[:, None]
    rows = (rng.standard_normal((ROWS, COLUMNS)) @ mixing).astype(np.float32)
    coders = {}
    for name, more in KINDS.items():
        learner = sb.ssbc(rows[:LANDMARKS], 64, epochs="never", **more).learn(rows[:20_000])
        print(f"{name}: first coder {seconds(learner.coder):.2f} s")
        coders[name] = learner.coder()
        coders[name].encode(rows[:5000])
    best = dict.fromkeys(coders, float("inf"))
    for _ in range(ROUNDS):
        for name, coder in coders.items():
            best[name] = min(best[name], seconds(partial(coder.encode, rows)))
    for name, took in best.items():
        rate = f"{ROWS / took / 1e6:.2f} million rows per second"
        print(f"{name}: {rate}, {best['plain'] / took:.2f} of plain")


if __name__ == "__main__":
    main()
