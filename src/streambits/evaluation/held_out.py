"""How well a coder finds the neighbours of rows that it has not learned, for `tune`.

Every held-out row is a query among the others. A score is made ready for some rows once, and then
takes one coder after another.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import double, squared_distances
from streambits.evaluation.ranking import (
    hamming_counts,
    mean,
    mean_average_precision,
    recalls_at,
)
from streambits.evaluation.truth import (
    draw_queries,
    leave_out,
    neighbours_within,
    true_neighbours,
)
from streambits.model.coder import Coder
from streambits.model.codes import Codes

QUERIES = 2000
FIRST = 12  # answers in which the nearest row is sought: as sharp as 10 in 100 among more rows
STREAM, ANSWERS = 16_000, 10  # rows of the stream that the rows stand for, and answers of a search
BLOCK = 256  # queries at a time

Score = Callable[[Coder], tuple[float, ...]]


def score_ranking(target: str, radius: float, held: NDArray[Any], seed: int) -> Score:
    """Score how Hamming distances rank all rows.

    Parameters
    ----------
    target : {"map", "recall"}
        Mean average precision, where rows within `radius` are right; or the share of queries whose
        nearest row is among the first 12.
    radius : float
    held : array of shape (n, d)
        Rows that coders have not learned.
    seed : int
        Of the queries.

    Returns
    -------
    callable
        From a coder to one score.
    """
    places = draw_queries(QUERIES, len(held), seed=seed)
    if target == "map":
        near = neighbours_within(held, places, radius)
    else:
        near = true_neighbours(held, None, 1)[places]

    def score(coder: Coder) -> tuple[float, ...]:
        codes = coder.encode(held)
        counted = hamming_counts(codes, codes[places], near, places)
        if target == "map":
            return (mean_average_precision(counted),)
        return (float(mean(np.concatenate([recalls_at(*counts, FIRST) for counts in counted]))),)

    return score


def score_answers(candidates: Sequence[float], held: NDArray[Any], _seed: int = 0) -> Score:
    """Score the first answers of refined codes, ranked by what they decode to.

    Parameters
    ----------
    candidates : sequence of float
        Numbers of candidates of a search for ten answers in a whole stream.
    held : array of shape (n, d)
        Rows that coders have not learned; all of them are queries, whatever the seed.

    Returns
    -------
    callable
        From a coder to its recall with each number of candidates.

    Notes
    -----
    A stream is longer than the rows at hand. Where these are one row in t of it, a search finds
    among them one in t of its candidates, and one in t of the ten nearest rows. So it is measured:
    they stand for 16,000 rows, and of 2,500 rows 47 are candidates in place of 300, and the nearest
    two are sought. This finds the best split for 10,000 to 60,000 rows; as many candidates as in
    the stream would favour too few sign bits, and as many per answer too many.
    """
    times = STREAM / len(held)
    k, most = max(1, round(ANSWERS / times)), len(held) - 1
    near = true_neighbours(held, None, k)
    depths = [min(max(2 * k, round(count / times)), most) for count in candidates]
    return lambda coder: tuple(recall_of_answers(coder, held, near, k, depths).tolist())


def recall_of_answers(
    coder: Coder,
    rows: NDArray[Any],
    near: NDArray[np.bool_],
    k: int,
    candidates: Sequence[int],
) -> NDArray[np.float64]:
    """Compute the share of the true nearest rows among the first k answers to each row.

    As `HammingIndex.search` answers, with several numbers of candidates at once.

    Parameters
    ----------
    coder : Coder
        With a refinement. Without sign bits all rows are candidates.
    rows : array of shape (n, d)
        The database; every row of it is a query, and not among its own answers.
    near : array of shape (n, n), bool
        Which rows are right answers to each: `true_neighbours(rows, None, k)`.
    k : int
        Number of answers.
    candidates : sequence of int
        Numbers of candidates, from `k` to n - 1. Of rows at the same Hamming distance the first
        ones are candidates.

    Returns
    -------
    array of shape (len(candidates),)
        For each number of candidates, the mean over the rows.
    """
    codes = coder.encode(rows, warn=False)
    decoded = coder.decode(codes)
    centre = decoded.mean(axis=0)
    decoded -= centre
    right = np.zeros(len(candidates))
    for start in range(0, len(rows), BLOCK):
        some = slice(start, start + BLOCK)
        far = squared_distances(double(rows[some]) - centre, decoded)
        leave_out(far, start)
        places = _candidates(codes, some, max(candidates) if coder.bits else len(rows))
        far = np.take_along_axis(far, places, axis=1)
        for number, count in enumerate(candidates):
            among = far[:, :count] if coder.bits else far
            first = np.argpartition(among, k - 1, axis=1)[:, :k]
            answers = np.take_along_axis(places, first, axis=1)
            right[number] += np.take_along_axis(near[some], answers, axis=1).sum()
    found: NDArray[np.float64] = right / (k * len(rows))
    return found


def _candidates(codes: Codes, some: slice, count: int) -> NDArray[np.intp]:
    """The places (q, count) of the codes nearest to some of them, nearest first."""
    distances = codes[some].hamming(codes).astype(np.float64)
    leave_out(distances, some.start)
    keys = distances + np.arange(len(codes)) / len(codes)  # of equally near ones the first
    places = np.argpartition(keys, count - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(keys, places, axis=1), axis=1)
    return np.take_along_axis(places, order, axis=1)
