"""Memory over a long stream: `nbytes` constant, the traced peak flat after the warm-up.

python benchmarks/memory.py [--rows 1000000]
"""

import argparse
import tracemalloc

import numpy as np

import streambits as sb

COLUMNS, LANDMARKS, BITS, BATCH, STEPS = 54, 500, 64, 5000, 5


def peak_over(learner: sb.Learner, rng: np.random.Generator, rows: int) -> int:
    """The traced peak while learning and encoding `rows` rows."""
    tracemalloc.reset_peak()
    for _ in range(rows // BATCH):
        batch = rng.standard_normal((BATCH, COLUMNS), dtype=np.float32)
        learner.learn(batch)
        learner.coder().encode(batch[:100])
    return tracemalloc.get_traced_memory()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    tracemalloc.start()
    rng = np.random.default_rng(0)
    train = rng.standard_normal((LANDMARKS, COLUMNS), dtype=np.float32)
    learner = sb.ssbc(train, BITS)
    held = learner.nbytes
    first = peak_over(learner, rng, options.rows // STEPS)
    print(f"{'rows':>10} {'nbytes':>12} {'peak':>12} {'against warm-up':>16}")
    print(f"{learner.seen:10,} {learner.nbytes:12,} {first:12,}")
    while learner.seen < options.rows:
        peak = peak_over(learner, rng, options.rows // STEPS)
        print(f"{learner.seen:10,} {learner.nbytes:12,} {peak:12,} {peak / first - 1:16.3%}")
    print(f"nbytes constant from construction: {learner.nbytes == held}")


if __name__ == "__main__":
    main()
