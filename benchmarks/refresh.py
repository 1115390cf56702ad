"""What a coder costs, in rows of learning: the first one, and every later one after more rows.

    python benchmarks/refresh.py

Both sizes that the bars are for, and refined codes. In each round a learner learns rows against the
clock, gives its first coder, and then, several times, a coder after more rows. Figures are medians,
over the median time of learning a row in the same run.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import streambits as sb

SIZES = ((54, 500, 64), (384, 1000, 128))  # columns, landmarks, bits
ROWS, MORE, LATER, ROUNDS = 40_000, 5000, 4, 5


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(columns: int, landmarks: int, bits: int, refine: int) -> tuple[float, float, float]:
    """Seconds of a row learned, the first coder, and a later one."""
    rows = np.random.default_rng(0).random((ROWS, columns), dtype=np.float32)
    learned, first, later = [], [], []
    for _ in range(ROUNDS):
        learner = sb.ssbc(rows[:landmarks], bits, refine=refine, epochs="never")
        learned.append(seconds(partial(learner.learn, rows)) / ROWS)
        first.append(seconds(learner.coder))
        for place in range(0, LATER * MORE, MORE):
            learner.learn(rows[place : place + MORE])
            later.append(seconds(learner.coder))
    return float(np.median(learned)), float(np.median(first)), float(np.median(later))


def main() -> None:
    measure(*SIZES[0], refine=0)  # threads start, kernels are compiled
    print("| columns | landmarks | bits | refine | coder | ms | rows of learning |")
    print("|---:|---:|---:|---:|---|---:|---:|")
    for size in SIZES:
        for refine in (0, 8):
            row, *coders = measure(*size, refine=refine)
            for name, taken in zip(("first", "later"), coders, strict=True):
                facts = " | ".join(map(str, (*size, refine, name)))
                print(f"| {facts} | {1e3 * taken:.1f} | {taken / row:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
