"""Where the time goes: the files of the package that take most of it, work by work.

    python -m benchmarks --only shares

A function's own time includes what it calls outside of the package (NumPy, BLAS) and compiled
kernels, and not what it calls inside; the raw results have functions, the table adds up files.
One thread, so that times add up. The profile itself slows short works down, and makes the shares
of their many small functions larger than they are.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import streambits as sb
from benchmarks.core import BLOCK, EMBEDDINGS, NARROW, SMALL
from benchmarks.timer import Prepared, Shape

PACKAGE = str(Path(sb.__file__).parent)
MANY = 1_000_000  # codes
SHOWN, LEAST = 6, 0.03  # files of a work, and the share from which one is shown


class Own:
    """Seconds of the functions of the package, each without those it calls."""

    def __init__(self) -> None:
        self.seconds = defaultdict[str, float](float)
        self._stack: list[str] = []
        self._names: dict[CodeType, str | None] = {}
        self._last = 0.0

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """A profile function of `sys.setprofile`."""
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code not in self._names:
            self._names[code] = self._name(code)
        name = self._names[code]
        if name is None:
            return
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._last
        if event == "call":
            self._stack.append(name)
        elif self._stack:
            self._stack.pop()
        self._last = now

    @staticmethod
    def _name(code: CodeType) -> str | None:
        if not code.co_filename.startswith(PACKAGE):
            return None
        file = code.co_filename[len(PACKAGE) + 1 :]
        return f"{file}:{code.co_qualname.replace('.<locals>', '')}"

    def of(self, work: Callable[[], Any]) -> dict[str, float]:
        """Shares of a work's time, largest first; it should be warm."""
        self.seconds.clear()
        before = sys.getprofile()
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(before)
        total = sum(self.seconds.values())
        return {name: taken / total for name, taken in largest_first(self.seconds)}


def largest_first(by: dict[str, float]) -> list[tuple[str, float]]:
    """Items in the order of their values."""
    return sorted(by.items(), key=lambda item: -item[1])


def works(shape: Shape, wide: Shape, codes: int) -> dict[str, Callable[[], Any] | Prepared]:
    """The works by name."""
    rows, more = shape.drawn(), wide.drawn()
    first = min(10 * BLOCK, shape.rows // 2 // BLOCK * BLOCK)

    def start() -> sb.Learner:
        return sb.ssbc(rows[: shape.landmarks], shape.bits).learn(rows[:first])

    def grown() -> sb.Learner:
        learner = start()
        learner.coder()
        return learner.learn(rows[first : first + 4 * BLOCK])

    learner = start()
    refined = sb.ssbc(rows[: shape.landmarks], shape.bits, refine=8).learn(rows[:first])
    broad = sb.ssbc(more[: wide.landmarks], wide.bits)
    coder, fine, far = learner.coder(), refined.coder(), broad.coder()
    packed = np.random.default_rng(1).integers(0, 256, (codes, shape.bits // 8), np.uint8)
    index = sb.HammingIndex(shape.bits, strategy="scan")
    index.add(sb.Codes(packed, shape.bits))
    query, one = sb.Codes(packed[:1], shape.bits), rows[:1]
    return {
        f"first coder {shape}": Prepared(start, sb.Learner.coder),
        f"refresh {shape}": Prepared(grown, sb.Learner.coder),
        f"encode {shape}": lambda: coder.encode(rows),
        f"encode {wide}": lambda: far.encode(more),
        f"encode {shape}, refined 8 bytes": lambda: fine.encode(rows),
        f"learn {shape}": lambda: learner.learn(rows),
        f"learn {wide}": lambda: broad.learn(more),
        f"encode one row {shape}": lambda: [coder.encode(one) for _ in range(200)],
        f"learn one row {shape}": lambda: [learner.learn(one) for _ in range(BLOCK)],
        f"search {codes / 1e6:g} million codes, one query": lambda: [
            index.search(query, 10) for _ in range(9)
        ],
    }


def measure(*, small: bool = False) -> dict[str, dict[str, float]]:
    """Shares by work and function."""
    wide = EMBEDDINGS._replace(rows=5 * BLOCK)
    shape, wide, codes = (SMALL, SMALL._replace(columns=9), 1000) if small else (NARROW, wide, MANY)
    own = Own()
    found = {}
    with threadpool_limits(1, user_api="blas"):
        for name, work in works(shape, wide, codes).items():
            run = partial(work.work, work.prepare()) if isinstance(work, Prepared) else work
            if run is work:
                work()  # compiled kernels are read from the disk now
            found[name] = own.of(run)
    return found


def rows_of(found: dict[str, dict[str, float]]) -> list[list[str]]:
    """The cells of the table, the heading first."""
    table = [["work", "share of the time, by file"]]
    for name, its in found.items():
        files = defaultdict[str, float](float)
        for function, share in its.items():
            files[function.partition(":")[0]] += share
        shown = [f"`{file}` {share:.0%}" for file, share in largest_first(files) if share >= LEAST]
        table.append([name, ", ".join(shown[:SHOWN])])
    return table
