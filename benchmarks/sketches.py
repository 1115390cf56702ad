"""Where the exact Gram matrix stops being the faster sketch: the crossing that `auto` uses.

    python -m benchmarks.sketches

For each sketch size l, time a row through Frequent Directions (l spare rows) and through the Gram
matrix, in both precisions, for growing numbers of features; one BLAS thread, as the learner does.
"""

from functools import partial

import numpy as np

import streambits as sb
from benchmarks.timer import in_turns, machine
from streambits._threads import one_blas_thread

SIZES, FACTORS, BLOCK = (64, 128, 256), (2, 4, 6, 8, 12, 16), 2048


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{machine()}\nmicroseconds per row, median; the ratio with its quartiles")
    print(f"{'l':>4} {'m':>5} {'m/l':>4} {'FD':>8} {'Gram':>8} {'Gram, single':>12} {'FD/Gram':>8}")
    with one_blas_thread():
        for size in SIZES:
            for factor in FACTORS:
                width = size * factor
                rows = rng.random((BLOCK, width), dtype=np.float32)
                fd, gram, single = in_turns(
                    partial(sb.sketches.FrequentDirections(width, size).update, rows),
                    partial(sb.sketches.Gram(width).update, rows),
                    partial(sb.sketches.Gram(width, precision="single").update, rows),
                    rounds=3,
                )
                each = [timing.per(BLOCK).median * 1e6 for timing in (fd, gram, single)]
                print(
                    f"{size:4} {width:5} {factor:4} {each[0]:8.1f} {each[1]:8.1f} {each[2]:12.1f} "
                    f"{fd.over(gram)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
