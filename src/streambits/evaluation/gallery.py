"""The nearest digits by Hamming distance, and whether they are the same digit."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.evaluation.compare import Score
from streambits.evaluation.datasets import Rows, digit_labels
from streambits.model.codes import Codes

NEAREST = 6


class Found(NamedTuple):
    """What one method finds for each query.

    places: (queries, nearest) rows, nearest first; right: whether they show the query's digit;
    share: the share that does, over every row as a query.
    """

    method: str
    places: NDArray[np.intp]
    right: NDArray[np.bool_]
    share: float


class Gallery(NamedTuple):
    """images: (n, 8, 8), one a row; digits: a few; queries: the first place of each; found: by
    method.
    """

    images: Rows
    digits: tuple[int, ...]
    queries: NDArray[np.intp]
    found: list[Found]


def gallery(rows: Rows, scores: list[Score], digits: tuple[int, ...] = (2, 5, 8)) -> Gallery:
    """For the first row of each of a few digits, the nearest by each method.

    A few examples are no measure: `share` says how typical they are.

    rows: (n, 64) digits in any order; scores: with the codes of these rows.
    """
    labels = digit_labels(rows)
    queries = np.array([np.flatnonzero(labels == digit)[0] for digit in digits])
    found = []
    for score in scores:
        places = nearest_codes(score.codes, NEAREST)
        right = labels[places] == labels[:, None]
        found.append(Found(score.method, places[queries], right[queries], float(right.mean())))
    return Gallery(rows.reshape(-1, 8, 8), digits, queries, found)


def nearest_codes(codes: Codes, count: int) -> NDArray[np.intp]:
    """(n, count) places of the nearest other codes, ties by place. Memory: n x n."""
    distances = codes.hamming(codes).astype(np.int32)
    np.fill_diagonal(distances, codes.bits + 1)
    return np.argsort(distances, axis=1, kind="stable")[:, :count]
