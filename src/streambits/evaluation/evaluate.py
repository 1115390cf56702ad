"""Measure how well codes find true neighbours among a user's own rows, at several lengths."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, as_count, as_number, as_rows, as_seed, to_numpy
from streambits.epochs.coder_set import CoderSet, newest_coder
from streambits.errors import InputError, RankError
from streambits.evaluation.bits import bit_balance, bit_correlation, bit_use
from streambits.evaluation.quality import average_precision
from streambits.evaluation.ranking import mean
from streambits.evaluation.result import Evaluation, LengthScore
from streambits.evaluation.truth import true_neighbours
from streambits.index import HammingIndex
from streambits.model.coder import Coder
from streambits.model.codes import Codes, as_bits
from streambits.model.learner import Learner
from streambits.sketches import Fixed, FrequentDirections, Sketch

LENGTHS = (16, 32, 64, 96, 128, 192, 256, 384, 512)
RERANKED = (1, 2, 5, 10, 20)  # candidates per answer
QUERIES, ROWS = 1000, 20_000
HELD_OUT = 5  # rows per query that is held out, at least
BLOCK = 64  # queries ranked at a time


def evaluate(
    model: Learner | Coder | CoderSet,
    rows: Array,
    *,
    queries: Array | int = QUERIES,
    k: int = 10,
    lengths: Sequence[int] = LENGTHS,
    target: float = 0.95,
    sample: int = ROWS,
    seed: int | np.random.Generator = 0,
    on_length: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Measure how well a model's codes find the nearest of your own rows.

    The true nearest rows are found by exact search in double precision; a row as near as the k-th
    counts as one of them. The codes are searched as `HammingIndex` does it.

    Parameters
    ----------
    model : Learner, Coder or CoderSet
        What encodes the rows; of several epochs the newest. Other lengths are learned anew, for
        which a learner is needed: a coder does not know how it was learned.
    rows : array of shape (n, d)
        Rows like those that the model is used for.
    queries : int or array of shape (q, d), default 1000
        Rows to search for. A number: that many are drawn from `rows`, at most a fifth of them,
        and held out: they are not in the database, and the other lengths do not learn them.
    k : int, default 10
        Number of nearest rows to find. Recall is measured in the first `k` answers and after
        re-ranking 2, 5, 10 and 20 times as many candidates by true distance.
    lengths : sequence of int
        Lengths of codes to compare, 16 to 512 bits by default; an empty one skips the comparison.
    target : float, default 0.95
        The recall that the advice aims at.
    sample : int, default 20000
        Number of rows to use; of more, that many are drawn.
    seed : int, default 0
        Seed of the sample and the queries.
    on_length : callable, optional
        Called with each length before it is learned.

    Returns
    -------
    Evaluation
        The figures, with advice in words.

    Raises
    ------
    InputError
        If there are too few rows for `k`, or they do not fit the model.

    Notes
    -----
    Recall falls as the database grows: the figures are those of as many rows as were searched.
    Costs q n d for the true neighbours, and for each length what learning and encoding n rows
    cost; memory 8 x 64 n bytes and a byte per query and row.

    Examples
    --------
    >>> import streambits as sb
    >>> data = np.random.default_rng(0).random((3000, 8), dtype=np.float32)
    >>> learner = sb.ssbc(data[:200], 64).learn(data)
    >>> found = sb.evaluate(learner, data, lengths=(32, 128))
    >>> found.queries, found.rows, found.candidates
    (600, 2400, (10, 20, 50, 100, 200))
    >>> found.model.recall[100] > found.model.recall[10]
    True
    """
    coder, learner = newest_coder(model), model if isinstance(model, Learner) else None
    k, seed = as_count(k, "k"), as_seed(seed)
    target = as_number(target, "target", above=0, most=1)
    lengths = sorted({as_bits(length) for length in lengths})
    width = coder.features.inputs
    every = to_numpy(as_rows(rows, width=width))
    drawn = np.random.default_rng(seed).permutation(len(every))
    every = every[drawn[: as_count(sample, "sample")]]
    here, asked = _split(every, queries, k, width)
    task = _Task(here, asked, true_neighbours(here, asked, k), k)
    own, others = task.score(coder), list[LengthScore]()
    for length in lengths:
        if length != own.bits:
            on_length(length)
            others.append(_relearned(learner, length, task))
    if lengths:
        others = sorted([*others, own], key=lambda one: one.bits)
    codes = coder.encode(here)
    return Evaluation(
        model=own,
        lengths=tuple(others),
        k=k,
        target=target,
        rows=len(here),
        queries=len(asked),
        columns=here.shape[1],
        use=bit_use(codes),
        balance=bit_balance(codes),
        correlation=bit_correlation(codes),
    )


class _Task(NamedTuple):
    """What is searched for what, and which rows are the true neighbours of each query."""

    rows: NDArray[Any]
    queries: NDArray[Any]
    near: NDArray[np.bool_]
    k: int

    def score(self, coder: Coder) -> LengthScore:
        """Recall as a search has it, and MAP in expectation over ties."""
        codes, asked = coder.encode(self.rows), coder.encode(self.queries)
        index = HammingIndex(codes.bits)
        index.add(codes)
        candidates = list(dict.fromkeys(min(self.k * n, len(codes)) for n in RERANKED))
        found = index.search(asked, candidates[-1]).ids
        right = np.cumsum(np.take_along_axis(self.near, found, axis=1), axis=1)
        recall = {n: float(np.minimum(right[:, n - 1], self.k).mean() / self.k) for n in candidates}
        return LengthScore(codes.bits, recall, float(mean(self._precisions(codes, asked))))

    def _precisions(self, codes: Codes, asked: Codes) -> NDArray[np.float64]:
        precisions = []
        for start in range(0, len(asked), BLOCK):
            some = slice(start, start + BLOCK)
            distances = asked[some].hamming(codes)
            precisions.append(average_precision(distances, self.near[some], codes.bits + 1))
        return np.concatenate(precisions)


def _split(
    every: NDArray[Any], queries: Array | int, k: int, width: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows to search, and the queries; held out where they are drawn."""
    count = 0
    if isinstance(queries, int):
        count = max(1, min(as_count(queries, "queries"), len(every) // HELD_OUT))
    if len(every) - count < k:
        held = f", {count} of them held out as queries" if count else ""
        raise InputError(
            f"there are {len(every)} rows{held}, and k is {k}: pass more rows, or ask for fewer "
            f"nearest ones"
        )
    if count:
        return every[count:], every[:count]
    return every, to_numpy(as_rows(queries, width=width, name="queries"))


def _relearned(learner: Learner | None, bits: int, task: _Task) -> LengthScore:
    """What the same method reaches with codes of another length; or why it has none."""
    if learner is None:
        reason = "a coder does not record how it was learned: evaluate the learner"
        return LengthScore(bits, {}, reason=reason)
    try:
        coder = resized(learner, bits).learn(task.rows).coder()
    except (InputError, RankError) as error:
        return LengthScore(bits, {}, reason=str(error))
    return task.score(coder)


def resized(learner: Learner, bits: int) -> Learner:
    """A new learner of the same features and settings with codes of another length.

    Parameters
    ----------
    learner : Learner
        The model; it stays as it is.
    bits : int
        Length of the codes. A sketch of l rows grows or shrinks with it.

    Returns
    -------
    Learner
        It has learned nothing yet but its prior.

    Raises
    ------
    InputError
        If the method cannot have codes of this length.
    """
    prior = learner.state()["prior"]
    return Learner(
        learner.features,
        _sketch(learner.sketch, bits, learner.bits),
        bits=bits,
        whitening=learner.whitening,
        rotation=learner.rotation,
        prior=prior if len(prior) else None,
        seed=learner.seed,
    )


def _sketch(sketch: Sketch, bits: int, before: int) -> Sketch:
    """An empty sketch of the same kind; one of l rows grows with the number of bits."""
    if isinstance(sketch, FrequentDirections):
        return sketch.with_size(max(2, math.ceil(sketch.size * bits / before)))
    if isinstance(sketch, Fixed) and bits > sketch.capacity:
        raise InputError(
            f"the {sketch.capacity} directions of this method were fixed when it was built, which "
            f"is too few: build a model of {bits} bits to compare"
        )
    return sketch.fresh()
