"""What `streambits search` does with an index, a model and queries."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_ids
from streambits.cli.models import as_coder, check_width
from streambits.epochs.coder_set import CoderSet
from streambits.errors import EpochError, InputError, StorageError
from streambits.index import HammingIndex, Hits, rerank
from streambits.io.codes.npy import load_array
from streambits.io.protocols import Source
from streambits.model.batches import RowBatch
from streambits.model.coder import Coder

MORE = 10  # times k: candidates that are ranked again
Ids = NDArray[np.int64]
NO_IDS: Ids = np.empty(0, np.int64)


class Answer(NamedTuple):
    """query: its number or id; ids, distances: of what was found, nearest first."""

    query: int
    ids: list[int]
    distances: list[float]


@dataclass(frozen=True)
class Finder:
    """An index, the model of its codes, and what is wanted; path: the file of the model."""

    index: HammingIndex
    model: CoderSet | Coder
    path: Path
    k: int = 10
    real: bool = False
    radius: int | None = None
    allow: Ids | None = None

    def find(self, rows: Any, name: str, k: int | None = None) -> list[Hits]:
        """The hits of each query."""
        check_width(rows.shape[1], as_coder(self.model), name, self.path)
        if self.radius is not None:
            codes = {epoch: self._coder(epoch).encode(rows) for epoch in self.index.epochs}
            return self.index.within(codes, self.radius)
        hits = (self._by_values if self.real else self._by_codes)(rows, k or self.k)
        return [Hits(ids, far) for ids, far in zip(hits.ids, hits.distances, strict=True)]

    def _coder(self, epoch: int) -> Coder:
        if isinstance(self.model, CoderSet):
            return self.model[epoch]
        if self.model.epoch != epoch:
            raise EpochError(
                f"there are codes of epoch {epoch}, and {self.path} knows only epoch "
                f"{self.model.epoch}: name the coders of all epochs (--model coders.safetensors)"
            )
        return self.model

    def _by_codes(self, rows: Any, k: int) -> Hits:
        if isinstance(self.model, CoderSet):
            return self.model.search(self.index, rows, k, allow=self.allow)
        codes = {epoch: self._coder(epoch).encode(rows) for epoch in self.index.epochs}
        return self.index.search(codes, k, allow=self.allow)

    def _by_values(self, rows: Any, k: int) -> Hits:
        if len(self.index.epochs) > 1:
            raise InputError(
                "real values of several epochs are on no common scale: leave --real out, or bring "
                "all codes to one epoch with streambits reencode"
            )
        values = {epoch: self._coder(epoch).project(rows) for epoch in self.index.epochs}
        return self.index.search(values, k, allow=self.allow)

    def answers(self, chunks: Iterable[RowBatch], name: str) -> Iterator[Answer]:
        """An answer for each query, as they come."""
        for chunk in chunks:
            if len(chunk.rows):
                yield from told(chunk.ids, self.find(chunk.rows, name))

    def reranked(self, chunks: Iterable[RowBatch], name: str, rows: Source) -> Iterator[Answer]:
        """The same, with ten times as many candidates ranked again by their rows.

        The rows are read once, for all queries. Memory: the queries and their candidates.
        """
        held = [chunk for chunk in chunks if len(chunk.rows)]
        found = [self.find(chunk.rows, name, MORE * self.k) for chunk in held]
        kept = np.unique(np.concatenate([NO_IDS, *(hits.ids for part in found for hits in part)]))
        vectors = rows_of(rows, kept)
        for chunk, part in zip(held, found, strict=True):
            ids = np.array([hits.ids for hits in part])
            again = rerank(
                Hits(ids, np.zeros(ids.shape)),
                chunk.rows,
                lambda some: vectors[np.searchsorted(kept, some)],
                self.k,
            )
            pairs = zip(again.ids, again.distances, strict=True)
            yield from told(chunk.ids, [Hits(*pair) for pair in pairs])


def told(queries: Ids, found: list[Hits]) -> Iterator[Answer]:
    """Hits as plain values."""
    for query, hits in zip(queries.tolist(), found, strict=True):
        yield Answer(query, hits.ids.tolist(), hits.distances.tolist())


def rows_of(source: Source, ids: Ids) -> NDArray[Any]:
    """The rows of these ids, which ascend; a pass over the source."""
    rows: NDArray[Any] | None = None
    there = np.zeros(len(ids), np.bool_)
    for chunk in source.read():
        wanted = np.isin(chunk.ids, ids)
        places = np.searchsorted(ids, chunk.ids[wanted])
        if rows is None:
            rows = np.zeros((len(ids), chunk.rows.shape[1]), chunk.rows.dtype)
        rows[places], there[places] = chunk.rows[wanted], True
    if rows is None:
        raise StorageError(f"{source.name} has no rows")
    if not there.all():
        raise InputError(
            f"{source.name} has no row of the id {ids[~there][0]}, which was found: pass the rows "
            f"that were encoded, with their ids (--rerank-ids)"
        )
    return rows


def read_ids(text: str) -> Ids:
    """Ids in a text (1,2,3), a .npy file, or a file of a line each."""
    try:
        if all(part.strip().lstrip("-").isdigit() for part in text.split(",")):
            return np.array(text.split(","), np.int64)
        if text.endswith(".npy"):
            return as_ids(load_array(Path(text)).reshape(-1))
        return np.array(Path(text).read_text(encoding="utf-8").split(), np.int64)
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(f"{text} cannot be read as ids, one per line or 1,2,3: {error}") from error
