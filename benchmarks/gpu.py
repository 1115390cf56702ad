"""The device's lines: the same calls with torch tensors on CUDA, in the same run as two rivals.

    python -m benchmarks --only gpu

Rivals are the host, and plain torch: the same arithmetic in a few lines, with single precision,
without bounds of rounding, and blocks of a size that suits it. Nothing is measured where torch or a
CUDA device is missing. Rows lie on the device; a run ends when its queue is empty and codes are on
the host. The codes of the device must be the bits of the host, or the line says how many are not.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import streambits as sb
from benchmarks.report import Line
from benchmarks.timer import Shape, Timing, in_turns, machine

HOST, ROUNDS, PLAIN_BLOCK = 100_000, 5, 131072  # rows that the host gets, for its time per row
CODES, QUERIES, K = 100_000_000, 1000, 10
REFINED, REFINED_QUERIES = 2_000_000, 200


class Bars(NamedTuple):
    """Millions of rows per second that encode and learn must reach, and learn with TF32."""

    encode: float
    learn: float | None
    tf32: float | None


SHAPES = {
    Shape(8_000_000, 54, 500, 64): Bars(80, 45, None),
    Shape(2_000_000, 128, 2048, 128): Bars(18, 4.5, 15),
    Shape(1_000_000, 768, 2048, 256): Bars(8, None, None),
}


def lines(*, small: bool = False) -> Iterator[Line]:
    """All of them, or none where there is no device."""
    if not find_spec("torch"):
        return
    import torch  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    if not torch.cuda.is_available():
        return
    for shape, bars in SHAPES.items():
        some = shape._replace(rows=2 * HOST) if small else shape
        there = torch.randn(some[:2], device="cuda")
        yield from encode(some, there, bars.encode)
        for precision, bar in (("auto", bars.learn), ("tf32", bars.tf32)):
            yield from learn(some, there, bar, precision)
        del there
    yield from refined(HOST if small else REFINED, torch)


def waited(work: Callable[[], Any]) -> Callable[[], None]:
    """The same, until the device is done."""
    import torch  # noqa: PLC0415

    def run() -> None:
        work()
        torch.cuda.synchronize()

    return run


def plain_features(rows: Any, marks: Any, bandwidth: float) -> Any:
    """Affinities by one product, as anyone would write them."""
    squares = (rows * rows).sum(1, keepdim=True) + (marks * marks).sum(1) - 2 * rows @ marks.T
    return squares.div_(-bandwidth).exp_()


def plain_encode(rows: Any, coder: sb.Coder) -> None:
    """Signs of products, packed, on the host."""
    import torch  # noqa: PLC0415

    features: Any = coder.features
    matrix, thresholds = coder.projection.matrix.float(), coder.projection.thresholds.float()
    powers = torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8, device=rows.device)
    for some in rows.split(PLAIN_BLOCK):
        values = plain_features(some, features.landmarks, features.bandwidth) @ matrix > thresholds
        ((values.view(len(some), -1, 8) * powers).sum(2, dtype=torch.uint8)).cpu()


def plain_learn(rows: Any, features: Any) -> Any:
    """The sum of products around a mean that is known."""
    total, mean = 0, None
    for some in rows.split(PLAIN_BLOCK):
        found = plain_features(some, features.landmarks, features.bandwidth)
        mean = found.mean(0) if mean is None else mean
        found -= mean
        total = total + (found.T @ found).double()
    return total


def against(what: str, ours: Timing, host: Timing, plain: Timing, **more: Any) -> Iterator[Line]:
    """A line for each rival; the first has the bar."""
    yield Line.of(what, "host", ours, host, **more)
    yield Line.of(what, "torch, plain", ours, plain)


def encode(shape: Shape, there: Any, bar: float) -> Iterator[Line]:
    """Rows per second of `coder.on(tensor).encode`."""
    rows = there[:HOST].cpu().numpy()
    coder = sb.ssbc(rows[: shape.landmarks], shape.bits).learn(rows).coder()
    device = coder.on(there)
    bits, codes = coder.encode(rows).unpack(), device.encode(there[:HOST]).unpack()
    mine, host, plain = in_turns(
        waited(partial(device.encode, there)),
        partial(coder.encode, rows),
        waited(partial(plain_encode, there, device)),
        rounds=ROUNDS,
    )
    yield from against(
        f"encode {shape} on the device",
        *(mine.per(shape.rows), host.per(HOST), plain.per(shape.rows)),
        rate=bar * 1e6,
        note="same bits" if np.array_equal(bits, codes) else f"{(bits != codes).sum()} bits differ",
    )


def learn(shape: Shape, there: Any, bar: float | None, precision: str) -> Iterator[Line]:
    """Rows per second of `learner.learn` of a learner with landmarks on the device."""
    rows = there[:HOST].cpu().numpy()
    host = sb.ssbc(rows[: shape.landmarks], shape.bits)
    device = sb.ssbc(there[: shape.landmarks], shape.bits, precision=precision)
    mine, theirs, plain = in_turns(
        waited(partial(device.learn, there)),
        partial(host.learn, rows),
        waited(partial(plain_learn, there, device.features)),
        rounds=ROUNDS,
        repeats=1,
    )
    kind = getattr(device.sketch, "precision", "")
    yield from against(
        f"learn {shape}, {kind} precision, on the device",
        *(mine.per(shape.rows), theirs.per(HOST), plain.per(shape.rows)),
        rate=bar and bar * 1e6,
    )


def refined(rows: int, torch: Any) -> Iterator[Line]:
    """Refined codes: encoded there, and ranked there."""
    there = torch.randn((rows, 54), device="cuda")
    here = there[:HOST].cpu().numpy()
    coder = sb.ssbc(here[:500], 64, refine=8).learn(here).coder()
    device = coder.on(there)
    same = device.encode(there[:HOST]) == coder.encode(here)
    mine, host = in_turns(
        waited(partial(device.encode, there)), partial(coder.encode, here), rounds=3, repeats=1
    )
    yield Line.of(
        "encode 54 / 500 / 64, refined 8 bytes, on the device",
        "host",
        mine.per(rows),
        host.per(HOST),
        note="same bytes" if same else "other bytes",
    )


def machine_of() -> str:
    """The device and its host in words."""
    import torch  # noqa: PLC0415

    name = torch.cuda.get_device_name()
    return f"{name}, torch {version('torch')}; its host: {machine()}"
