"""Measure how well codes find true neighbours among a user's own rows, at several sizes."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Array,
    as_count,
    as_number,
    as_rows,
    as_seed,
    double,
    squared_distances,
    to_numpy,
)
from streambits.epochs.coder_set import CoderSet, newest_coder
from streambits.errors import InputError, RankError
from streambits.evaluation.bits import bit_balance, bit_correlation, bit_use
from streambits.evaluation.ranking import (
    counts_by_level,
    hamming_counts,
    mean_average_precision,
)
from streambits.evaluation.result import (
    PLAIN,
    PRODUCT,
    REFINED,
    Affinities,
    BytesScore,
    Evaluation,
    LengthScore,
)
from streambits.evaluation.truth import true_neighbours
from streambits.features import GaussianAffinity
from streambits.index import HammingIndex
from streambits.methods.linear import product
from streambits.model.coder import Coder
from streambits.model.codes import Codes, as_bits
from streambits.model.learner import Learner
from streambits.model.metric import compared
from streambits.model.quantiser import MOST_BYTES
from streambits.sketches import FrequentDirections, Sketch

LENGTHS = (16, 32, 64, 96, 128, 192, 256, 384, 512)
BYTES = (4, 8, 16, 32)
SPLITS = (0.25, 0.5, 0.75)  # shares of sign bits that are compared at the size of the model
RERANKED = (1, 2, 5, 10, 20)  # candidates per answer
QUERIES, ROWS = 1000, 20_000
FIRST = 500  # rows from which a learner of product codes is built
HELD_OUT = 5  # rows per query that is held out, at least
BLOCK = 64  # queries ranked at a time
AFFINITY_ROWS = 4000  # rows whose affinities to the landmarks are looked at
ALONE = 0.01  # sum of squared affinities below which a row has no landmark near it


def evaluate(
    model: Learner | Coder | CoderSet,
    rows: Array,
    *,
    queries: Array | int = QUERIES,
    k: int = 10,
    lengths: Sequence[int] = LENGTHS,
    bytes: Sequence[int] | None = None,  # noqa: A002 - what users call it
    target: float = 0.95,
    sample: int = ROWS,
    seed: int | np.random.Generator = 0,
    on_code: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Measure how well a model's codes find the nearest of your own rows.

    The true nearest rows are found by exact search in double precision; a row as near as the k-th
    counts as one of them. The codes are searched as `HammingIndex` does it: sign bits by Hamming
    distance; codes with a refinement also by what they decode to, with the default number of
    candidates.

    Parameters
    ----------
    model : Learner, Coder or CoderSet
        What encodes the rows; of several epochs the newest. Other lengths and sizes are learned
        anew, for which a learner is needed: a coder does not know how it was learned.
    rows : array of shape (n, d)
        Rows like those that the model is used for.
    queries : int or array of shape (q, d), default 1000
        Rows to search for. A number: that many are drawn from `rows`, at most a fifth of them,
        and held out: they are not in the database, and the other lengths do not learn them.
    k : int, default 10
        Number of nearest rows to find. Recall is measured in the first `k` answers and after
        re-ranking 2, 5, 10 and 20 times as many candidates by true distance.
    lengths : sequence of int
        Numbers of sign bits to compare, 16 to 512 by default; an empty one skips the comparison.
    bytes : sequence of int, optional
        Bytes per row, 2 to 256, to compare: half of them sign bits of the same features and half a
        refinement, and product codes. At the size of the model other splits are compared too. By
        default 4, 8, 16 and 32; none where `lengths` is empty.
    target : float, default 0.95
        The recall that the advice aims at.
    sample : int, default 20000
        Number of rows to use; of more, that many are drawn.
    seed : int, default 0
        Seed of the sample and the queries.
    on_code : callable, optional
        Called before other codes are learned, with their size, such as "64 bits + 8 bytes".

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
    >>> found = sb.evaluate(learner, data, lengths=(32, 128), bytes=(8,))
    >>> found.queries, found.rows, found.candidates
    (600, 2400, (10, 20, 50, 100, 200))
    >>> found.model.recall[100] > found.model.recall[10]
    True
    >>> sorted({one.label for one in found.sizes if one.n_bytes == 8})
    ['16 bits + 6 bytes', '32 bits + 4 bytes', '48 bits + 2 bytes', '64 bits', '8 bytes']
    """
    coder, learner = newest_coder(model), model if isinstance(model, Learner) else None
    k, seed = as_count(k, "k"), as_seed(seed)
    target = as_number(target, "target", above=0, most=1)
    lengths = sorted({as_bits(length) for length in lengths})
    sizes = (BYTES if lengths else ()) if bytes is None else bytes
    sizes = sorted({as_count(size, "bytes", least=2, most=MOST_BYTES) for size in sizes})
    width = coder.features.inputs
    every = to_numpy(as_rows(rows, width=width))
    drawn = np.random.default_rng(seed).permutation(len(every))
    every = every[drawn[: as_count(sample, "sample")]]
    here, asked = _split(every, queries, k, width)
    task = _Task(here, asked, true_neighbours(here, asked, k), k)
    own, others = task.score(coder), list[LengthScore]()
    for length in lengths:
        if length != own.bits:
            on_code(f"{length} bits")
            others.append(_relearned(learner, length, task))
    if lengths:
        others = sorted([*others, own], key=lambda one: one.bits)
    codes = coder.encode(here)
    itself = _itself(coder, own, task)
    near = _affinities(coder, here)
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
        itself=itself,
        affinities=near,
        sizes=(*_plain(own, others, k), *_sized(learner, itself, sizes, task, on_code)),
    )


class _Task(NamedTuple):
    """What is searched for what, and which rows are the true neighbours of each query."""

    rows: NDArray[Any]
    queries: NDArray[Any]
    near: NDArray[np.bool_]
    k: int

    def score(self, coder: Coder) -> LengthScore:
        """Recall as a search has it, and MAP in expectation over ties.

        By Hamming distance; without sign bits, by what codes decode to.
        """
        codes = coder.encode(self.rows)
        candidates = list(dict.fromkeys(min(self.k * n, len(codes)) for n in RERANKED))
        signs = coder.encode(self.queries) if coder.bits else None
        asked = coder.queries(self.queries) if signs is None else signs
        found = _index(codes).search(asked, candidates[-1]).ids
        recall = {n: self._recall(found[:, :n]) for n in candidates}
        if signs is None:
            counted = counts_by_level(self._decoded(coder.decode(codes)), self.near, len(codes))
        else:
            counted = hamming_counts(codes, signs, self.near)
        return LengthScore(codes.bits, recall, mean_average_precision(counted))

    def answers(self, coder: Coder) -> float:
        """Recall of the first answers, ranked by what codes decode to."""
        index = _index(coder.encode(self.rows))
        return self._recall(index.search(coder.queries(self.queries), self.k).ids)

    def _recall(self, found: NDArray[np.intp]) -> float:
        """The share of the k nearest rows among these answers or candidates."""
        right = np.take_along_axis(self.near, found, axis=1).sum(axis=1)
        return float(np.minimum(right, self.k).mean() / self.k)

    def _decoded(self, decoded: NDArray[np.float64]) -> Iterator[NDArray[np.int64]]:
        """The places of all rows in the rankings by distance to what they decode to."""
        centre = decoded.mean(axis=0)
        for start in range(0, len(self.queries), BLOCK):
            asked = double(self.queries[start : start + BLOCK])
            far = squared_distances(asked - centre, decoded - centre)
            yield np.argsort(np.argsort(far, axis=1, kind="stable"), axis=1)


def _affinities(coder: Coder, rows: NDArray[Any]) -> Affinities | None:
    """What the bandwidth of a kernel means for the rows; nothing of other features."""
    features = coder.features
    if not isinstance(features, GaussianAffinity):
        return None
    w = double(to_numpy(features(compared(rows[:AFFINITY_ROWS], coder.metric))))
    squares = np.vecdot(w, w)
    alone = float((squares < ALONE).mean())
    return Affinities(features.bandwidth, alone, float(squares.mean() / w.shape[1]))


def _index(codes: Codes) -> HammingIndex:
    index = HammingIndex(codes.bits)
    index.add(codes)
    return index


def _itself(coder: Coder, own: LengthScore, task: _Task) -> BytesScore:
    """What the model itself reaches in the first answers."""
    if not coder.refine:
        return BytesScore(PLAIN, own.bits, 0, own.recall[task.k])
    kind = REFINED if coder.bits else PRODUCT
    return BytesScore(kind, coder.bits, coder.refine, task.answers(coder))


def _plain(own: LengthScore, others: Sequence[LengthScore], k: int) -> list[BytesScore]:
    """Sign bits alone, by their bytes."""
    scores = sorted({one.bits: one for one in (*others, own)}.values(), key=lambda one: one.bits)
    return [
        BytesScore(PLAIN, one.bits, 0, one.recall[k]) for one in scores if one.recall and one.bits
    ]


def _sized(
    learner: Learner | None,
    itself: BytesScore,
    sizes: Sequence[int],
    task: _Task,
    on_code: Callable[[str], None],
) -> list[BytesScore]:
    """Refined codes and product codes of these numbers of bytes, and of that of the model."""
    found = [] if itself.kind == PLAIN else [itself]
    if learner is None or not sizes:
        return found
    here, seed = itself.n_bytes, learner.seed
    splits = {(size, size // 2) for size in sizes}
    splits |= {(here, round(share * here)) for share in SPLITS if here <= MOST_BYTES}
    for size, signs in sorted(splits):
        one = BytesScore(REFINED, 8 * signs, size - signs)
        if signs and size > signs and (one.bits, one.refine) != (itself.bits, itself.refine):
            build = partial(resized, learner, one.bits, refine=one.refine, certified=False)
            found.append(_tried(one, build, task, on_code))
    for size in sorted({*sizes, *([here] if here <= MOST_BYTES else [])}):
        one = BytesScore(PRODUCT, 0, size)
        if (one.kind, one.refine) != (itself.kind, itself.refine):
            build = partial(product, task.rows[:FIRST], refine=size, epochs="never", seed=seed)
            found.append(_tried(one, build, task, on_code))
    return found


def _tried(
    one: BytesScore, build: Callable[[], Learner], task: _Task, on_code: Callable[[str], None]
) -> BytesScore:
    """The same with the recall of codes that are learned anew; or why there are none."""
    on_code(one.label)
    try:
        coder = build().learn(task.rows).coder()
    except (InputError, RankError) as error:
        return replace(one, reason=str(error))
    return replace(one, recall=task.answers(coder))


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
        coder = resized(learner, bits, refine=0).learn(task.rows).coder()
    except (InputError, RankError) as error:
        return LengthScore(bits, {}, reason=str(error))
    return task.score(coder)


def resized(
    learner: Learner, bits: int, *, refine: int | None = None, certified: bool | None = None
) -> Learner:
    """A new learner of the same features and settings with codes of another length.

    Parameters
    ----------
    learner : Learner
        The model; it stays as it is.
    bits : int
        Length of the codes. A sketch of l rows grows or shrinks with it. Codes that had no sign
        bits get rotated ones (`itq`).
    refine : int, optional
        Bytes of the refinement; as many as before by default.
    certified : bool, optional
        Whether a byte bounds the error, as before by default; never without a refinement.

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
    refine = learner.refine if refine is None else refine
    certified = learner.certified if certified is None else certified
    return Learner(
        learner.features,
        _sketch(learner.sketch, bits, learner.bits),
        bits=bits,
        whitening=learner.whitening,
        rotation=learner.rotation if learner.bits else "itq",
        prior=prior if len(prior) else None,
        refine=refine,
        certified=certified and refine > 0,
        seed=learner.seed,
    )


def _sketch(sketch: Sketch, bits: int, before: int) -> Sketch:
    """An empty sketch of the same kind; one of l rows grows with the number of bits."""
    if isinstance(sketch, FrequentDirections):
        return sketch.with_size(max(2, math.ceil(sketch.size * bits / before)))
    return sketch.fresh()
