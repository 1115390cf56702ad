"""The same code on a CUDA device: bit-identical codes, and rows a second beside the host's.

    python benchmarks/gpu.py [--device cuda] [--rows 2000000]

Needs torch, which is not among the project's dependencies. The learner is built from torch
tensors on the device; nothing else changes.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]

import streambits as sb

COLUMNS, LANDMARKS, BITS = 54, 500, 64


def timed(work: Callable[[], object], rounds: int = 3) -> float:
    """The shortest time, with the device's queue empty before and after."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=2_000_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((options.rows, COLUMNS), dtype=np.float32) @ np.diag(
        1 / np.sqrt(np.arange(1, COLUMNS + 1, dtype=np.float32))
    )
    there = torch.asarray(rows, device=options.device)
    train, train_there = rows[:LANDMARKS], there[:LANDMARKS]

    learner, learner_there = sb.ssbc(train, BITS), sb.ssbc(train_there, BITS)
    host = timed(lambda: learner.learn(rows[:200_000]), 1) / 200_000
    device = timed(lambda: learner_there.learn(there), 1) / options.rows
    print(
        f"learn    host {1 / host:14,.0f} rows/s   {options.device} {1 / device:14,.0f} rows/s   "
        f"ratio {host / device:.1f}"
    )

    coder = learner.coder()
    coder_there = coder.on(there)
    codes = coder.encode(rows[:200_000])
    equal = codes == coder_there.encode(there[:200_000])
    host = timed(lambda: coder.encode(rows[:200_000])) / 200_000
    device = timed(lambda: coder_there.encode(there)) / options.rows
    print(
        f"encode   host {1 / host:14,.0f} rows/s   {options.device} {1 / device:14,.0f} rows/s   "
        f"ratio {host / device:.1f}"
    )
    print(f"the codes of 200,000 rows are the same bits on both: {equal}")
    learned = learner_there.coder()
    again = sb.ssbc(train, BITS).learn(rows[:20_000]).coder().encode(rows[:1000])
    same = sb.ssbc(train_there, BITS).learn(there[:20_000]).coder().encode(there[:1000])
    share = float((again.unpack() == same.unpack()).mean())
    print(f"bits equal when learned on either: {share:.4%}; {learned!r}")


if __name__ == "__main__":
    main()
