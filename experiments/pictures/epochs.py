"""Epochs on a sorted stream: evidence of drift, the epochs it begins, recall of the latest rows."""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import streambits as sb
from experiments.pictures.svg import DASHES, Axes, Picture, Point
from paper import datasets
from streambits._arrays import squared_distances
from streambits.epochs.detector import ALARM
from streambits.errors import ReachWarning

ROWS, STEP, ASKED, K = 20_000, 1000, 100, 10
TITLE = (
    "Epochs on a stream that is sorted: evidence of drift above, recall of the latest rows below"
)


class Watched(NamedTuple):
    """What was seen while a stream passed: values over rows, and after how many epochs began."""

    evidence: list[Point]
    recall: list[Point]
    epochs: list[int]


def sorted_rows(count: int = ROWS) -> NDArray[np.float32]:
    """SIFT, by its first principal component."""
    return np.asarray(datasets.stream("sift", 500, count, order="sorted").rows, np.float32)


def watch(rows: NDArray[np.float32], epochs: str, n_landmarks: int = 500) -> Watched:
    """Stream rows through an index, and ask it every `STEP` rows for some of the latest."""
    index = sb.StreamIndex(
        method="ssbc", bits=64, refine=8, n_landmarks=n_landmarks, epochs=epochs, seed=0
    )
    seen, last = Watched([], [], []), (0, 0)
    for end in range(STEP, len(rows) + 1, STEP):
        index.add(rows[end - STEP : end], np.arange(end - STEP, end))
        seen.recall.append((end, recall(index, rows[:end])))
        for one in index.drift:
            if one.rows > last[0]:
                seen.evidence.append((one.rows, one.evidence))
                seen.epochs.extend([last[0]] * (one.epoch > last[1]))
                last = one.rows, one.epoch
    return seen


def recall(index: sb.StreamIndex, rows: NDArray[np.float32]) -> float:
    """Of some of the latest rows, the share of their true nearest among the first answers."""
    places = len(rows) - 1 - np.arange(0, STEP, STEP // ASKED)
    distances = np.asarray(
        squared_distances(rows[places].astype(np.float64), rows.astype(np.float64))
    )
    distances[np.arange(len(places)), places] = np.inf
    true = np.argpartition(distances, K, axis=1)[:, :K]
    hits = index.search(rows[places], k=K + 1).ids
    found = [
        len({*near.tolist()} & {*(i for i in answer.tolist() if i != place)})
        for near, answer, place in zip(true, hits, places.tolist(), strict=True)
    ]
    return float(np.mean(found)) / K


def draw() -> str:
    """The picture."""
    rows = sorted_rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachWarning)  # that rows are lost is what it shows
        return drawn(watch(rows, "auto"), watch(rows, "never"), len(rows))


def drawn(auto: Watched, never: Watched, count: int) -> str:
    """The picture of two runs."""
    picture = Picture(860, 480, TITLE)
    ticks = [(value, f"{value:,}") for value in range(0, count + 1, count // 4)]
    above = Axes(picture, 60, 76, 770, 130, (0, count), (-10, 25))
    above.frame(
        "evidence that the stream has moved", [], [(-10, "-10"), (0, "0"), (10, "10"), (20, "20")]
    )
    below = Axes(picture, 60, 260, 770, 160, (0, count), (0, 1))
    y_ticks = [(value / 4, f"{value / 4:g}") for value in range(5)]
    below.frame("recall of the latest rows (R10@10)", ticks, y_ticks, "rows of the stream")
    for moment in auto.epochs:
        above.mark(moment)
        below.mark(moment)
    above.series(auto.evidence, 0)
    left, place = above.at(0, ALARM)
    picture.line([(left, place), (left + above.width, place)], "line c4", DASHES[4])
    picture.text(left + above.width, place - 5, "alarm, 13.8", "ink small", anchor="end")
    below.series(auto.recall, 0)
    below.series(never.recall, 1)
    picture.line([(60, 24), (86, 24)], "line c0")
    picture.text(92, 28, 'epochs="auto"', "ink small")
    picture.line([(220, 24), (246, 24)], "line c1", DASHES[1])
    picture.text(252, 28, 'epochs="never": the first landmarks stay', "ink small")
    picture.line([(530, 24), (556, 24)], "mark")
    picture.text(562, 28, "a new epoch", "ink small")
    return picture.as_svg()
