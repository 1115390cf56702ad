"""Arguments of an index, checked: queries for each epoch it holds, codes and ids."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import (
    Ids,
    array_namespace,
    as_count,
    as_ids,
    as_rows,
    double,
    is_array_api_obj,
    to_numpy,
)
from streambits.errors import EpochError, InputError
from streambits.index.rerank import as_look_up
from streambits.index.store import Words
from streambits.model.coder import Coder, RowQueries
from streambits.model.codes import Codes
from streambits.model.metric import COSINE
from streambits.model.refinement import Refinement

Rows = NDArray[np.float64]
Weights = NDArray[np.float64]


ALL = "all"  # codes are ranked


class Query(NamedTuple):
    """words: (q, width) signs; weights: (q, bits) what a differing bit costs, None for 1."""

    words: Words
    weights: Weights | None

    def some(self, which: slice | NDArray[np.int64]) -> "Query":
        """Some of the queries."""
        return Query(self.words[which], None if self.weights is None else self.weights[which])


class RowQuery(NamedTuple):
    """Queries that rank codes of one epoch by what they decode to.

    rows: (q, d); refinement: decodes the codes; single: whether these were encoded in single
    precision; find: what finds candidates, None for codes without bits.
    """

    rows: Rows
    refinement: Refinement
    single: bool
    find: Query | None

    def some(self, which: slice | NDArray[np.int64]) -> "RowQuery":
        """Some of the queries."""
        find = None if self.find is None else self.find.some(which)
        return self._replace(rows=self.rows[which], find=find)


def by_epoch(queries: Any, bits: int, epochs: Collection[int]) -> tuple[dict[int, Query], int]:
    """The queries for each live epoch, and how many there are.

    queries: Codes, (q, bits) real values, or a mapping from each live epoch to either.
    """
    if not isinstance(queries, Mapping):
        queries = {_epoch_of(queries, epochs): queries}
    asked = {epoch: as_query(some, bits, epoch) for epoch, some in queries.items()}
    counts = {len(query.words) for query in asked.values()}
    if len(counts) != 1:
        raise InputError(
            f"the epochs got {sorted(counts)} queries: encode the same rows with every coder"
        )
    if epochs:
        _check_epochs(asked, epochs)
    return asked, counts.pop()


def rows_by_epoch(
    queries: Any, bits: int, refine: int | None, epochs: Collection[int]
) -> tuple[dict[int, RowQuery], int]:
    """The queries for each live epoch, and how many there are, where they keep their rows.

    queries: RowQueries, or a mapping from each live epoch to them. All epochs are asked for the
    rows of the first, for others may have them in another precision.
    """
    asked = {queries.coder.epoch: queries} if isinstance(queries, RowQueries) else dict(queries)
    for epoch, some in asked.items():
        if not isinstance(some, RowQueries):
            raise InputError(
                f"queries has rows for one epoch, and for epoch {epoch} a {type(some).__name__}: "
                f"pass coder.queries(rows) for each epoch"
            )
        _check_coder(some.coder, bits, refine, epoch)
    finds: Mapping[int, Query | None] = dict.fromkeys(asked)
    if bits:
        finds, _ = by_epoch({e: some.asked for e, some in asked.items()}, bits, epochs)
    elif epochs:
        _check_epochs(asked, epochs)
    rows = asked[min(asked)].rows
    for epoch, some in asked.items():
        if some.rows.shape != rows.shape:
            raise InputError(
                f"queries has rows of shape {some.rows.shape} for epoch {epoch}, and of shape "
                f"{rows.shape} for epoch {min(asked)}: pass the same rows to each coder"
            )
    return {
        epoch: RowQuery(rows, _refinement(some.coder), _is_single(some.coder), finds[epoch])
        for epoch, some in asked.items()
    }, len(rows)


def have_rows(queries: Any) -> bool:
    """Whether queries keep their rows, for any epoch."""
    some = queries.values() if isinstance(queries, Mapping) else (queries,)
    return any(isinstance(one, RowQueries) for one in some)


def metric_for(queries: Any, metric: str | None, exact: Any) -> str:
    """The metric of a search by rows: as asked, or that of the coders of the queries."""
    some = queries.values() if isinstance(queries, Mapping) else (queries,)
    own = next(one.coder.metric for one in some if isinstance(one, RowQueries))
    if exact is not None and own == COSINE and metric not in (None, COSINE):
        raise InputError(
            f"metric is {metric!r}, and the coder has learned angles alone (metric 'cosine'), by "
            f"which nothing else is proven: leave out exact or metric"
        )
    return metric or own


def _check_coder(coder: Coder, bits: int, refine: int | None, epoch: int) -> None:
    """Refuse a coder that does not decode the codes of an epoch."""
    if coder.epoch != epoch:
        raise EpochError(f"the queries passed for epoch {epoch} are of epoch {coder.epoch}")
    if coder.bits != bits:
        raise InputError(
            f"queries are of a coder of {coder.bits} bits, but this index holds codes of {bits}"
        )
    if refine == 0:
        raise InputError(
            "this index holds plain codes, which do not decode: search by coder.encode(rows)"
        )
    if refine is not None and coder.refine != refine:
        raise InputError(
            f"queries are of a coder of {coder.refine} bytes of refinement, but this index holds "
            f"codes of {refine}: encode them with the coder of these codes"
        )


def _refinement(coder: Coder) -> Refinement:
    assert coder.refinement is not None  # RowQueries are made by coders that have one
    return coder.refinement


def _is_single(coder: Coder) -> bool:
    like = coder.features.like
    return bool(array_namespace(like).finfo(like.dtype).bits == 32)


def as_query(values: Any, bits: int, epoch: int) -> Query:
    """One epoch's queries."""
    if isinstance(values, Codes):
        check_bits(values, bits)
        if values.epoch != epoch:
            raise EpochError(f"the codes passed for epoch {epoch} are of epoch {values.epoch}")
        return Query(values.words(), None)
    rows = to_numpy(double(as_rows(values, width=bits, name="queries")))
    _check_real(values)
    return Query(Codes.from_bits(rows > 0).words(), np.abs(rows))


def _check_real(values: Any) -> None:
    """Refuse bits and whole numbers: as real values, a bit that is 0 would not count at all."""
    array = values if is_array_api_obj(values) else np.asarray(values)
    if array_namespace(array).isdtype(array.dtype, ("bool", "integral")):
        raise InputError(
            f"queries has the type {array.dtype}: pass bits as Codes.from_bits(queries), packed "
            f"bytes as Codes(queries, bits), and real values, as coder.project gives, as floats"
        )


def as_scales(
    scales: Mapping[int, Any], asked: Mapping[int, Query], bits: int
) -> dict[int, NDArray[np.float64]]:
    """For each epoch asked, finite numbers that never fall along a row.

    (q, bits + 1) of them for codes; (q, 2) or more for real values.
    """
    checked = {}
    for epoch, query in asked.items():
        if epoch not in scales:
            raise EpochError(f"scales has none for epoch {epoch}: pass one for each epoch")
        scale = np.asarray(scales[epoch], np.float64)
        shape = (len(query.words), bits + 1)
        if query.weights is not None and scale.ndim == 2:
            shape = (len(query.words), max(2, scale.shape[1]))
        if scale.shape != shape or not np.isfinite(scale).all() or (np.diff(scale) < 0).any():
            raise InputError(
                f"the scale of epoch {epoch} must be {shape} finite numbers that rise along each "
                f"row; got shape {scale.shape}"
            )
        checked[epoch] = scale
    return checked


class Ranking(NamedTuple):
    """How decoded rows are ranked.

    candidates: how many of each epoch, "all", or None for the default; look_up: from ids to raw
    rows, None to rank by decoded rows alone.
    """

    candidates: int | str | None
    metric: str
    look_up: Callable[[Ids], Any] | None


def as_ranking(candidates: Any, metric: str, exact: Any, k: int) -> Ranking:
    """The options of a search by rows, checked."""
    everything = isinstance(candidates, str) and candidates == ALL
    if isinstance(candidates, str) and not everything:
        raise InputError(f"candidates is {candidates!r}; it must be a whole number or {ALL!r}")
    if not (candidates is None or everything):
        candidates = as_count(candidates, "candidates")
        if candidates < k:
            raise InputError(
                f"candidates is {candidates}, and k is {k}: rank at least as many as you want"
            )
        if exact is not None:
            raise InputError(
                f"exact proves answers among all codes, and candidates is {candidates}: leave out "
                f"one of them"
            )
    look_up = None if exact is None else as_look_up(exact, "exact")
    return Ranking(candidates, metric, look_up)


def check_bits(codes: Any, bits: int) -> None:
    """Refuse what is not Codes of this length."""
    if not isinstance(codes, Codes):
        raise InputError(
            f"codes is a {type(codes).__name__}; pass streambits.Codes, as coder.encode gives"
        )
    if codes.bits != bits:
        raise InputError(
            f"codes have {codes.bits} bits, but this index holds codes of {bits}: "
            f"encode with a coder of {bits} bits"
        )


def as_paired_ids(ids: Any, count: int) -> Ids:
    """(count,) ids of as many codes."""
    paired = as_ids(ids)
    if len(paired) != count:
        raise InputError(f"there are {len(paired)} ids for {count} codes: pass one id per code")
    return paired


def last_of_each(ids: Ids) -> NDArray[np.bool_]:
    """Which of the ids do not come again. Memory: about 24 bytes per id.

    >>> last_of_each(np.array([1, 2, 1])).tolist()
    [False, True, True]
    """
    if len(ids) < 2 or (ids[1:] > ids[:-1]).all():
        return np.ones(len(ids), np.bool_)
    last = np.zeros(len(ids), np.bool_)
    last[len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]] = True
    return last


def _epoch_of(queries: Any, epochs: Collection[int]) -> int:
    if isinstance(queries, Codes):
        return queries.epoch
    if len(epochs) > 1:
        raise EpochError(
            f"the index holds epochs {_listed(epochs)}: pass a mapping from each of them to the "
            f"values that its coder projects the queries to"
        )
    return next(iter(epochs), 0)


def _check_epochs(asked: Collection[int], epochs: Collection[int]) -> None:
    unknown, missing = set(asked) - set(epochs), set(epochs) - set(asked)
    if unknown:
        raise EpochError(
            f"queries are of epoch {_listed(unknown)}, and the index holds epoch "
            f"{_listed(epochs)}: encode them with the coder of epoch {_listed(epochs)}"
        )
    if missing:
        raise EpochError(
            f"the index also holds epoch {_listed(missing)}: pass a mapping from every epoch it "
            f"holds to the queries as the coder of that epoch encodes them"
        )


def _listed(epochs: Collection[int]) -> str:
    return ", ".join(map(str, sorted(epochs)))
