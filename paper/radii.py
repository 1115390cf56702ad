"""Precision and recall within Hamming radii, and along a ranking, from a tally."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.evaluation.ranking import Counts, mean

RECALLS = tuple(np.linspace(0.05, 1, 20).round(2).tolist())


class Radii(NamedTuple):
    """What is found within each radius 0, 1, ..: arrays of one length.

    precision, recall: means over the queries with something true. A query that returns nothing
    has no precision and is left out of that mean: to count it as 1 would praise silence, as 0
    would blame precision for what recall shows already. `answered` is the share that is left in,
    without which the precision at small radii cannot be read.
    pooled_precision, pooled_recall: of all queries together, those with nothing true included:
    the paper's words. NaN only where no query returns anything, or has anything true.
    returned: mean number of rows within the radius.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    answered: NDArray[np.float64]
    pooled_precision: NDArray[np.float64]
    pooled_recall: NDArray[np.float64]
    returned: NDArray[np.float64]

    def at(self, radius: int) -> "Found":
        """All figures at one radius."""
        return Found(radius, *(float(values[radius]) for values in self))


class Found(NamedTuple):
    """`Radii` at one radius."""

    radius: int
    precision: float
    recall: float
    answered: float
    pooled_precision: float
    pooled_recall: float
    returned: float


def at_radii(count: Counts, true: Counts) -> Radii:
    """Precision and recall within every radius.

    count, true: (q, radii) rows and true rows at each distance.

    >>> at_radii(np.array([[0, 2, 2]]), np.array([[0, 1, 1]])).precision.tolist()
    [nan, 0.5, 0.5]
    """
    returned, right = np.cumsum(count, axis=1), np.cumsum(true, axis=1)
    total = true.sum(axis=1, keepdims=True)
    sought = total[:, 0] > 0
    precision = _ratio(right[sought], returned[sought])
    recall = _ratio(right[sought], np.broadcast_to(total[sought], right[sought].shape))
    return Radii(
        mean(precision),
        mean(recall),
        mean((returned[sought] > 0).astype(np.float64)) if sought.any() else mean(recall),
        _ratio(right.sum(axis=0), returned.sum(axis=0)),
        _ratio(right.sum(axis=0), np.broadcast_to(total.sum(), right.shape[1])),
        returned.mean(axis=0),
    )


def matched_radius(count: Counts, true: Counts) -> int:
    """The radius at which the number of returned rows is closest to that of true ones.

    Over all queries together, since one radius serves them all; the smaller of two that are as
    close. Where the two numbers are equal, so are pooled precision and pooled recall.
    """
    returned = np.cumsum(count.sum(axis=0))
    return int(np.argmin(np.abs(returned - true.sum())))


def at_matched_radius(count: Counts, true: Counts) -> Found:
    """What is found within the matched radius: the paper's threshold "in Hamming space"."""
    return at_radii(count, true).at(matched_radius(count, true))


def precisions_at(
    count: Counts, true: Counts, recalls: Sequence[float] = RECALLS
) -> NDArray[np.float64]:
    """The precision where each recall is reached: the precision-recall curve.

    Parameters
    ----------
    count, true : ndarray of int of shape (q, levels)
        Rows and true rows at each distance.
    recalls : sequence of float
        Above 0, at most 1. Every ranking of all rows reaches them all.

    Returns
    -------
    ndarray of shape (q, recalls)
        NaN where nothing is true. Inside a group of ties true and other rows come in proportion.
    """
    total = true.sum(axis=1)
    places, found = np.cumsum(count, axis=1), np.cumsum(true, axis=1)
    here = np.arange(len(count))
    curve = np.empty((len(count), len(recalls)))
    for column, recall in enumerate(recalls):
        wanted = recall * total
        group = np.argmax(found >= wanted[:, None] - 1e-9, axis=1)
        missing = wanted - (found[here, group] - true[here, group])
        share = missing / np.maximum(true[here, group], 1)
        returned = places[here, group] - (1 - share) * count[here, group]
        curve[:, column] = _ratio(wanted, np.where(total > 0, returned, 0))
    return curve


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """part / whole, NaN where the whole is 0."""
    present = whole > 0
    return np.where(present, part / np.where(present, whole, 1), np.nan)
