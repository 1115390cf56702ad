"""Search in Hamming space, against FAISS IndexBinaryFlat in the same run.

    python benchmarks/search.py

Random codes, k = 10; our scan and FAISS take turns, with as many threads for one as for the other,
and the best of a few rounds counts. FAISS splits over queries, so one query is one thread there.
Its threads spin while they wait, so beside another busy process two of them are far slower than
one: such rows are marked as disturbed, and their ratio says nothing. Run it on a quiet machine.
Then what a removal costs, the bytes a code takes, how long a file takes to open, and what a second
process pays for its first search, when the compiled kernels lie on disk.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import faiss
import numpy as np
from threadpoolctl import threadpool_limits

import streambits as sb
from streambits._threads import look_again, one_blas_thread

CODES, K, ROUNDS = 4_000_000, 10, 12
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


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def against_faiss(bits: int, most: int) -> None:
    codes, queries = random_codes(CODES, bits, 0), random_codes(64, bits, 1)
    ours, theirs = sb.HammingIndex(bits, strategy="scan"), faiss.IndexBinaryFlat(bits)
    ours.add(codes)
    theirs.add(codes.packed)
    for asked in (queries, queries[:1]):
        alone = float("inf")
        for threads in sorted({1, most}):
            mine, other, same = compare(ours, theirs, asked, threads)
            alone = min(alone, other)
            disturbed = " disturbed" if other > 1.2 * alone else ""
            print(
                f"{bits:5} {len(asked):8} {threads:8} {mine:10.2f} {other:10.2f} "
                f"{other / mine:7.2f} {same!s:>6}{disturbed}",
                flush=True,
            )


def compare(
    ours: sb.HammingIndex, theirs: Any, asked: sb.Codes, threads: int
) -> tuple[float, float, bool]:
    """Milliseconds of both, the best of rounds in turn, and whether the distances are the same."""
    faiss.omp_set_num_threads(threads)
    times = []
    with threadpool_limits(threads, user_api="blas"):
        same = np.array_equal(ours.search(asked, K).distances, theirs.search(asked.packed, K)[0])
        for _ in range(ROUNDS):
            mine = seconds(lambda: ours.search(asked, K))
            times.append((mine, seconds(lambda: theirs.search(asked.packed, K))))
    mine, other = (min(side) * 1e3 for side in zip(*times, strict=True))
    return mine, other, same


def removal() -> None:
    index = sb.HammingIndex(64)
    index.add(random_codes(MANY, 64, 2))
    print(f"bytes a 64-bit code, {MANY:,} codes: {index.nbytes / len(index):.2f}")
    order = np.random.default_rng(3).permutation(MANY)
    batches = np.array_split(order[:REMOVED], 100)
    batch = seconds(lambda: deque(map(index.remove, batches), 0))
    singles = order[REMOVED : REMOVED + SINGLE].tolist()
    single = seconds(lambda: deque(map(index.remove, singles), 0))
    print(
        f"remove, microseconds each: {batch / REMOVED * 1e6:.2f} in batches of {len(batches[0])},"
    )
    print(
        f"    {single / SINGLE * 1e6:.2f} one a call; bytes after: {index.nbytes / len(index):.2f}"
    )


def opening() -> None:
    """How long files of more and more codes take to save and to open."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index.safetensors")
        for count in (1_000_000, 10_000_000, 100_000_000):
            index = sb.HammingIndex(64, strategy="scan")
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
    look_again()  # FAISS brings a BLAS of its own
    with one_blas_thread() as threads:
        pass
    print(f"load before: {os.getloadavg()[0]:.1f}; {CODES:,} codes, k = {K}, milliseconds")
    print(
        f"{'bits':>5} {'queries':>8} {'threads':>8} {'ours':>10} {'FAISS':>10} "
        f"{'ratio':>7} {'same':>6}"
    )
    for bits in (64, 256):
        against_faiss(bits, threads)
    removal()
    opening()
    first_call()


if __name__ == "__main__":
    main()
