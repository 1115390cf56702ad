"""Search by rows: codes wherever they lie, by the model that made them."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import IdPlaces, Ids, as_rows, concat_ids
from streambits.epochs.coder_set import AUTO, CoderSet, uses_real
from streambits.errors import ChangedError, EpochError, InputError, ReachError, StorageError
from streambits.index import HammingIndex, Hits, rerank
from streambits.index.queries import last_of_each
from streambits.io.codes import code_format, open_codes
from streambits.io.protocols import Source
from streambits.jobs.models import OpenModel, open_model_of
from streambits.model.batches import RowBatch
from streambits.model.coder import REMEDY, Coder, warn_of_reach

MORE = 10  # times k: candidates that are ranked again
TRIES, TICK = 20, 0.25  # how often a running job is opened again, and seconds between


class Ranking(NamedTuple):
    """How codes with a refinement are ranked: the options of `HammingIndex.search`.

    Attributes
    ----------
    candidates : int or "all", optional
        Codes of each epoch that are ranked.
    metric : {"euclidean", "inner", "cosine"}, optional
        That of the model by default.
    exact : array or callable, optional
        Raw rows, to prove the answers.
    """

    candidates: int | str | None = None
    metric: str | None = None
    exact: Any = None

    def set(self) -> list[str]:
        """Names of what is not the default."""
        return [name for name, value in self._asdict().items() if value is not None]


NO_RANKING = Ranking()


class Answer(NamedTuple):
    """What was found for a query.

    Attributes
    ----------
    query : int
        Its number or id.
    ids : list of int
        Nearest first.
    distances : list of float
        Sums of the values whose bits differ, or numbers of bits; estimates of Euclidean distances;
        or distances from what codes decode to.
    reads : int, optional
        Raw rows that were read to prove all of them.
    """

    query: int
    ids: list[int]
    distances: list[float]
    reads: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """What there is to say, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def open_searcher(codes: str | Path, model: str | Path | None = None) -> "Searcher":
    """Open codes and the model that made them, to search them by rows.

    Parameters
    ----------
    codes : path
        The folder of a job, which may be running; codes of any format; or an index.
    model : path, optional
        A model or the folder of a job. Default: the model that is recorded with the codes, or in
        or beside them.

    Returns
    -------
    Searcher
        With `search(rows, k)`.

    Raises
    ------
    InputError
        If there is no model, or it makes codes of another length.
    StorageError
        If there are no codes, or a file is damaged.

    Notes
    -----
    Codes whose file records no epoch (FAISS, .npy) are assumed to be of the newest.
    """
    for attempt in range(TRIES):
        try:
            return _opened(codes, model)
        except ChangedError:  # a job that ended, or went on, while its codes were read
            if attempt == TRIES - 1:
                raise
            time.sleep(TICK)
    raise AssertionError("the last try returns or raises")


def _opened(codes: str | Path, model: str | Path | None) -> "Searcher":
    found = open_model_of(codes, model)
    newest = found.coder
    bytes_only = code_format(codes) in ("faiss", "jsonl", "npy")
    bits = newest.bits if bytes_only else None
    job = code_format(codes) == "job" and found.commit is not None
    committed = found.commit.sink if job and found.commit else None
    index = open_codes(codes, epoch=newest.epoch, bits=bits, committed=committed).index()
    if (newest.bits, newest.refine) != (index.bits, index.refine or 0):
        raise InputError(
            f"{codes} has codes of {_length(index)}, and the model {found.path} makes "
            f"{_length(newest)}: name the model they were made with (--model)"
        )
    held = found.content
    if found.live and isinstance(held, CoderSet) and not set(index.epochs) <= set(held):
        raise ChangedError(f"{codes} has codes of an epoch that its job has not committed yet")
    counts = found.commit.counts if job and found.commit else {}
    return Searcher(index, found, _remove_retired(index, found.content), counts)


def _length(of: HammingIndex | Coder) -> str:
    return f"{of.bits} bits and {of.refine} bytes of refinement" if of.refine else f"{of.bits} bits"


def _remove_retired(index: HammingIndex, model: Any) -> int:
    """Codes of epochs that a job has retired (keep_epochs) are not searched; gives how many."""
    if not isinstance(model, CoderSet):
        return 0
    ids = [ids for ids, codes in index.items() if codes.epoch < model.retired]
    if ids:
        index.remove(np.concatenate(ids))
    return sum(map(len, ids))


@dataclass(frozen=True)
class Searcher:
    """Codes, and the model by which queries are encoded once for every epoch of the codes.

    Codes with a refinement are ranked by what they decode to, and distances are those from there.
    Of others, with several epochs distances are estimates of Euclidean ones; with one they are sums
    of the real values whose bits differ, or numbers of bits.

    Attributes
    ----------
    index : HammingIndex
        The codes.
    model : OpenModel
        What encodes queries.
    retired : int
        Number of codes that were left out, because the coders of their epochs were removed.
    """

    index: HammingIndex
    model: OpenModel
    retired: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.index)

    def __str__(self) -> str:
        return f"{len(self):,} codes by {self.model.path}"

    def search(
        self,
        rows: NDArray[Any],
        k: int = 10,
        *,
        real: bool | str = AUTO,
        allow: Ids | None = None,
        ranking: "Ranking" = NO_RANKING,
        name: str = "the queries",
    ) -> Hits:
        """Find the nearest codes of each row.

        Parameters
        ----------
        rows : array of shape (n, d)
            The queries.
        k : int, default 10
            How many to find.
        real : "auto" or bool
            Whether to compare the queries' real values instead of their bits, which ranks better:
            as for `CoderSet.search`.
        allow : array of int, optional
            Ids to choose from.
        ranking : Ranking
            How codes with a refinement are ranked; others refuse what is not the default.
        name : str
            What the queries are called in messages.
        """
        self.model.check_rows(rows.shape[1], name)
        wanted = [
            each for each in ranking.set() if (each, ranking.metric) != ("metric", self.metric)
        ]
        if wanted and not self.index.refine:
            raise InputError(
                f"{', '.join(wanted)} is for codes with a refinement, and these have none: learn "
                f"with --refine 8 (or --metric cosine), or leave it out"
            )
        options = {"allow": allow} | {each: getattr(ranking, each) for each in wanted}
        coders = self.model.coders
        if isinstance(coders, CoderSet):
            return coders.search(self.index, rows, k, real=real, **options)
        queries = self._queries(rows, uses_real(real))
        return self.index.search(queries, k, **options)

    def check_reach(self, rows: NDArray[Any], refuse: bool, name: str) -> None:
        """Refuse queries of which more than half are out of reach in every epoch, or warn."""
        self.model.check_rows(rows.shape[1], name)
        far, lost = np.ones((2, len(rows)), np.bool_)
        for epoch in self.index.epochs:
            coder = self._coder(epoch)
            codes = coder.encode(rows, warn=False)
            far &= coder.out_of_reach(as_rows(rows), codes, crowds=False)
            lost &= coder.out_of_reach(as_rows(rows), codes)
        if not self.index.epochs:
            return
        warn_of_reach(int(lost.sum()), len(lost), "asked for")
        if refuse and far.sum() > len(far) / 2:
            raise ReachError(
                f"{far.sum():,} of {len(far):,} queries are out of reach: too far from all "
                f"landmarks to be told apart; {REMEDY}; --set out_of_reach=accept goes on all the "
                f"same"
            )

    @property
    def metric(self) -> str:
        """By what rows are near, as the model has learned."""
        return self.model.coder.metric

    def _queries(self, rows: NDArray[Any], real: bool) -> dict[int, Any]:
        """What a model of one epoch makes of rows, to be searched for."""
        coders = [self._coder(epoch) for epoch in self.index.epochs] or [self.model.coder]
        if self.index.refine:
            return {coder.epoch: coder.queries(rows, real=real) for coder in coders}
        return {coder.epoch: (coder.project if real else coder.encode)(rows) for coder in coders}

    def within(self, rows: NDArray[Any], radius: int, *, name: str = "the queries") -> list[Hits]:
        """Find all codes within so many bits of each row."""
        self.model.check_rows(rows.shape[1], name)
        return self.index.within(self._encoded(rows), radius)

    def _coder(self, epoch: int) -> Coder:
        coders = self.model.coders
        if isinstance(coders, CoderSet):
            return coders[epoch]
        if coders.epoch != epoch:
            raise EpochError(
                f"there are codes of epoch {epoch}, and {self.model.path} knows only epoch "
                f"{coders.epoch}: name the folder of the job, which has all epochs (--model)"
            )
        return coders

    def _encoded(self, rows: NDArray[Any]) -> dict[int, Any]:
        return {epoch: self._coder(epoch).encode(rows) for epoch in self.index.epochs}

    def answers(
        self,
        batches: Iterable[RowBatch],
        k: int = 10,
        *,
        real: bool | str = AUTO,
        allow: Ids | None = None,
        ranking: "Ranking" = NO_RANKING,
        radius: int | None = None,
        refuse: bool = False,
        name: str = "the queries",
    ) -> Iterator[Answer]:
        """An answer for each query, as they come.

        radius: in place of k, `within`; refuse: whether it is an error if most queries are so far
        from all that was learned that a model cannot tell them apart.
        """
        for ids, rows, *_ in filter(_has_rows, batches):
            self.check_reach(rows, refuse, name)
            if radius is not None:
                yield from _answers(ids, self.within(rows, radius, name=name))
            else:
                hits = self.search(rows, k, real=real, allow=allow, ranking=ranking, name=name)
                yield from answers_of(ids, hits)

    def reranked(
        self,
        batches: Iterable[RowBatch],
        source: Source,
        k: int = 10,
        *,
        real: bool | str = AUTO,
        allow: Ids | None = None,
        metric: str | None = None,
        name: str = "the queries",
    ) -> Iterator[Answer]:
        """The same, with ten times as many candidates ranked again by their rows.

        metric: what their distances are; that of the model by default.

        The source of the rows is read once, for all queries. Memory: the queries and the rows of
        their candidates.
        """
        held = list(filter(_has_rows, batches))
        more: dict[str, Any] = {"real": real, "allow": allow, "name": name}
        found = [self.search(batch.rows, MORE * k, **more) for batch in held]
        look_up = rows_by_id(source, np.unique(concat_ids(hits.ids.ravel() for hits in found)))
        for batch, hits in zip(held, found, strict=True):
            again = rerank(hits, batch.rows, look_up, k, metric=metric or self.metric)
            yield from answers_of(batch.ids, again)


def _has_rows(batch: RowBatch) -> bool:
    return len(batch.rows) > 0


def _split(hits: Hits) -> list[Hits]:
    """The hits of each query."""
    count = len(hits)
    reads = [None] * count if hits.reads is None else hits.reads
    return [Hits(*each) for each in zip(hits.ids, hits.distances, reads, strict=True)]


def _answers(queries: Ids, found: list[Hits]) -> Iterator[Answer]:
    """Hits as plain values."""
    for query, hits in zip(queries.tolist(), found, strict=True):
        reads = None if hits.reads is None else int(hits.reads)
        yield Answer(query, hits.ids.tolist(), hits.distances.tolist(), reads)


def answers_of(queries: Ids, hits: Hits) -> Iterator[Answer]:
    """The hits of a search as answers, one for each query."""
    return _answers(queries, _split(hits))


def rows_by_id(source: Source, wanted: Ids | None = None) -> Callable[[Ids], NDArray[Any]]:
    """Read the rows of a source; returns a function from ids to their rows.

    wanted: ids to which it is limited, of which none may be missing. Memory: the rows that are
    kept.
    """
    is_wanted = None if wanted is None else IdPlaces(wanted)
    batches = [_chosen(batch, is_wanted) for batch in source.read() if len(batch.ids)]
    if not batches:
        raise StorageError(f"{source.name} has no rows")
    ids = concat_ids(batch.ids for batch in batches)
    rows = np.concatenate([batch.rows for batch in batches])
    last = last_of_each(ids)
    find, rows = IdPlaces(ids[last]), rows[last]

    def places_of(asked: Ids) -> NDArray[np.intp]:
        places = find(asked)
        if (places < 0).any():
            raise InputError(
                f"{source.name} has no row of the id {asked[places < 0][0]}, which was found: pass "
                f"the rows that were encoded, with their ids (--set rerank_ids=NAME)"
            )
        return places

    if wanted is not None:
        places_of(wanted)
    return lambda asked: rows[places_of(asked)]


def _chosen(batch: RowBatch, find: IdPlaces | None) -> RowBatch:
    """The rows whose ids can be found; all of them without a limit."""
    if find is None:
        return batch
    chosen = find(batch.ids) >= 0
    return RowBatch(batch.ids[chosen], batch.rows[chosen])
