"""Where the exact Gram matrix stops being the faster sketch: the crossing that `auto` uses.

    python benchmarks/sketches.py

For each sketch size l, time a row through Frequent Directions (l spare rows) and through the Gram
matrix, in both precisions, for growing numbers of features; one BLAS thread, as the learner does.
"""

import time

import numpy as np
from numpy.typing import NDArray

import streambits as sb
from streambits._threads import one_blas_thread
from streambits.sketches import Sketch

SIZES, FACTORS, BLOCK, BLOCKS = (64, 128, 256), (2, 4, 6, 8, 12, 16), 2048, 3


def per_row(sketch: Sketch, rows: NDArray[np.float32]) -> float:
    """Microseconds a row, the best of a few blocks after one to warm up."""
    sketch.update(rows)
    times = []
    for _ in range(BLOCKS):
        start = time.perf_counter()
        sketch.update(rows)
        times.append(time.perf_counter() - start)
    return min(times) / len(rows) * 1e6


def main() -> None:
    rng = np.random.default_rng(0)
    print("microseconds a row")
    print(f"{'l':>4} {'m':>5} {'m/l':>4} {'FD':>8} {'Gram':>8} {'Gram, single':>12} {'FD/Gram':>8}")
    with one_blas_thread():
        for size in SIZES:
            for factor in FACTORS:
                width = size * factor
                rows = rng.random((BLOCK, width), dtype=np.float32)
                fd = per_row(sb.sketches.FrequentDirections(width, size), rows)
                gram = per_row(sb.sketches.Gram(width), rows)
                single = per_row(sb.sketches.Gram(width, precision="single"), rows)
                print(
                    f"{size:4} {width:5} {factor:4} {fd:8.1f} {gram:8.1f} {single:12.1f} "
                    f"{fd / gram:8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
