"""Several methods on one stream, by the same truth."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits import methods
from streambits.evaluation import datasets, metrics, truth
from streambits.evaluation.datasets import Stream
from streambits.features import nearest
from streambits.model.codes import Codes
from streambits.model.learner import Learner

CONTESTANTS: dict[str, Callable[..., Learner]] = {
    "ssbc": methods.ssbc,
    "ssbc, as in the paper": partial(methods.ssbc, paper=True),
    "LSH": methods.lsh,
    "linear ITQ": methods.itq,
}


class Contest(NamedTuple):
    """data: its name; stream: landmarks and rows; queries: places of rows; threshold: sigma_30."""

    data: str
    stream: Stream
    queries: NDArray[np.intp]
    threshold: float

    def score(self, codes: Codes) -> float:
        """MAP, tie-aware, of the rows' codes: neighbours are rows within sigma_30."""
        return metrics.mean_average_precision(codes, self.stream.rows, self.queries, self.threshold)


class Score(NamedTuple):
    """quality: MAP at the end of the stream; seconds: to learn and encode; codes: of all rows."""

    data: str
    method: str
    bits: int
    quality: float
    seconds: float
    codes: Codes


def contest(
    data: str, landmarks: int, length: int, *, queries: int = 1000, seed: int = 0
) -> Contest:
    """A stream of a data set, queries drawn from it, and sigma_30 of its landmarks."""
    stream = datasets.stream(data, landmarks, length, seed=seed)
    places = truth.draw_queries(queries, len(stream.rows), seed=seed)
    return Contest(data, stream, places, nearest(30).distance(stream.train))


def compare(
    contest: Contest,
    bits: int,
    *,
    contestants: dict[str, Callable[..., Learner]] = CONTESTANTS,
    seed: int = 0,
) -> Iterator[Score]:
    """Each method's score, one after the other: it sees the same landmarks, rows and bits.

    >>> small = contest("uniform", 100, 1000, queries=50)
    >>> ssbc, lsh = compare(small, 16, contestants={m: CONTESTANTS[m] for m in ("ssbc", "LSH")})
    >>> ssbc.quality > lsh.quality
    True
    """
    for method, build in contestants.items():
        started = time.perf_counter()
        learner = build(contest.stream.train, bits, seed=seed).learn(contest.stream.rows)
        codes = learner.coder().encode(contest.stream.rows)
        seconds = time.perf_counter() - started
        yield Score(contest.data, method, bits, contest.score(codes), seconds, codes)
