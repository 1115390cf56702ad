"""Cells: one method on one stream, and everything that is measured of it."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from paper import datasets, radii
from paper.contestants import BANDWIDTHS, CONTESTANTS, LEVELS
from paper.histograms import DistanceCounts, count_codes, count_distances
from paper.methods import METHODS
from paper.methods.scoring import Asymmetric, scorer
from paper.truth import Truth, find
from streambits._arrays import blocks, squared_distances
from streambits.errors import InputError, StreambitsError
from streambits.evaluation import ranking
from streambits.evaluation.bits import bit_use
from streambits.evaluation.truth import draw_queries
from streambits.features import all_pairs, nearest
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.online import encode_online

QUERIES = 1000
FIRST = (1, 10, 100, 1000)  # of the ranking, in which the 10 nearest are sought
FAISS_TRAIN = 5000
SETTINGS = ("end", "online", "frozen")
STREAMS = {  # of which data set, with how many landmarks and rows
    **{name: (name, *sizes) for name, sizes in datasets.SIZES.items()},
    "cbm small": ("cbm", 200, 1000),
    "pamap2 small": ("pamap2", 100, 3000),
    "dsads small": ("dsads", 100, 3000),
    "digits": ("digits", 200, 1500),
}
REFRESH = 500  # rows between two coders of the online setting


class Cell(NamedTuple):
    """stream: of STREAMS; method: of CONTESTANTS; order: of the rows; level: width of the kernel.

    setting: codes from the last coder ('end'), each row's by the coder of its moment ('online'), or
    all by a coder frozen after the first 2 l rows ('frozen').
    """

    stream: str
    method: str
    bits: int
    seed: int = 0
    order: str = "shuffled"
    level: str = "sigma_30"
    setting: str = "end"

    @property
    def name(self) -> str:
        """Of its result file."""
        return "-".join(map(str, self)).replace(" ", "").replace("/", "by")


class Board(NamedTuple):
    """A stream and what there is to find in it."""

    train: Any
    rows: Any
    truth: Truth


class Ranked(NamedTuple):
    """What a method made of a stream: tallies by Hamming, real-valued and its own distance."""

    tally: DistanceCounts
    asymmetric: DistanceCounts | None
    own: DistanceCounts | None
    facts: dict[str, Any]


@lru_cache(maxsize=1)
def board(stream: str, seed: int, order: str, queries: int = QUERIES) -> Board:
    """A stream with its truth at the three levels; kept for the next cell."""
    name, landmarks, length = STREAMS[stream]
    train, rows = datasets.stream(name, landmarks, length, seed=seed, order=order)
    places = draw_queries(queries, len(rows), seed=seed)
    thresholds = paper_thresholds(train)
    found = find(rows, places, [thresholds[level] for level in LEVELS])
    return Board(train, rows, found)


def paper_thresholds(train: Any) -> dict[str, float]:
    """The paper's three distances below which rows are neighbours, from landmarks (m, d).

    sigma_30: the mean distance to the 30th neighbour; sigma_all: the mean over all pairs.
    """
    near = nearest(30).distance(train)
    return {"sigma_30": near, "sigma_30 / 4": near / 4, "sigma_all": all_pairs().distance(train)}


def measure(cell: Cell, *, queries: int = QUERIES) -> dict[str, Any]:
    """All figures of a cell as plain values; `reason` instead where it cannot be."""
    on = board(cell.stream, cell.seed, cell.order, queries)
    facts = {"rows": len(on.rows), "columns": on.rows.shape[1], "landmarks": len(on.train)}
    facts |= {"queries": len(on.truth.queries)}
    facts |= {"thresholds": dict(zip(LEVELS, on.truth.thresholds, strict=True))}
    try:
        ranked = _ranked(cell, on)
    except (StreambitsError, np.linalg.LinAlgError) as error:
        return facts | {"reason": str(error)}
    return facts | ranked.facts | _figures(ranked)


def _ranked(cell: Cell, on: Board) -> Ranked:
    if CONTESTANTS[cell.method].build is None:
        return _ranked_by_faiss(cell, on)
    learner, learn = _timed(lambda: _learner(cell, on))
    codes, encode = _timed(lambda: _codes(cell, on, learner))
    if not codes.bits:
        return _ranked_decoded(on, learner, codes, {"learn": learn, "encode": encode})
    by_codes, score = _timed(lambda: count_codes(on.truth, codes))
    coder = learner.coder()
    real = None
    if cell.setting == "end" and cell.level == LEVELS[0]:
        asymmetric = Asymmetric(coder, on.train)
        real = count_distances(on.truth, lambda some: asymmetric.distances(on.rows[some], codes))
    facts = {"seconds": {"learn": learn, "encode": encode, "score": score}}
    facts |= {"bytes": {"learner": learner.nbytes, "coder": coder.nbytes}}
    facts |= _settings(learner) | {"use": bit_use(codes)._asdict()}
    return Ranked(by_codes, real, _own(cell, on, coder, codes), facts)


def _ranked_decoded(on: Board, learner: Learner, codes: Codes, seconds: dict[str, float]) -> Ranked:
    """By the distance of queries from what codes decode to, where there are no bits."""
    coder = learner.coder()
    centre = on.rows.mean(axis=0, dtype=np.float64)
    decoded = coder.decode(codes) - centre
    tally = count_distances(
        on.truth, lambda some: squared_distances(on.rows[some] - centre, decoded)
    )
    facts = {"seconds": seconds, "bytes": {"learner": learner.nbytes, "coder": coder.nbytes}}
    return Ranked(tally, tally, None, facts | _settings(learner))


def _learner(cell: Cell, on: Board) -> Learner:
    contestant = CONTESTANTS[cell.method]
    options: dict[str, Any] = {"seed": cell.seed}
    if contestant.kernel:
        width = BANDWIDTHS[cell.level]  # of the landmarks, also where every row is one
        options["bandwidth"] = width.of(on.train) if contestant.exact else width
    train = _all_rows(cell, on) if contestant.exact else on.train
    assert contestant.build is not None
    learner = contestant.build(train, cell.bits, **options)
    if cell.setting == "frozen":
        return learner.learn(on.rows[: 4 * cell.bits])  # 2 l rows, with epsilon 1
    return learner.learn(on.rows) if cell.setting == "end" else learner


def _all_rows(cell: Cell, on: Board) -> Any:
    """Landmarks of a method whose landmarks are all rows, if those are not too many."""
    every = np.concatenate([on.train, on.rows])
    landmarks, columns = every.shape
    declared = METHODS[cell.method]
    reason = declared.refusal(cell.bits, landmarks=landmarks, columns=columns, rows=len(on.rows))
    if reason:
        raise InputError(reason)
    return every


def _codes(cell: Cell, on: Board, learner: Learner) -> Codes:
    if cell.setting != "online":
        return learner.coder().encode(on.rows)
    coded = encode_online(learner, blocks(on.rows, REFRESH), refresh=REFRESH)
    return Codes.concat([codes for _, codes in coded])


def _own(cell: Cell, on: Board, coder: Any, codes: Codes) -> DistanceCounts | None:
    """By the method's own distance, where it has one."""
    declared = METHODS.get(cell.method)
    if declared is None or declared.distance == "hamming":
        return None
    distance = scorer(declared.distance, coder)
    return count_distances(on.truth, lambda some: distance(codes[some], codes))


def _ranked_by_faiss(cell: Cell, on: Board) -> Ranked:
    from paper.faiss_codes import RIVALS, Rival  # noqa: PLC0415 - an extra

    name, some = cell.method.removeprefix("faiss-"), on.rows[:FAISS_TRAIN]
    reason = Rival.refusal(name, cell.bits, columns=some.shape[1], train=len(some))
    if reason:
        raise InputError(reason)
    rival, learn = _timed(lambda: Rival(name, some, cell.bits))
    packed, encode = _timed(lambda: rival.encode(on.rows))
    facts: dict[str, Any] = {"seconds": {"learn": learn, "encode": encode}}
    if RIVALS[name].hamming:
        codes = Codes(packed, cell.bits)
        facts["use"] = bit_use(codes)._asdict()
        return Ranked(count_codes(on.truth, codes), None, None, facts)
    by_estimate = count_distances(on.truth, lambda q: rival.distances(on.rows[q], on.rows))
    return Ranked(by_estimate, None, by_estimate, facts)


def _settings(learner: Learner) -> dict[str, Any]:
    sketch = learner.sketch
    return {
        "sketch": type(sketch).__name__,
        "l": getattr(sketch, "size", None),
        "m": learner.features.width,
        "bandwidth": getattr(learner.features, "bandwidth", None),
        "certificate": sketch.certificate,
    }


def _figures(ranked: Ranked) -> dict[str, Any]:
    counts = ranked.tally
    figures: dict[str, Any] = {"map": _maps(counts)}
    if ranked.asymmetric is not None:
        figures["asymmetric"] = _maps(ranked.asymmetric)
    if ranked.own is not None:
        figures["own"] = _maps(ranked.own)
    figures["recall"] = {
        str(first): float(ranking.mean(ranking.recalls_at(counts.rows, counts.closest, first)))
        for first in FIRST
    }
    for level, true in zip(LEVELS, counts.true, strict=True):
        curve = ranking.mean(radii.precisions_at(counts.rows, true))
        figures.setdefault("curve", {})[level] = curve.tolist()
        if ranked.own is counts:
            continue  # levels of real distances are no radii
        found = radii.at_matched_radius(counts.rows, true)
        figures.setdefault("matched", {})[level] = found._asdict()
        every = radii.at_radii(counts.rows, true)
        lists = {name: values.tolist() for name, values in every._asdict().items()}
        figures.setdefault("radii", {})[level] = lists
    return figures


def _maps(counts: DistanceCounts) -> dict[str, float]:
    return {
        level: float(ranking.mean(ranking.average_precisions(counts.rows, true)))
        for level, true in zip(LEVELS, counts.true, strict=True)
    }


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start
