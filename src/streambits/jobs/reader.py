"""Reading a source: in a thread of its own, some batches ahead; or a sample of it."""

import queue
import threading
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits.errors import InputError
from streambits.io.protocols import Source
from streambits.model.batches import RowBatch
from streambits.model.sampling import Reservoir

AHEAD = 4  # batches that wait
TOGETHER, BYTES = 8192, 1 << 25  # rows that are handed on together, if they are there; and bytes
TICK = 0.2  # seconds
TIMEOUT = 2.0  # seconds for the thread to end


class ReadAhead:
    """Iterate over it, inside its context: batches, and None whenever none comes for a while.

    What the source raises is raised here, after the batches before it. Small batches that are there
    already are handed on as one. Memory: some batches.
    """

    def __init__(self, source: Source, offset: Any) -> None:
        self._source, self._offset = source, offset
        self._queue: queue.Queue[RowBatch | BaseException | None] = queue.Queue(AHEAD)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True, name="streambits-reader")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(TIMEOUT)  # one that waits for a broker or for input is left behind

    def __iter__(self) -> Iterator[RowBatch | None]:
        held: list[RowBatch] = []
        while True:
            try:
                found = self._queue.get(timeout=0 if held else TICK)
            except queue.Empty:
                yield _joined(held) if held else None
                held = []
                continue
            if held and not (isinstance(found, RowBatch) and _fits(held, found)):
                yield _joined(held)
                held = []
            if not isinstance(found, RowBatch):
                if found is None:
                    return
                raise found
            held.append(found)

    def _read(self) -> None:
        batches = self._source.read(self._offset)
        try:
            for batch in batches:
                if not self._put(batch):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._put(error)
        finally:
            getattr(batches, "close", lambda: None)()

    def _put(self, found: RowBatch | BaseException | None) -> bool:
        """Whether anyone still reads."""
        while not self._over.is_set():
            try:
                self._queue.put(found, timeout=TICK)
            except queue.Full:
                continue
            return True
        return False


def _fits(held: list[RowBatch], batch: RowBatch) -> bool:
    both, first = [*held, batch], held[0].rows
    return (
        sum(len(one.ids) for one in both) <= TOGETHER
        and sum(one.rows.nbytes for one in both) <= BYTES
        and first.dtype == batch.rows.dtype
        and first.shape[1:] == batch.rows.shape[1:]
    )


def _joined(batches: list[RowBatch]) -> RowBatch:
    """Chunks that follow each other as one."""
    if len(batches) == 1:
        return batches[0]
    return RowBatch(
        np.concatenate([batch.ids for batch in batches]),
        np.concatenate([batch.rows for batch in batches]),
        batches[-1].offset,
        tuple(chain.from_iterable(batch.rejects for batch in batches)),
    )


class SourceSample(NamedTuple):
    """A uniform sample of the rows of a source, and how many rows of it were bad."""

    rows: NDArray[Any]
    rejects: int


def sample_source(source: Source, size: int, seed: int = 0) -> SourceSample:
    """Draw a uniform sample of the rows of a source, in one pass.

    Parameters
    ----------
    source : Source
        Read to its end.
    size : int
        Number of rows; all of them if there are fewer.
    seed : int, default 0
        Random seed.
    """
    held, bad = None, 0
    for batch in source.read():
        bad += len(batch.rejects)
        if len(batch.rows):
            held = held or Reservoir(size, batch.rows, inputs=batch.rows.shape[1], seed=seed)
            held.update(batch.rows)
    if held is None:
        raise InputError(f"{source.name} has no row that can be used")
    return SourceSample(held.rows, bad)
