"""What a refresh changes: the bits of fixed rows that flip, and the quality of the new coder."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import streambits as sb
from experiments._drift import mean_precision
from experiments.pictures.svg import Axes, Picture, Point
from paper import datasets
from paper.truth import find
from streambits.evaluation.bits import bits_changed
from streambits.features import nearest

BITS, HELD, ASKED, SEED = 64, 5_000, 300, 0
STREAMS = {"uniform": (500, 13_000), "covtype": (500, 45_000), "sift": (1000, 45_000)}
NAMES = {"uniform": "Uniform", "covtype": "Covertype", "sift": "SIFT"}
TITLE = "What a refresh changes: about one bit in a hundred, later fewer; precision stays"


class Refreshed(NamedTuple):
    """After how many rows; the share of bits that changed, in per cent; MAP of the new coder."""

    changed: list[Point]
    precision: list[Point]


def follow(landmarks: NDArray[np.float32], rows: NDArray[np.float32]) -> Refreshed:
    """Learn a stream online; the last rows are held out and judge each coder."""
    stream, held = rows[:-HELD], rows[-HELD:]
    threshold = nearest(30).distance(landmarks)
    known = find(held, np.arange(ASKED), threshold)
    learner = sb.ssbc(landmarks, BITS, epochs="never", seed=SEED)
    seen = Refreshed([], [])

    def judge(old: sb.Coder, new: sb.Coder) -> None:
        place = float(np.log2(learner.seen))
        before, after = old.encode(held[:2000]), new.encode(held)
        seen.changed.append((place, 100 * float(bits_changed(before, after[:2000]))))
        found = mean_precision(known, lambda some: after[some].hamming(after).astype(np.intp))
        seen.precision.append((place, found))

    batches = (stream[i : i + 512] for i in range(0, len(stream), 512))
    for _ in sb.encode_online(learner, batches, on_refresh=judge):
        pass
    return seen


def draw() -> str:
    """The picture."""
    runs = {}
    for name, (landmarks, count) in STREAMS.items():
        train, rows = datasets.stream(name, landmarks, count, seed=SEED)
        runs[NAMES[name]] = follow(np.asarray(train, np.float32), np.asarray(rows, np.float32))
    return drawn(runs)


def drawn(runs: dict[str, Refreshed]) -> str:
    """The picture of some runs."""
    picture = Picture(860, 330, TITLE)
    ends = [place for run in runs.values() for place, _ in run.changed]
    x = min(ends) - 0.2, max(ends) + 0.2
    marks = range(int(np.ceil(x[0])), int(x[1]) + 1)
    ticks = [(float(p), f"{2**p:,}") for p in marks]
    top = np.ceil(max(share for run in runs.values() for _, share in run.changed))
    left = Axes(picture, 60, 80, 340, 190, x, (0, float(top)))
    y_ticks = [(float(v), f"{v} %") for v in range(int(top) + 1)]
    left.frame("bits that change", ticks, y_ticks, "rows learned before the refresh")
    right = Axes(picture, 490, 80, 340, 190, x, (0.4, 1))
    y_ticks = [(value / 10, f"{value / 10:g}") for value in (4, 6, 8, 10)]
    right.frame(
        "mean average precision of the new coder", ticks, y_ticks, "rows learned before the refresh"
    )
    for number, run in enumerate(runs.values()):
        left.series(run.changed, number, dots=True)
        right.series(run.precision, number, dots=True)
    picture.key(60, 32, list(runs), [140] * len(runs))
    return picture.as_svg()
