"""What searching four live epochs costs against one, for an index of the same size.

    python -m benchmarks.epochs

First the index alone: the same random codes in one epoch and in four, queries encoded and scales
known. Then all of `CoderSet.search`: rows encoded by every live coder, scales and search.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import streambits as sb
from benchmarks.timer import figures, in_turns, machine

CODES, BITS, K, ROUNDS = 4_000_000, 64, 10, 30
SHAPES = ((50, 500), (784, 1000))  # columns, landmarks


def random_codes(count: int, seed: int) -> sb.Codes:
    packed = np.random.default_rng(seed).integers(0, 256, (count, BITS // 8), dtype=np.uint8)
    return sb.Codes(packed, BITS)


def indexes(epochs: list[int]) -> tuple[sb.HammingIndex, sb.HammingIndex]:
    """The same codes: all of the last epoch, and in equal parts."""
    one, four = sb.HammingIndex(BITS, strategy="scan"), sb.HammingIndex(BITS, strategy="scan")
    codes = random_codes(CODES, 0).packed
    one.add(sb.Codes(codes, BITS, epochs[-1]))
    for epoch, part in zip(epochs, np.array_split(np.arange(CODES), 4), strict=True):
        four.add(sb.Codes(codes[part], BITS, epoch), part)
    return one, four


def of_index() -> None:
    one, four = indexes([0, 1, 2, 3])
    for count in (1, 64):
        packed = random_codes(count, 1).packed
        asked = {epoch: sb.Codes(packed, BITS, epoch) for epoch in range(4)}
        scales = dict.fromkeys(asked, np.tile(np.arange(BITS + 1.0), (count, 1)))
        show(
            f"index, {count} queries",
            partial(one.search, asked[3], K),
            partial(four.search, asked, K, scales=scales),
        )


def of_coders(columns: int, landmarks: int) -> None:
    rows = np.random.default_rng(0).random((16_000, columns), dtype=np.float32)
    learner = sb.ssbc(rows[:landmarks], BITS, seed=0)
    coders = sb.CoderSet()
    for part in np.split(rows, 4):
        learner.learn(part).renew()
        coder = learner.coder()
        coders.record(coder, part, coder.encode(part))
    alone = sb.CoderSet()
    alone.record(coder, rows, coder.encode(rows))
    one, four = indexes(list(coders))
    for count in (1, 64, 1000):
        show(
            f"all, {columns} columns, {count} queries",
            partial(alone.search, one, rows[:count], K),
            partial(coders.search, four, rows[:count], K),
        )


def show(label: str, one: Callable[[], Any], four: Callable[[], Any]) -> None:
    alone, apart = in_turns(one, four, rounds=ROUNDS, repeats=1)
    times = f"{figures(alone.median * 1e3):>8} ms, four {figures(apart.median * 1e3):>8} ms"
    print(f"{label:32} {times}, {apart.over(alone)}", flush=True)


if __name__ == "__main__":
    print(machine())
    of_index()
    for shape in SHAPES:
        of_coders(*shape)
