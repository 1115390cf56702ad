"""What watching a stream costs: learning with and without `epochs="auto"`, in turns.

    python benchmarks/watch.py

Random rows of several shapes; the time of learning alone (no coder is read), best of rounds.
"""

import time

import numpy as np

import streambits as sb

ROUNDS, ROWS = 7, 60_000


def seconds(rows: np.ndarray, landmarks: int, epochs: str) -> float:
    learner = sb.ssbc(rows[:landmarks], 64, epochs=epochs)
    learner.coder()
    start = time.perf_counter()
    learner.learn(rows)
    return time.perf_counter() - start


def main() -> None:
    print(f"{'columns':>8} {'landmarks':>10} {'never s':>8} {'auto s':>8} {'more %':>7}")
    for columns, landmarks in ((50, 500), (128, 1000), (784, 1000)):
        rows = np.random.default_rng(0).random((ROWS, columns), dtype=np.float32)
        times = [
            (seconds(rows, landmarks, "never"), seconds(rows, landmarks, "auto"))
            for _ in range(ROUNDS)
        ]
        never, auto = (min(side) for side in zip(*times, strict=True))
        more = 100 * (auto / never - 1)
        print(f"{columns:8} {landmarks:10} {never:8.3f} {auto:8.3f} {more:7.1f}", flush=True)


if __name__ == "__main__":
    main()
