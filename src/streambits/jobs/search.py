"""Search by rows: codes wherever they lie, by the model that made them."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.epochs.coder_set import CoderSet
from streambits.errors import EpochError, InputError, StorageError
from streambits.index import HammingIndex, Hits, rerank
from streambits.index.queries import last_of_each
from streambits.io.codes import code_format, open_codes
from streambits.io.protocols import Source
from streambits.jobs.models import OpenModel, open_model_of
from streambits.model.batches import RowBatch
from streambits.model.coder import Coder

MORE = 10  # times k: candidates that are ranked again
TRIES, TICK = 20, 0.25  # how often a running job is opened again, and seconds between
Ids = NDArray[np.int64]
NO_IDS: Ids = np.empty(0, np.int64)


class Ranking(NamedTuple):
    """How codes with a refinement are ranked: the options of `HammingIndex.search`.

    Attributes
    ----------
    candidates : int or "all", optional
        Codes of each epoch that are ranked.
    metric : {"euclidean", "inner", "cosine"}
    exact : array or callable, optional
        Raw rows, to prove the answers.
    """

    candidates: int | str | None = None
    metric: str = "euclidean"
    exact: Any = None

    def set(self) -> list[str]:
        """Names of what is not the default."""
        return [
            name for name in self._fields if getattr(self, name) is not getattr(NO_RANKING, name)
        ]


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
        Numbers of bits, estimates of Euclidean distances, or distances from what codes decode to.
    certain : list of bool, optional
        Which answers are proven to be among the true ones.
    reads : int, optional
        Raw rows that were read to prove all of them.
    """

    query: int
    ids: list[int]
    distances: list[float]
    certain: list[bool] | None = None
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
    found = open_model_of(codes, model)
    newest = found.coder
    bytes_only = code_format(codes) in ("faiss", "packed", "jsonl", "npy")
    bits = newest.bits if bytes_only else None
    index = open_codes(codes, epoch=newest.epoch, bits=bits).index()
    if (newest.bits, newest.refine) != (index.bits, index.refine or 0):
        raise InputError(
            f"{codes} has codes of {_length(index)}, and the model {found.path} makes "
            f"{_length(newest)}: name the model they were made with (--model)"
        )
    for _ in range(TRIES):  # the codes of a job that runs may be newer than its checkpoint
        held = found.content
        if not (found.live and isinstance(held, CoderSet)) or set(index.epochs) <= set(held):
            break
        time.sleep(TICK)
        found = open_model_of(codes, model)
    return Searcher(index, found, _remove_retired(index, found.content))


def _length(of: HammingIndex | Coder) -> str:
    return f"{of.bits} bits and {of.refine} bytes of refinement" if of.refine else f"{of.bits} bits"


def _remove_retired(index: HammingIndex, model: Any) -> int:
    """Codes of epochs that a job has retired (--keep-epochs) are not searched; gives how many."""
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
    Of others, with several epochs distances are estimates of Euclidean ones, with one they are
    numbers of bits.

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

    def search(
        self,
        rows: NDArray[Any],
        k: int = 10,
        *,
        real: bool = False,
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
        real : bool
            Compare the queries' real values instead of their bits, which ranks better. For codes
            of one epoch, or with a refinement, whose candidates are then found by them.
        allow : array of int, optional
            Ids to choose from.
        ranking : Ranking
            How codes with a refinement are ranked; others refuse what is not the default.
        name : str
            What the queries are called in messages.
        """
        self.model.check_rows(rows.shape[1], name)
        coders = self.model.coders
        if self.index.refine:
            decoded = {
                epoch: self._coder(epoch).queries(rows, real=real) for epoch in self.index.epochs
            }
            return self.index.search(decoded, k, allow=allow, **ranking._asdict())
        if ranking.set():
            raise InputError(
                f"{', '.join(ranking.set())} is for codes with a refinement, and these have none: "
                f"learn with --refine 8, or leave it out"
            )
        if real:
            if len(self.index.epochs) > 1:
                raise InputError(
                    "real values of several epochs are on no common scale: leave --real out, or "
                    "bring all codes to one epoch with streambits reencode"
                )
            values = {epoch: self._coder(epoch).project(rows) for epoch in self.index.epochs}
            return self.index.search(values, k, allow=allow)
        if isinstance(coders, CoderSet):
            return coders.search(self.index, rows, k, allow=allow)
        return self.index.search(self._encoded(rows), k, allow=allow)

    def within(self, rows: NDArray[Any], radius: int, *, name: str = "the queries") -> list[Hits]:
        """Find all codes within so many bits of each row."""
        self.model.check_rows(rows.shape[1], name)
        return self.index.within(self._encoded(rows), radius)

    def answers(
        self,
        batches: Iterable[RowBatch],
        k: int = 10,
        *,
        real: bool = False,
        allow: Ids | None = None,
        ranking: "Ranking" = NO_RANKING,
        radius: int | None = None,
        name: str = "the queries",
    ) -> Iterator[Answer]:
        """An answer for each query, as they come. radius: in place of k, `within`."""
        for ids, rows, *_ in filter(_has_rows, batches):
            if radius is not None:
                yield from _answers(ids, self.within(rows, radius, name=name))
            else:
                hits = self.search(rows, k, real=real, allow=allow, ranking=ranking, name=name)
                yield from _answers(ids, _split(hits))

    def reranked(
        self,
        batches: Iterable[RowBatch],
        source: Source,
        k: int = 10,
        *,
        real: bool = False,
        allow: Ids | None = None,
        name: str = "the queries",
    ) -> Iterator[Answer]:
        """The same, with ten times as many candidates ranked again by their rows.

        The source of the rows is read once, for all queries. Memory: the queries and the rows of
        their candidates.
        """
        held = list(filter(_has_rows, batches))
        more = {"real": real, "allow": allow, "name": name}
        found = [self.search(batch.rows, MORE * k, **more) for batch in held]  # type: ignore[arg-type]
        wanted = np.unique(np.concatenate([NO_IDS, *(hits.ids.ravel() for hits in found)]))
        vectors = _rows_of(source, wanted)
        for batch, hits in zip(held, found, strict=True):
            again = rerank(hits, batch.rows, lambda some: vectors[np.searchsorted(wanted, some)], k)
            yield from _answers(batch.ids, _split(again))

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


def _has_rows(batch: RowBatch) -> bool:
    return len(batch.rows) > 0


def _split(hits: Hits) -> list[Hits]:
    """The hits of each query."""
    count = len(hits)
    certain = [None] * count if hits.certain is None else hits.certain
    reads = [None] * count if hits.reads is None else hits.reads
    return [Hits(*each) for each in zip(hits.ids, hits.distances, reads, certain, strict=True)]


def _answers(queries: Ids, found: list[Hits]) -> Iterator[Answer]:
    """Hits as plain values."""
    for query, hits in zip(queries.tolist(), found, strict=True):
        certain = None if hits.certain is None else hits.certain.tolist()
        reads = None if hits.reads is None else int(hits.reads)
        yield Answer(query, hits.ids.tolist(), hits.distances.tolist(), certain, reads)


def rows_by_id(source: Source) -> Callable[[Ids], NDArray[Any]]:
    """Read all rows of a source; returns a function from ids to their rows. Memory: the rows."""
    batches = [batch for batch in source.read() if len(batch.ids)]
    if not batches:
        raise StorageError(f"{source.name} has no rows")
    ids = np.concatenate([batch.ids for batch in batches])
    rows = np.concatenate([batch.rows for batch in batches])
    last = last_of_each(ids)
    ids, rows = ids[last], rows[last]
    order = np.argsort(ids)

    def look_up(asked: Ids) -> NDArray[Any]:
        places = order[np.minimum(np.searchsorted(ids, asked, sorter=order), len(ids) - 1)]
        there = ids[places] == asked
        if not there.all():
            raise _no_row(source, asked[~there][0])
        found: NDArray[Any] = rows[places]
        return found

    return look_up


def _no_row(source: Source, missing: int) -> InputError:
    return InputError(
        f"{source.name} has no row of the id {missing}, which was found: pass the rows that were "
        f"encoded, with their ids (--rerank-ids)"
    )


def _rows_of(source: Source, ids: Ids) -> NDArray[Any]:
    """The rows of these ids, which ascend; a pass over the source."""
    rows: NDArray[Any] | None = None
    there = np.zeros(len(ids), np.bool_)
    for batch in source.read():
        wanted = np.isin(batch.ids, ids)
        places = np.searchsorted(ids, batch.ids[wanted])
        if rows is None:
            rows = np.zeros((len(ids), batch.rows.shape[1]), batch.rows.dtype)
        rows[places], there[places] = batch.rows[wanted], True
    if rows is None:
        raise StorageError(f"{source.name} has no rows")
    if not there.all():
        raise _no_row(source, ids[~there][0])
    return rows
