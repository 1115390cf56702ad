"""The nearest digits by Hamming distance, and whether they are the same digit."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.codes import Codes
from streambits.errors import MissingExtraError
from streambits.evaluation.compare import Score
from streambits.evaluation.datasets import Rows

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
    """images: (n, 8, 8), one a row; queries: places of a few; found: by method."""

    images: Rows
    queries: NDArray[np.intp]
    found: list[Found]


def gallery(rows: Rows, scores: list[Score], queries: NDArray[np.intp]) -> Gallery:
    """For queries among rows (n, 64) of digits, the nearest by each method's codes."""
    labels = digit_labels(rows)
    found = []
    for score in scores:
        places = nearest_codes(score.codes, NEAREST)
        right = labels[places] == labels[:, None]
        found.append(Found(score.method, places[queries], right[queries], float(right.mean())))
    return Gallery(rows.reshape(-1, 8, 8), queries, found)


def nearest_codes(codes: Codes, count: int) -> NDArray[np.intp]:
    """(n, count) places of the nearest other codes, ties by place. Memory: n x n."""
    distances = codes.hamming(codes).astype(np.int32)
    np.fill_diagonal(distances, codes.bits + 1)
    return np.argsort(distances, axis=1, kind="stable")[:, :count]


def digit_labels(rows: Rows) -> NDArray[np.intp]:
    """(n,) which digit each row of scikit-learn's bundled set shows, whatever their order."""
    try:
        from sklearn.datasets import load_digits  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("scikit-learn", "sklearn") from None
    bundle = load_digits()
    images = bundle.data.astype(rows.dtype)
    label = {image.tobytes(): digit for image, digit in zip(images, bundle.target, strict=True)}
    return np.array([label[row.tobytes()] for row in rows], np.intp)
