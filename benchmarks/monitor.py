"""What watching a stream costs: the share of learning that goes to the watch and to the sample.

    python benchmarks/monitor.py [--rows 200000]

Random rows of several shapes, given in batches; the learner's watch and its sample are timed from
within, by the clock, and the median over rounds counts. Beside it, what learning takes longer than
without `epochs="auto"`, by the fastest of the rounds of each, which is noisier.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import streambits as sb
from streambits._arrays import blocks

ROUNDS, BATCH = 7, 10_000
SHAPES = ((50, 500), (128, 1000), (784, 1000))  # columns, landmarks


def timed(work: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
    """The same, its times noted."""

    def wrapped(*given: Any) -> Any:
        start = time.perf_counter()
        found = work(*given)
        times.append(time.perf_counter() - start)
        return found

    return wrapped


def learn(rows: np.ndarray, landmarks: int, epochs: str) -> tuple[float, float, float]:
    """Seconds in all, of the watch, and of the sample."""
    learner = sb.ssbc(rows[:landmarks], 64, epochs=epochs)
    learner.coder()
    watching, sampling = list[float](), list[float]()
    learner._sample.update = timed(learner._sample.update, sampling)  # type: ignore[method-assign]
    if learner._monitor:
        learner._monitor.until = timed(learner._monitor.until, watching)  # type: ignore[method-assign]
    start = time.perf_counter()
    for part in blocks(rows, BATCH):
        learner.learn(part)
    return time.perf_counter() - start, sum(watching), sum(sampling)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    count = parser.parse_args().rows
    print(f"{count:,} rows; shares of learning in %")
    print(
        f"{'columns':>8} {'landmarks':>10} {'watch':>7} {'sample':>7} {'both':>7} {'slower by':>10}"
    )
    for columns, landmarks in SHAPES:
        rows = np.random.default_rng(0).random((count, columns), dtype=np.float32)
        pairs = [
            (learn(rows, landmarks, "never")[0], learn(rows, landmarks, "auto"))
            for _ in range(ROUNDS)
        ]
        auto = [pair[1] for pair in pairs]
        watch, sample = (
            100 * statistics.median(side[i] / side[0] for side in auto) for i in (1, 2)
        )
        slower = 100 * (min(side[0] for side in auto) / min(pair[0] for pair in pairs) - 1)
        print(
            f"{columns:8} {landmarks:10} {watch:7.1f} {sample:7.1f} {watch + sample:7.1f} "
            f"{slower:10.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
