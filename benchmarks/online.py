"""What the online setting costs: `encode_online` against `learn` and `encode` one after the other.

    python benchmarks/online.py

100,000 rows of 54 columns, 500 landmarks, 64 bits, in batches of several sizes; each round does
both in turn, and the figure is the median of the ratios of rows per second. The coder that `encode`
needs is made outside of the clock; the coders of the online setting are inside.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np

import streambits as sb

ROWS, COLUMNS, LANDMARKS, BITS, ROUNDS = 100_000, 54, 500, 64, 7


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    rows = np.random.default_rng(0).random((ROWS, COLUMNS), dtype=np.float32)
    landmarks = rows[:LANDMARKS]

    def batches(size: int) -> Iterator[np.ndarray]:
        return (rows[i : i + size] for i in range(0, ROWS, size))

    def apart() -> float:
        learner = sb.ssbc(landmarks, BITS)
        learned = seconds(lambda: learner.learn(rows))
        coder = learner.coder()
        return learned + seconds(lambda: coder.encode(rows))

    def online(size: int, refresh: str | int) -> float:
        learner = sb.ssbc(landmarks, BITS)
        return seconds(lambda: list(sb.encode_online(learner, batches(size), refresh=refresh)))

    apart()
    print("| batch | refresh | seconds | rows per second over learn and encode |")
    print("|---:|---|---:|---:|")
    for size, refresh in ((ROWS, "auto"), (8192, "auto"), (1000, "auto"), (8192, 500)):
        rounds = range(ROUNDS if refresh == "auto" else 1)
        alone, both = np.array([(apart(), online(size, refresh)) for _ in rounds]).T
        print(f"| {size} | {refresh} | {np.median(both):.2f} | {np.median(alone / both):.2f} |")


if __name__ == "__main__":
    main()
