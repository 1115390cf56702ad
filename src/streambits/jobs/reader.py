"""Reading a source: in a thread of its own, some batches ahead; or a sample of it."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

from numpy.typing import NDArray

from streambits._device import Uploader
from streambits.errors import InputError
from streambits.io.protocols import Source
from streambits.model.batches import RowBatch, join_batches
from streambits.model.sampling import Reservoir

AHEAD = 4  # batches that wait
TOGETHER, BYTES = 8192, 1 << 25  # rows that are handed on together, if they are there; and bytes
TOGETHER_THERE, BYTES_THERE, AHEAD_THERE = 131072, 1 << 27, 32  # the same for a device
TICK = 0.2  # seconds
TIMEOUT = 2.0  # seconds for the thread to end


class ReadAhead:
    """Iterate over it, inside its context: batches, and None whenever none comes for a while.

    What the source raises is raised here, after the batches before it. Small batches that are there
    already are handed on as one. Memory: some batches.

    Parameters
    ----------
    source : Source
    offset : JSON value or None
        Where to begin.
    device : str, optional
        Where rows are handed on, as torch knows it: a second thread copies them there, while
        others are read and those before them are worked on. More of them are then put together.
    """

    def __init__(self, source: Source, offset: Any, device: str | None = None) -> None:
        ahead = AHEAD if device is None else AHEAD_THERE
        read = _Stage(lambda: source.read(offset), "streambits-reader", ahead)
        self._stages: list[_Stage] = [read]
        self._most = (TOGETHER, BYTES) if device is None else (TOGETHER_THERE, BYTES_THERE)
        if device is not None:
            there = Uploader(device)

            def uploaded() -> Iterator[RowBatch]:
                for batch in self._batches(read):
                    if batch is not None:
                        rows = there(batch.rows) if len(batch.rows) else batch.rows
                        yield batch._replace(rows=rows)

            self._stages.append(_Stage(uploaded, "streambits-uploader", AHEAD))

    def __enter__(self) -> Self:
        for stage in self._stages:
            stage.start()
        return self

    def __exit__(self, *_: object) -> None:
        for stage in self._stages:
            stage.stop()

    def __iter__(self) -> Iterator[RowBatch | None]:
        if len(self._stages) > 1:
            yield from self._stages[-1]
        else:
            yield from self._batches(self._stages[0])

    def _batches(self, stage: "_Stage") -> Iterator[RowBatch | None]:
        """What a stage gives, with small batches that are there already put together."""
        held: list[RowBatch] = []
        for found in stage.items(lambda: 0 if held else TICK):
            if held and not (isinstance(found, RowBatch) and _fits(held, found, *self._most)):
                yield join_batches(held)
                held.clear()
            elif found is None:
                yield None
            if isinstance(found, BaseException):
                raise found
            if found is not None:
                held.append(found)
        if held:
            yield join_batches(held)


class _Stage:
    """A thread that goes through an iterator, some items ahead."""

    def __init__(self, work: Callable[[], Iterator[RowBatch]], name: str, ahead: int) -> None:
        self._work = work
        self._queue: queue.Queue[RowBatch | BaseException | None] = queue.Queue(ahead)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(TIMEOUT)  # one that waits for a broker or for input is left behind

    def __iter__(self) -> Iterator[RowBatch | None]:
        for found in self.items(lambda: TICK):
            if isinstance(found, BaseException):
                raise found
            yield found

    def items(self, timeout: Callable[[], float]) -> Iterator[RowBatch | BaseException | None]:
        """The items, at last what was raised, and None whenever none comes for so many seconds."""
        while not self._over.is_set():
            try:
                found = self._queue.get(timeout=timeout())
            except queue.Empty:
                yield None
                continue
            if found is None:
                return
            yield found

    def _run(self) -> None:
        items = self._work()
        try:
            for item in items:
                if not self._put(item):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._put(error)
        finally:
            getattr(items, "close", lambda: None)()

    def _put(self, found: RowBatch | BaseException | None) -> bool:
        """Whether anyone still reads."""
        while not self._over.is_set():
            try:
                self._queue.put(found, timeout=TICK)
            except queue.Full:
                continue
            return True
        return False


def _fits(held: list[RowBatch], batch: RowBatch, rows: int, size: int) -> bool:
    """Whether one more batch is put together with others, of at most so many rows and bytes."""
    both, first = [*held, batch], held[0].rows
    return (
        sum(len(one.ids) for one in both) <= rows
        and sum(one.rows.nbytes for one in both) <= size
        and first.dtype == batch.rows.dtype
        and first.shape[1:] == batch.rows.shape[1:]
        and held[0].ids.dtype == batch.ids.dtype
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
