"""A small stream without an end, to look at a service: topics that move now and then."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from streambits.errors import InputError
from streambits.model.batches import Removals, RowBatch

COLUMNS, TOPICS = 16, 12
BATCH, PAUSE = 50, 0.1  # rows that come together, and the seconds between
FIRST = 6000  # rows that are there from the start
MOVES = 20_000  # rows after which all topics are elsewhere
KEPT = 30_000  # rows after which one is removed


class ExampleStream:
    """Rows near topics, 500 per second; the same rows from any offset.

    Examples
    --------
    >>> batch = next(ExampleStream(pause=0).read(100))
    >>> batch.ids[:3].tolist(), batch.rows.shape, batch.offset
    ([100, 101, 102], (50, 16), 150)
    """

    name = "an example"

    def __init__(self, pause: float = PAUSE) -> None:
        self._pause = pause

    @property
    def length(self) -> None:
        """It has no end."""

    def identity(self) -> Any:
        return {"example": 1}

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        if offset is not None and type(offset) is not int:
            raise InputError(f"{offset!r} is not an offset of {self.name}")
        start = offset or 0
        while True:
            ids = np.arange(start, start + BATCH)
            gone = ids[ids >= KEPT] - KEPT
            removals = Removals(gone, np.zeros(len(gone), np.int64)) if len(gone) else None
            start += BATCH
            yield RowBatch(ids, _rows(start - BATCH), start, removals=removals)
            if start > FIRST:
                time.sleep(self._pause)


def _rows(start: int) -> Any:
    """The rows of the batch that begins there."""
    topics = np.random.default_rng(start // MOVES).standard_normal((TOPICS, COLUMNS)) * 3
    rng = np.random.default_rng([start, 1])
    near = topics[rng.integers(TOPICS, size=BATCH)]
    return (near + rng.standard_normal(near.shape)).astype(np.float32)
