"""An index that learns while rows come and go, of the parts: encoder, coders and codes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_rows, squared_distances, to_numpy
from streambits.epochs.coder_set import CoderSet
from streambits.index import HammingIndex, Hits
from streambits.index.hits import no_hits
from streambits.methods.settings import Settings
from streambits.model.batches import RowBatch
from streambits.online import OnlineEncoder


class OnlineIndex:
    """Rows in, neighbours out, for runbooks; `add`, `remove` and `search` as they ask for.

    Parameters
    ----------
    settings : Settings
    **options
        Those of `CoderSet.search`, for every search.

    Notes
    -----
    The first rows, until `settings.gathered` are live, are kept as they are and searched by their
    true distances; then they are encoded, and only codes are kept. Rows that were deleted stay in
    what was learned.
    """

    def __init__(self, settings: Settings, **options: Any) -> None:
        self.settings, self.options = settings, options
        self.coders = CoderSet(seed=settings.seed)
        self.codes: HammingIndex | None = None
        self._waiting: dict[int, NDArray[Any]] = {}
        self._encoder: OnlineEncoder | None = None

    def __len__(self) -> int:
        return len(self._waiting) + (0 if self.codes is None else len(self.codes))

    def add(self, rows: Any, ids: NDArray[np.int64]) -> None:
        """Insert rows (n, d), in place of those that their ids (n,) have."""
        rows = to_numpy(as_rows(rows))
        if self._encoder is None:
            self._waiting |= dict(zip(ids.tolist(), rows, strict=True))
            if len(self._waiting) >= self.settings.gathered:
                self._start()
            return
        for batch in self._encoder.batch(ids, rows):
            self._codes().upsert(batch.codes, batch.ids)

    def _start(self) -> None:
        ids, rows = np.array(list(self._waiting)), np.stack(list(self._waiting.values()))
        self._encoder, codes = OnlineEncoder.start(
            self.settings, [RowBatch(ids, rows)], coders=self.coders
        )
        for batch in codes:
            self._codes().upsert(batch.codes, batch.ids)
        self._waiting = {}

    def _codes(self) -> HammingIndex:
        if self.codes is None:
            self.codes = HammingIndex(self.coders.newest.bits)
        return self.codes

    def remove(self, ids: NDArray[np.int64]) -> None:
        """Delete ids (n,)."""
        if self.codes is not None:
            self.codes.remove(ids)
            return
        for one in ids.tolist():
            del self._waiting[one]

    def search(self, queries: Any, k: int = 10) -> Hits:
        """Find the k nearest of each query (n, d)."""
        if self.codes is not None:
            return self.coders.search(self.codes, queries, k, **self.options)
        if not self._waiting:
            return no_hits(len(queries), np.float64)
        rows = np.stack(list(self._waiting.values())).astype(np.float64)
        centre = rows.mean(axis=0)
        squared = squared_distances(to_numpy(as_rows(queries)) - centre, rows - centre)
        nearest = np.argsort(squared, axis=1, kind="stable")[:, :k]
        distances = np.sqrt(np.maximum(np.take_along_axis(squared, nearest, axis=1), 0))
        return Hits(np.array(list(self._waiting))[nearest], distances)
