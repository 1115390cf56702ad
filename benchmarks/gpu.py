"""The device's lines: the same calls with torch tensors on CUDA, beside the host in the same run.

    python -m benchmarks --only gpu

Nothing is measured where torch or a CUDA device is missing; torch is not among the project's
dependencies. Rows lie on the device; a run ends when the device's queue is empty. The codes of the
device must be the bits of the host, or the line says how many are not.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import streambits as sb
from benchmarks.core import Shape
from benchmarks.report import Line
from benchmarks.timer import in_turns

HOST, ROUNDS = 100_000, 5  # rows that the host gets, for its time per row
SHAPES = {  # millions of rows per second that encode and learn must reach, and learn with TF32
    Shape(8_000_000, 54, 500, 64): (80, 45, None),
    Shape(4_000_000, 128, 2048, 128): (18, 4.5, 15),
    Shape(1_000_000, 768, 2048, 256): (8, None, None),
}
CODES, QUERIES, K = 100_000_000, 1000, 10


def lines(*, small: bool = False) -> Iterator[Line]:
    """All of them, or none where there is no device."""
    if not find_spec("torch"):
        return
    import torch  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    if not torch.cuda.is_available():
        return

    def waited(work: Callable[[], Any]) -> Callable[[], None]:
        """The same, until the device is done."""

        def run() -> None:
            work()
            torch.cuda.synchronize()

        return run

    for shape, bars in SHAPES.items():
        some = shape._replace(rows=HOST) if small else shape
        there = torch.randn(some[:2], device="cuda")
        yield from encode(some, there, waited, bars[0])
        yield from learn(some, there, waited, bars[1])
        if bars[2]:
            yield from learn(some, there, waited, bars[2], precision="tf32")
        del there
    like = torch.zeros(1, device="cuda")
    yield from scan(1_000_000 if small else CODES, like, waited)


def encode(shape: Shape, there: Any, waited: Any, bar: float | None) -> Iterator[Line]:
    """Rows per second of `coder.on(tensor).encode`."""
    rows = there[:HOST].cpu().numpy()
    coder = sb.ssbc(rows[: shape.landmarks], shape.bits).learn(rows).coder()
    device = coder.on(there)
    bits, codes = coder.encode(rows).unpack(), device.encode(there[:HOST]).unpack()
    mine, host = in_turns(
        waited(partial(device.encode, there)), partial(coder.encode, rows), rounds=ROUNDS
    )
    yield Line.of(
        f"encode {shape} on the device",
        "host",
        mine.per(shape.rows),
        host.per(HOST),
        rate=bar and bar * 1e6,
        note="same bits" if np.array_equal(bits, codes) else f"{(bits != codes).sum()} bits differ",
    )


def learn(shape: Shape, there: Any, waited: Any, bar: float | None, **more: Any) -> Iterator[Line]:
    """Rows per second of `learner.learn` of a learner with landmarks on the device."""
    rows = there[:HOST].cpu().numpy()
    host = sb.ssbc(rows[: shape.landmarks], shape.bits)
    device = sb.ssbc(there[: shape.landmarks], shape.bits, **more)
    mine, theirs = in_turns(
        waited(partial(device.learn, there)), partial(host.learn, rows), rounds=ROUNDS, repeats=1
    )
    kind = "".join(f", {name} {value}" for name, value in more.items())
    yield Line.of(
        f"learn {shape}{kind} on the device",
        "host",
        mine.per(shape.rows),
        theirs.per(HOST),
        rate=bar and bar * 1e6,
    )


def scan(codes: int, like: Any, waited: Any) -> Iterator[Line]:
    """Queries against an index whose codes lie on the device; the answers must be the host's."""
    rng = np.random.default_rng(0)
    index = sb.HammingIndex(64, strategy="scan")
    index.add(sb.Codes(rng.integers(0, 256, (codes, 8), np.uint8), 64))
    asked = sb.Codes(rng.integers(0, 256, (QUERIES, 8), np.uint8), 64)
    device = index.on(like)  # type: ignore[attr-defined, unused-ignore]
    ours, host = device.search(asked, K), index.search(asked, K)
    equal = np.array_equal(ours.ids, host.ids) and np.array_equal(ours.distances, host.distances)
    mine, theirs = in_turns(
        waited(partial(device.search, asked, K)),
        partial(index.search, asked, K),
        rounds=2,
        repeats=1,
    )
    yield Line.of(
        f"search {codes / 1e6:g} million codes of 64 bits, {QUERIES:,} queries, on the device",
        "host",
        mine.per(QUERIES),
        theirs.per(QUERIES),
        unit="query",
        bar=20,
        note="same answers" if equal else "other answers",
    )
