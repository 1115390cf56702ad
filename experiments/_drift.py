"""Changing streams: codes given out while the stream moves, and how well they rank at the end."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paper.histograms import count_distances
from paper.truth import Truth
from streambits._arrays import blocks
from streambits.epochs.coder_set import CoderSet
from streambits.evaluation import ranking
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.online import encode_online

Rows = NDArray[Any]
REFRESH = 500  # rows between two coders


class Streamed(NamedTuple):
    """What a pass over a stream leaves: codes of all rows in order, and the coders to search them.

    parts: (start, codes) of one epoch each.
    """

    learner: Learner
    coders: CoderSet
    parts: list[tuple[int, Codes]]

    @property
    def epochs(self) -> int:
        return len({codes.epoch for _, codes in self.parts})


def streamed(learner: Learner, rows: Rows, *, refresh: int = REFRESH) -> Streamed:
    """Encode a stream online."""
    coders, parts, start = CoderSet(seed=learner.seed), [], 0
    for _, codes in encode_online(learner, blocks(rows, refresh), refresh=refresh, coders=coders):
        parts.append((start, codes))
        start += len(codes)
    return Streamed(learner, coders, parts)


def online_distances(
    done: Streamed, rows: Rows, *, scaled: bool = True
) -> Callable[[NDArray[np.intp]], NDArray[Any]]:
    """A function from places of queries to their distances to all codes given out.

    scaled: on the common scale of `CoderSet`; else plain Hamming distances.
    """

    def distances(some: NDArray[np.intp]) -> NDArray[Any]:
        codes = done.coders.encode(rows[some])
        scales = done.coders.scales(rows[some], codes) if scaled and len(codes) > 1 else None
        return np.concatenate([_found(part, codes, scales) for _, part in done.parts], axis=1)

    return distances


def _found(part: Codes, codes: dict[int, Codes], scales: Any) -> NDArray[Any]:
    near = codes[part.epoch].hamming(part).astype(np.intp)
    return near if scales is None else np.take_along_axis(scales[part.epoch], near, axis=1)


def mean_precision(truth: Truth, distances: Callable[[NDArray[np.intp]], NDArray[Any]]) -> float:
    """MAP at the first threshold."""
    counts = count_distances(truth, distances)
    return float(ranking.mean(ranking.average_precisions(counts.rows, counts.true[0])))
