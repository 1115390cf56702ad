"""The one timer of all benchmarks: works take turns, so that all of them meet the same machine.

In each round every work runs a few times in a row, and the fastest of these counts: the first run
after another work pays for the caches and memory pages that the other one took. A ratio is formed
within each round, so a machine that slows down for a while slows both sides; reported is the
median over the rounds, with the quartiles.
"""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

SETTLE = 0.01  # seconds between works: threads of OpenMP and BLAS wait busily for a while
LEAST = 0.005  # seconds that a run takes at least; shorter works are repeated in it
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "faiss-cpu", "torch")
Work = Callable[[], Any]
Rows = NDArray[np.float32]
Clock = Callable[[], float]


class Shape(NamedTuple):
    """Of a work: rows (n, d), landmarks, bits."""

    rows: int
    columns: int
    landmarks: int
    bits: int

    def __str__(self) -> str:
        return f"{self.columns} / {self.landmarks} / {self.bits}"

    def drawn(self) -> Rows:
        """Rows of it."""
        rng = np.random.default_rng(0)
        return rng.standard_normal((self.rows, self.columns), dtype=np.float32)


@dataclass(frozen=True)
class Prepared:
    """A work on something that is made anew for each run, before the clock starts."""

    prepare: Callable[[], Any]
    work: Callable[[Any], Any]


@dataclass(frozen=True)
class Reported:
    """A work that returns the seconds it took, as another process or a device measured them."""

    work: Callable[[], float]


class Ratio(NamedTuple):
    """The median of a ratio over the rounds, and its quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{figures(self.median)} ({figures(self.low)} to {figures(self.high)})"


@dataclass(frozen=True)
class Timing:
    """Seconds of a work in each round."""

    rounds: NDArray[np.float64]

    @property
    def best(self) -> float:
        """The shortest."""
        return float(self.rounds.min())

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return float(np.median(self.rounds))

    def per(self, count: int) -> "Timing":
        """The time of one of `count` equal parts."""
        return Timing(self.rounds / count)

    def over(self, other: "Timing") -> Ratio:
        """The ratio to another time, of the same rounds."""
        low, median, high = np.percentile(self.rounds / other.rounds, [25, 50, 75])
        return Ratio(float(median), float(low), float(high))

    def or_faster(self, other: "Timing") -> "Timing":
        """The faster of both in each round."""
        return Timing(np.minimum(self.rounds, other.rounds))

    def __add__(self, other: "Timing") -> "Timing":
        return Timing(self.rounds + other.rounds)


def in_turns(
    *works: Work | Prepared | Reported,
    rounds: int = 5,
    repeats: int = 3,
    clock: Clock = time.perf_counter,
) -> list[Timing]:
    """Time works that take turns, each in the reverse order of the turn before.

    Parameters
    ----------
    works : callable, Prepared or Reported
    rounds : int, default 5
    repeats : int, default 3
        Runs in a row, of which the fastest counts.
    clock : callable, optional
        Returns the present time in seconds.

    Returns
    -------
    list of Timing
        One for each work; the warm-up, a run or two of each, is not in it.
    """
    runs = [_runner(work, clock) for work in works]
    times = np.empty((len(works), rounds))
    for turn in range(rounds):
        for i in range(len(works))[:: 1 if turn % 2 == 0 else -1]:
            time.sleep(SETTLE)
            times[i, turn] = min(runs[i]() for _ in range(repeats))
    return [Timing(row) for row in times]


def seconds(work: Work, clock: Clock = time.perf_counter) -> float:
    """The time of one run."""
    start = clock()
    work()
    return clock() - start


def _runner(work: Work | Prepared | Reported, clock: Clock) -> Callable[[], float]:
    """What runs a work once and returns its seconds; the work is warm afterwards."""
    if isinstance(work, Reported):
        work.work()
        return work.work
    if isinstance(work, Prepared):
        prepare, on = work.prepare, work.work

        def run() -> float:
            made = prepare()
            return seconds(lambda: on(made), clock)

        run()
        return run
    took = seconds(work, clock)
    if took < 100 * LEAST:  # it may be short, now that it is warm
        took = seconds(work, clock)
    number = max(1, int(LEAST / took)) if took > 0 else 1

    def many() -> None:
        for _ in range(number):
            work()

    return lambda: seconds(many, clock) / number


def figures(value: float) -> str:
    """A number with three digits: 12,300, 123, 12.3, 1.23, 0.0123."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 100:
        step = 10.0 ** (np.floor(np.log10(abs(value))) - 2)
        return f"{round(value / step) * step:,.0f}"
    return f"{value:.{2 - int(np.floor(np.log10(abs(value))))}f}"


def machine() -> str:
    """One line: processor, cores, BLAS and versions; no paths and no names of hosts."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    blas = [info for info in threadpool_info() if info["user_api"] == "blas"]
    blas.sort(key=lambda info: "numpy" not in info["filepath"])  # others bring their own
    facts = ("internal_api", "version", "architecture")
    of_numpy = " ".join(str(info.get(fact, "")) for info in blas[:1] for fact in facts)
    found = [f"{name} {installed}" for name in PACKAGES if (installed := _installed(name))]
    python = f"Python {platform.python_version()}"
    return ", ".join([f"{_processor()}, {cores} cores", of_numpy, python, *found])


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    """Its name, and whether it has AVX-512, where Linux tells."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    wide = " with AVX-512" if any(" avx512f" in line for line in lines) else ""
    return (names[0] if names else platform.machine()) + wide
