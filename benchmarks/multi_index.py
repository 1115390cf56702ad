"""Multi-index tables against our own scan, on codes of real rows, in the same run.

    STREAMBITS_DATA=folder python -m benchmarks.multi_index [--codes 10000000] [--threads 2]

The rows of a data set, drawn with replacement and moved by noise of a share of each column's
standard deviation, in the codes of a learner of `ssbc` that saw 50,000 of them; queries are other
draws. `new rows` are no draws, but more rows of Uniform's distribution. `flipped` is Covertype with
5 % of all bits turned over as well, so that hardly any codes are equal. `random` codes have
independent bits: nothing is near, so the tables should notice and leave them to the scan.
`real` are the same queries with their real values, for which a bit that differs costs its value.
Tables and scan take turns with the same number of threads.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import streambits as sb
from benchmarks.timer import figures, in_turns, machine
from paper import datasets
from streambits._threads import one_blas_thread
from streambits.index.multi_index import Tables
from streambits.index.scan import scan_nearest, scan_within
from streambits.index.weighted import weighted_nearest

K, RADIUS, QUERIES, SINGLE, ROUNDS, BATCH = 10, 2, 256, 32, 5, 100_000
FLIPPED = 0.05
SOURCES = {"new rows": "uniform", "flipped": "covtype"}
CASES = (
    ("covtype", 64, 0.05),
    ("covtype", 64, 0.2),
    ("uniform", 64, 0.05),
    ("uniform", 64, 0.2),
    ("new rows", 64, None),
    ("flipped", 64, 0.05),
    ("covtype", 128, 0.05),
    ("covtype", 128, 0.2),
    ("new rows", 128, None),
    ("random", 64, None),
    ("random", 128, None),
)


class Scan:
    """The scan, with the methods of the tables."""

    nearest, within = staticmethod(scan_nearest), staticmethod(scan_within)

    @staticmethod
    def nearest_weighted(words: Any, alive: Any, end: int, query: Any, k: int) -> Any:
        """What the tables find for signs and weights."""
        signs, weights = query
        return weighted_nearest(words, alive, end, signs, weights, k)


def batches(name: str, noise: float | None, bits: int, count: int) -> Iterator[Any]:
    """Words (n, width) of codes and their values (n, bits), `count` and then the queries."""
    rng = np.random.default_rng(1)
    sizes = [min(BATCH, count - i) for i in range(0, count, BATCH)] + [QUERIES]
    if name == "random":
        for size in sizes:
            yield (
                rng.integers(0, 2**64, (size, bits // 64), np.uint64),
                np.abs(rng.standard_normal((QUERIES, bits))),
            )
        return
    train, rows = datasets.stream(SOURCES.get(name, name), 500, 50_000)
    coder = sb.ssbc(train, bits=bits, seed=0).learn(rows).coder()
    for size in sizes:
        if noise is None:
            some = rng.random((size, 50)) / np.arange(1, 51) ** 2
        else:
            moved = noise * rows.std(axis=0) * rng.standard_normal((size, rows.shape[1]))
            some = rows[rng.integers(len(rows), size=size)] + moved
        codes = coder.encode(some.astype(np.float32))
        values = np.abs(coder.project(some[:QUERIES].astype(np.float32)).astype(np.float64))
        flips = rng.random((size, bits), np.float32) < (FLIPPED if name == "flipped" else 0)
        yield codes.words() ^ sb.Codes.from_bits(flips).words(), values


def tasks(
    codes: Any, queries: Any, values: Any
) -> dict[str, tuple[int, Callable[[Any], list[Any]]]]:
    """How many queries, and what the tables or the scan find, as arrays."""
    some = [queries[i : i + 1] for i in range(SINGLE)]
    real = [(queries[i : i + 1], values[i : i + 1]) for i in range(SINGLE)]
    return {
        f"{K} nearest, {QUERIES} at once": (
            QUERIES,
            lambda way: list(way.nearest(*codes, queries, K)),
        ),
        f"{K} nearest, one by one": (
            SINGLE,
            lambda way: [side for one in some for side in way.nearest(*codes, one, K)],
        ),
        f"{K} nearest, real, {QUERIES} at once": (
            QUERIES,
            lambda way: list(way.nearest_weighted(*codes, (queries, values), K)),
        ),
        f"{K} nearest, real, one by one": (
            SINGLE,
            lambda way: [side for one in real for side in way.nearest_weighted(*codes, one, K)],
        ),
        f"within {RADIUS}, {QUERIES} at once": (
            QUERIES,
            lambda way: [side for its in way.within(*codes, queries, RADIUS) for side in its],
        ),
    }


def compare(tables: Tables, codes: Any, queries: Any, values: Any) -> float:
    """Print a line for each task; gives the time of a query in the first task's scan."""
    scanned: list[float] = []
    for label, (asked, work) in tasks(codes, queries, values).items():
        same = all(map(np.array_equal, work(tables), work(Scan)))
        ours, theirs = in_turns(
            partial(work, tables), partial(work, Scan), rounds=ROUNDS, repeats=1
        )
        each = [figures(timing.per(asked).median * 1e3) for timing in (ours, theirs)]
        print(f"    {label:32} {each[0]:>10} {each[1]:>10} {same!s:>6}  {theirs.over(ours)}")
        scanned.append(theirs.per(asked).median)
    return scanned[0]


def case(name: str, bits: int, noise: float | None, count: int) -> None:
    parts = list(batches(name, noise, bits, count))
    words = np.ascontiguousarray(np.concatenate([part for part, _ in parts[:-1]]).T)
    queries, values = parts[-1]
    codes = words, np.ones(count, np.bool_), count
    tables = Tables(words, bits)
    distinct = tables.state()["words"].shape[2]
    print(
        f"{name}{'' if noise is None else f' + {noise:.0%}'}, {bits} bits: "
        f"{distinct / count:.1%} distinct, {tables.nbytes / count:.1f} bytes per code"
    )
    scanned = compare(tables, codes, queries, values)
    build = in_turns(partial(Tables, words, bits), rounds=3, repeats=1)[0].median
    print(f"    built in {build:.2f} s, the time of {build / scanned:.0f} queries of a scan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=int, default=10_000_000)
    with one_blas_thread() as allowed:
        parser.add_argument("--threads", type=int, default=allowed)
    options = parser.parse_args()
    print(f"{machine()}\n{options.codes:,} codes, {options.threads} threads")
    print(f"{'milliseconds per query':36} {'tables':>10} {'scan':>10} {'same':>6}  ratio")
    with threadpool_limits(options.threads, user_api="blas"):
        Tables(np.zeros((1, 9), np.uint64), 64)  # compiled here, not while it is timed
        for name, bits, noise in CASES:
            case(name, bits, noise, options.codes)


if __name__ == "__main__":
    main()
