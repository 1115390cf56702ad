"""How the time of `learn` and `encode` grows, each setting over a factor of 32, and the memory.

    python -m benchmarks --only growth

The exponent e of time ~ setting ** e, by least squares of the logarithms; beside it that of the
last doubling, for short works are flattened by what they cost at any size. All settings but one
are those of BASE. The sketches that were used are named in the order of the values: where they
change, one exponent says little. Memory is the peak that tracemalloc sees while rows are learned,
beyond what was held before: NumPy's arrays included, the rows themselves left out.
"""

import tracemalloc
from typing import Any

import numpy as np

import streambits as sb
from benchmarks.timer import Shape, Timing, figures, in_turns, power

FACTORS = (1, 2, 4, 8, 16, 32)
BASE = Shape(16_384, 64, 512, 64)
FIRST = {"rows": 8192, "columns": 16, "landmarks": 64, "bits": 8}
SMALL, SMALL_FIRST = Shape(2048, 4, 64, 2), {"rows": 512, "columns": 2, "landmarks": 4, "bits": 1}
SMALL_FACTORS = (1, 2, 4)


def measure(*, small: bool = False) -> dict[str, Any]:
    """Seconds of both works and peak memory, by setting and its values."""
    base, first = (SMALL, SMALL_FIRST) if small else (BASE, FIRST)
    factors = SMALL_FACTORS if small else FACTORS
    found: dict[str, Any] = {}
    for setting, least in first.items():
        values = [least * factor for factor in factors]
        shapes = [base._replace(**{setting: value}) for value in values]
        rounds = 1 if small else 3
        found[setting] = {"values": values, **times(shapes, rounds)}
    values = [first["rows"] * factor for factor in factors]
    found["memory"] = {"values": values, "peaks": [peak(base._replace(rows=n)) for n in values]}
    return found


def times(shapes: list[Shape], rounds: int) -> dict[str, Any]:
    """The shortest seconds of learning and of encoding in each shape, in turns; the sketches."""
    largest = Shape(*(max(side) for side in zip(*shapes, strict=True)))
    rows = np.random.default_rng(0).standard_normal(largest[:2], dtype=np.float32)
    works, sketches = [], []
    for shape in shapes:
        these = np.ascontiguousarray(rows[: shape.rows, : shape.columns])
        learner = sb.ssbc(these[: shape.landmarks], shape.bits)
        coder = learner.learn(these).coder()
        sketches.append(type(learner.sketch).__name__)
        works.append((lambda learner=learner, these=these: learner.learn(these)))
        works.append((lambda coder=coder, these=these: coder.encode(these)))
    taken: list[Timing] = in_turns(*works, rounds=rounds, repeats=1)
    best = [timing.best for timing in taken]
    return {"learn": best[::2], "encode": best[1::2], "sketches": sketches}


def peak(shape: Shape) -> int:
    """Bytes at most beyond those held before, while rows of that shape are learned."""
    rows = shape.drawn()
    learner = sb.ssbc(rows[: shape.landmarks], shape.bits)
    tracemalloc.start()
    try:
        learner.learn(rows)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rows_of(found: dict[str, Any]) -> list[list[str]]:
    """The cells of the table, the heading first."""
    table = [
        [
            "setting",
            "from",
            "to",
            "work",
            "shortest",
            "longest",
            "exponent",
            "last doubling",
            "sketch",
        ]
    ]
    for setting, its in found.items():
        for work in ("learn", "encode"):
            if work in its:
                values, taken = its["values"], its[work]
                table.append(
                    [
                        setting,
                        f"{values[0]:,}",
                        f"{values[-1]:,}",
                        work,
                        f"{figures(min(taken) * 1e3)} ms",
                        f"{figures(max(taken) * 1e3)} ms",
                        f"{power(values, taken):.2f}",
                        f"{power(values[-2:], taken[-2:]):.2f}",
                        ", ".join(dict.fromkeys(its["sketches"])) if work == "learn" else "",
                    ]
                )
    return table


def memory(found: dict[str, Any]) -> str:
    """One sentence."""
    values, peaks = found["memory"]["values"], found["memory"]["peaks"]
    megabytes = ", ".join(f"{held / 1e6:.1f}" for held in peaks)
    return (
        f"Peak memory of `learn` beyond its input for {values[0]:,} to {values[-1]:,} rows, in MB: "
        f"{megabytes} (exponent {power(values, peaks):.2f})."
    )
