"""Search in Hamming space beside FAISS IndexBinaryFlat, and what else an index costs.

    python -m benchmarks.search              # all lengths and numbers of threads, and the rest
    python -m benchmarks --only search       # the lines of the one table

Random codes, k = 10, as many threads for one as for the other, equal distances. FAISS splits over
queries, so one query is one thread there; and its threads spin while they wait, so beside another
busy process two of them can be slower than one: the faster of both counts, round by round.

Then what a removal costs, the bytes per code, how long a file takes to open, and what a second
process pays for its first search, when the compiled kernels lie on disk.
"""

import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import faiss
import numpy as np
from threadpoolctl import threadpool_limits

import streambits as sb
from benchmarks.report import Line, plain, rows_of
from benchmarks.timer import in_turns, machine, seconds
from streambits._threads import one_blas_thread, rescan_blas

CODES, K, QUERIES, ROUNDS = 4_000_000, 10, 64, 7
MANY, REMOVED, SINGLE = 10_000_000, 2_000_000, 5_000
FIRST = """
import time
start = time.perf_counter()
import numpy as np, streambits as sb
imported = time.perf_counter()
index = sb.HammingIndex(64)
index.add(sb.Codes(np.zeros((1000, 8), np.uint8), 64))
index.search(sb.Codes(np.zeros((1, 8), np.uint8), 64), 10)
print(f"{imported - start:.2f} {time.perf_counter() - imported:.2f}")
"""


def random_codes(count: int, bits: int, seed: int) -> sb.Codes:
    packed = np.random.default_rng(seed).integers(0, 256, (count, bits // 8), np.uint8)
    return sb.Codes(packed, bits)


def lines(
    *, small: bool = False, lengths: tuple[int, ...] = (64,), threads: int | None = None
) -> Iterator[Line]:
    """Many queries at once, and one."""
    count, rounds = (10_000, 1) if small else (CODES, ROUNDS)
    with one_blas_thread() as allowed:
        threads = threads or allowed

    def theirs_on(count: int, index: Any, packed: Any) -> Any:
        faiss.omp_set_num_threads(count)
        return index.search(packed, K)

    for bits in lengths:
        codes, queries = random_codes(count, bits, 0), random_codes(QUERIES, bits, 1)
        ours, theirs = sb.HammingIndex(bits), faiss.IndexBinaryFlat(bits)
        ours.add(codes)
        theirs.add(codes.packed)
        for asked in (queries, queries[:1]):
            with threadpool_limits(threads, user_api="blas"):
                distances = theirs.search(asked.packed, K)[0]
                assert np.array_equal(ours.search(asked, K).distances, distances)
                mine, other, alone = in_turns(
                    partial(ours.search, asked, K),
                    partial(theirs_on, threads, theirs, asked.packed),
                    partial(theirs_on, 1, theirs, asked.packed),
                    rounds=rounds,
                    repeats=2,
                )
            number = len(asked)
            many = f"{number} queries" if number > 1 else "one query"
            what = f"search {count / 1e6:g} million codes of {bits} bits, {many}"
            yield Line.of(
                what,
                "FAISS IndexBinaryFlat",
                mine.per(number),
                other.or_faster(alone).per(number),
                unit="query",
            )


def removal() -> None:
    index = sb.HammingIndex(64)
    index.add(random_codes(MANY, 64, 2))
    print(f"bytes per 64-bit code, {MANY:,} codes: {index.nbytes / len(index):.2f}")
    order = np.random.default_rng(3).permutation(MANY)
    batches = np.array_split(order[:REMOVED], 100)
    batch = seconds(lambda: deque(map(index.remove, batches), 0))
    singles = order[REMOVED : REMOVED + SINGLE].tolist()
    single = seconds(lambda: deque(map(index.remove, singles), 0))
    print(f"remove, microseconds each: {batch / REMOVED * 1e6:.2f} in batches of {len(batches[0])}")
    print(f"    {single / SINGLE * 1e6:.2f} one per call")
    print(f"bytes per code after that: {index.nbytes / len(index):.2f}")


def opening(counts: Sequence[int] = (1_000_000, 10_000_000, 100_000_000)) -> None:
    """How long files of more and more codes take to save and to open."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index.safetensors")
        for count in counts:
            index = sb.HammingIndex(64)
            index.add(random_codes(count, 64, 6))
            saved = seconds(partial(sb.save, index, path))
            del index
            opened = min(seconds(partial(sb.load, path)) for _ in range(3))
            print(f"{count:12,} codes: saved in {saved:.2f} s, opened in {opened * 1e3:.2f} ms")


def first_call() -> None:
    run = [sys.executable, "-c", FIRST]
    subprocess.run(run, check=True, capture_output=True)
    found = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()
    print(f"second process, seconds: import {found[0]}, first add and search {found[1]}")


def main() -> None:
    rescan_blas()  # FAISS brings a BLAS of its own
    print(machine())
    with one_blas_thread() as most:
        pass
    for threads in sorted({1, most}):
        found = list(lines(lengths=(64, 256), threads=threads))
        print(f"\nthreads: {threads}\n{plain(rows_of(found))}")
    removal()
    opening()
    first_call()


if __name__ == "__main__":
    main()
