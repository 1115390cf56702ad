"""Service: one index in a folder, one thread that changes it, and any number that search it.

Changes wait in a bounded queue. The thread that writes takes all that wait, puts neighbours of one
kind into one record of the journal, and answers each of them when that record is on the disk. So
many small requests cost one fsync, and whoever was answered has lost nothing whatever happens.
"""

import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Ids, as_ids, concat_ids, to_numpy
from streambits.epochs.detector import ALARM
from streambits.errors import InputError, StorageError, StreambitsError, UnreachableError
from streambits.index import Hits
from streambits.index.hits import merge_nearest, no_hits
from streambits.index.rerank import nearest_rows
from streambits.io.protocols import Source, Verifiable
from streambits.model.batches import RowBatch
from streambits.model.coder import Coder
from streambits.stream_index import StreamIndex

GROUP = 65_536  # rows, at most, of changes that are committed together
SMALL = 64  # queries, at most, of a search that does not wait behind large ones
RATE = 10.0  # seconds over which rows per second are counted
EVENTS = 256  # epoch changes and alarms that are remembered
RECENT, PER_COMMIT = 500, 8  # rows for the map, and how many of a commit
SOURCE_RETRY_SECONDS = 5.0  # seconds until a source that could not be read is tried again
TRUE_ROWS = 8192  # raw rows that are compared at a time
BY = ("default", "refined", "hamming", "true")
logger = logging.getLogger("streambits")


class BusyError(StreambitsError):
    """Too much waits already: try again after `seconds`."""

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds


class UnavailableError(StreambitsError):
    """The index cannot answer that, or cannot yet."""


class Event(NamedTuple):
    """Something that happened.

    Attributes
    ----------
    number : int
        Counted from 1.
    kind : str
        epoch, alarm or source.
    facts : dict
        Plain values.
    """

    number: int
    kind: str
    facts: dict[str, Any]


@dataclass(eq=False)
class _Change:
    """What is to be done to the index, and who waits for it."""

    kind: str
    ids: Ids | None = None
    rows: NDArray[Any] | None = None
    note: Any = None
    done: "Future[int]" = field(default_factory=Future)

    def joins(self, other: "_Change") -> bool:
        """Whether both can be one record of the journal, this one behind the other."""
        if self.kind != other.kind or self.kind not in ("add", "remove") or other.note is not None:
            return False
        if getattr(self.ids, "dtype", None) != getattr(other.ids, "dtype", None):
            return False
        if self.rows is None or other.rows is None:
            return True
        same = self.rows.shape[1] == other.rows.shape[1]
        return same and self.rows.dtype == other.rows.dtype


class Query(NamedTuple):
    """A search.

    Attributes
    ----------
    rows : array of shape (n, d)
    k : int
    by : str
        One of `BY`: "default" and "refined" are what the index does by itself, "hamming" compares
        numbers of bits, "true" compares raw rows.
    candidates, rerank, exact, allow
        As for `StreamIndex.search`.
    """

    rows: NDArray[Any]
    k: int = 10
    by: str = "default"
    candidates: Any = None
    rerank: int | None = None
    exact: bool = False
    allow: Any = None


class _Searchers:
    """A thread that searches, and the bounded number of searches that wait for it."""

    def __init__(self, name: str, length: int) -> None:
        self._thread, self._length = ThreadPoolExecutor(1, f"streambits {name}"), length
        self._room = threading.BoundedSemaphore(length)

    def submit(self, work: Callable[[Query], Hits], query: Query) -> "Future[Hits]":
        """Search when it is its turn."""
        if not self._room.acquire(blocking=False):
            raise BusyError(f"{self._length} searches wait: ask again later")
        done = self._thread.submit(work, query)
        done.add_done_callback(lambda _: self._room.release())
        return done

    def close(self) -> None:
        """Answer all that wait, and end."""
        self._thread.shutdown()


class Service:
    """An index that is changed by one thread and searched by others.

    Parameters
    ----------
    index : StreamIndex
        It must not be changed by anybody else; `close` closes it.
    source : Source, optional
        A stream of rows that is read as well.
    queue_length : int, default 64
        Changes that may wait; more are refused by `BusyError`.
    folder : str or Path, optional
        Where the index is, for messages.

    Notes
    -----
    A batch of a source is one record of the journal, with the offset as its note; ids that it
    removes are removed before, in a record without one. Both together are exact: whoever is killed
    between the two removes again what is gone, and learns nothing twice. Only where a batch has
    rows of an id that it removes afterwards, the rows come first, and a kill between the two
    records lets them be learned twice; codes and ids are right all the same.
    """

    def __init__(
        self,
        index: StreamIndex,
        *,
        source: Source | None = None,
        queue_length: int = 64,
        folder: str | Path | None = None,
    ) -> None:
        self.index, self.source, self.folder = index, source, folder
        self.started = time.time()
        self.commits = self.searches = self.refused = self.rejects = 0
        self.last_commit: float | None = None
        self.source_state = "none" if source is None else "reading"
        self.source_error = ""
        self.stopping = threading.Event()
        self.failure = ""  # why changes or searches are not made any more
        self.previous: Coder | None = None  # the coder before the current one
        self.coder: Coder | None = index.learner.last_coder if index.learner else None
        self.recent: deque[tuple[int, NDArray[Any]]] = deque(maxlen=RECENT)
        self.events: deque[Event] = deque(maxlen=EVENTS)
        self._event_lock, self._counted = threading.Lock(), 0
        self._rate: deque[tuple[float, int]] = deque([(time.monotonic(), index.seen)], maxlen=512)
        self._epoch = None if index.learner is None else index.learner.epoch
        self._measured = max((one.rows for one in index.drift), default=0)
        self._changes: queue.Queue[_Change | None] = queue.Queue(queue_length)
        self._searchers = _Searchers("search", 8 * queue_length)
        self._large_searchers = _Searchers("search much", queue_length)  # they hold nobody up
        self._threads: list[threading.Thread] = []
        self._entry = threading.Lock()  # nothing enters the queue after its end
        self._closed = False

    def start(self) -> Self:
        """Begin to work."""
        works = {"write": self._write}
        if self.source is not None:
            works["consume"] = self._consume
        for name, work in works.items():
            title = f"streambits {name}"
            thread = threading.Thread(target=self._run, args=(title, work), name=title, daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def _run(self, name: str, work: Callable[[], None]) -> None:
        """Do the work of a thread; if it fails, nothing is taken any more and nobody waits."""
        try:
            work()
        except BaseException as error:
            logger.exception("the thread %r has failed", name)
            self._fail(error)
            self._refuse_waiting()

    def _fail(self, error: BaseException) -> None:
        """Take nothing any more, since a thread cannot go on; called in that thread."""
        name = threading.current_thread().name
        with self._entry:
            reason = f"the thread {name!r} has failed: {type(error).__name__}: {error}"
            self.failure = self.failure or reason

    def _refuse_waiting(self) -> None:
        """Answer changes that wait by the failure."""
        with suppress(queue.Empty):
            while True:
                change = self._changes.get_nowait()
                if change is not None and change.done.set_running_or_notify_cancel():
                    change.done.set_exception(StorageError(self._failed))

    @property
    def _failed(self) -> str:
        return f"{self.failure}: start the service again"

    def close(self) -> None:
        """Commit what waits, end all threads and close the index."""
        self.stopping.set()
        with self._entry:
            if self._closed:
                return
            self._closed = True
        self._changes.put(None)
        for thread in self._threads:
            thread.join(timeout=60 if "consume" not in thread.name else 2)  # it may wait for rows
        self._searchers.close()
        self._large_searchers.close()
        self.index.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # Changes

    def add(self, ids: Ids, rows: NDArray[Any]) -> "Future[int]":
        """Add checked rows (n, d), or replace those of the same ids; when it is done, it is kept.

        Raises
        ------
        BusyError
            If too many changes wait.
        """
        return self._enqueue(_Change("add", ids, rows))

    def remove(self, ids: Ids) -> "Future[int]":
        """Remove rows; the result is how many there were."""
        return self._enqueue(_Change("remove", ids))

    def renew(self) -> "Future[int]":
        """Begin a new epoch; the result is its number."""
        return self._enqueue(_Change("renew"))

    def reencode(self) -> "Future[int]":
        """Make the codes of epochs that are over again; the result is how many."""
        return self._enqueue(_Change("reencode"))

    def _enqueue(self, change: _Change, *, wait: bool = False) -> "Future[int]":
        with self._entry:
            self._check_open()
            try:
                self._changes.put_nowait(change)
            except queue.Full:
                self.refused += not wait
                raise BusyError(
                    f"{self._changes.qsize()} changes wait to be committed: send this again later"
                ) from None
            return change.done

    def _check_open(self) -> None:
        """Refuse what would never be answered; inside `_entry`."""
        if self._closed:
            raise BusyError("the service is stopping: send this again to the next one", 5)
        if self.failure:
            raise StorageError(self._failed)

    @property
    def queued(self) -> int:
        """Changes that wait."""
        return self._changes.qsize()

    def _write(self) -> None:
        """Take changes and make them, until None comes."""
        ended = False
        while not ended:
            waiting, ended = self._waiting_changes()
            wanted = [one for one in waiting if one.done.set_running_or_notify_cancel()]
            try:
                for group in _groups(wanted):
                    self._commit(group)
            except BaseException as error:
                self._fail(error)
                for change in wanted:
                    if not change.done.done():
                        change.done.set_exception(StorageError(self._failed))
                raise

    def _waiting_changes(self) -> tuple[list[_Change], bool]:
        """The next change and those behind it, some `GROUP` rows; and whether None has come."""
        waiting, rows = [self._changes.get()], 0
        with suppress(queue.Empty):
            while waiting[-1] is not None and rows < GROUP:
                rows += 0 if waiting[-1].rows is None else len(waiting[-1].rows)
                waiting.append(self._changes.get_nowait())
        return [one for one in waiting if one is not None], waiting[-1] is None

    def _commit(self, group: list[_Change]) -> None:
        """Make changes of one kind; if one of them is refused, each by itself."""
        try:
            results = self._applied(group)
        except Exception as error:
            if len(group) > 1 and isinstance(error, InputError):
                for change in group:
                    self._commit([change])
                return
            if not isinstance(error, StreambitsError):
                logger.exception("a change could not be made")
            for change in group:
                change.done.set_exception(error)
            return
        self._committed(group)
        for change, result in zip(group, results, strict=True):
            change.done.set_result(result)

    def _applied(self, group: list[_Change]) -> list[int]:
        index, first = self.index, group[0]
        note = group[-1].note
        if first.kind == "add":
            rows = [change.rows for change in group if change.rows is not None]
            ids = [change.ids for change in group if change.ids is not None]
            joined = rows[0] if len(rows) == 1 else np.concatenate(rows)
            index.add(joined, ids[0] if len(ids) == 1 else np.concatenate(ids), note=note)
            return [len(one) for one in rows]
        if first.kind == "remove":
            ids = [change.ids for change in group if change.ids is not None]
            if len(ids) == 1:
                return [index.remove(ids[0], note=note)]
            counts = self._counts(ids)
            index.remove(concat_ids(ids), note=note)
            return counts
        return [index.renew() if first.kind == "renew" else index.reencode()]

    def _counts(self, parts: Sequence[Ids]) -> list[int]:
        """How many of each will have been removed, one after the other."""
        gone: set[Any] = set()
        counts = []
        for ids in parts:
            here = {one for one in ids.tolist() if one in self.index} - gone
            gone |= here
            counts.append(len(here))
        return counts

    def _committed(self, group: list[_Change]) -> None:
        """Count, and notice what has changed."""
        now, learner = time.monotonic(), self.index.learner
        self.commits += 1
        self.last_commit = time.time()
        if now - self._rate[-1][0] > 0.05:
            self._rate.append((now, self.index.seen))
        if learner is None:
            return
        coder = learner.last_coder
        if coder is not self.coder:
            self.previous, self.coder = self.coder, coder
        last = group[-1].rows
        if last is not None:
            step = max(1, len(last) // PER_COMMIT)
            epoch = learner.epoch
            self.recent.extend((epoch, np.array(row)) for row in last[::step][:PER_COMMIT])
        self._notice(learner.epoch, learner.drift)

    def _notice(self, epoch: int, drift: tuple[Any, ...]) -> None:
        for one in drift[::-1]:
            if one.rows <= self._measured:
                break
            facts = {"rows": one.rows, "epoch": one.epoch}
            evidence = (("proportions", one.proportion_evidence), ("distances", one.evidence))
            what = next((name for name, value in evidence if value > ALARM), None)
            if what is not None:
                self.happened("alarm", what=what, evidence=dict(evidence)[what], **facts)
                break
        if drift:
            self._measured = max(self._measured, drift[-1].rows)
        if epoch != self._epoch:
            self._epoch = epoch
            self.happened("epoch", epoch=epoch, rows=self.index.seen)

    def happened(self, kind: str, **facts: Any) -> None:
        """Remember an event."""
        with self._event_lock:
            self._counted += 1
            self.events.append(Event(self._counted, kind, facts))

    @property
    def last_event(self) -> int:
        """Number of the last event."""
        return self._counted

    def events_since(self, number: int) -> list[Event]:
        """Return the events after one, as far as they are remembered."""
        with self._event_lock:
            return [event for event in self.events if event.number > number]

    @property
    def rate(self) -> float:
        """Rows per second that came in, over the last seconds."""
        now = time.monotonic()
        times = list(self._rate)
        old = next((at for at in reversed(times) if at[0] <= now - RATE), times[0])
        seconds = now - old[0]
        return (self.index.seen - old[1]) / seconds if seconds > 0 else 0.0

    # Searches

    def search(self, query: Query) -> "Future[Hits]":
        """Search in a thread that does that.

        Raises
        ------
        BusyError
            If too many searches wait.
        """
        large = len(query.rows) > SMALL or query.by == "true" or query.allow is not None
        large = large or bool(query.rerank) or query.exact
        with self._entry:
            self._check_open()
            return (self._large_searchers if large else self._searchers).submit(self._answer, query)

    def _answer(self, query: Query) -> Hits:
        try:
            hits = self.found(query)
        except Exception as error:
            if not isinstance(error, StreambitsError):
                logger.exception("a search failed")
            raise
        self.searches += 1
        return hits

    def found(self, query: Query) -> Hits:
        """Search now, in this thread."""
        if query.by == "true":
            return self._true_neighbours(query)
        self._check_possible(query)
        real: bool | str = False if query.by == "hamming" else "auto"
        return self.index.search(
            query.rows,
            query.k,
            allow=query.allow,
            candidates=query.candidates,
            rerank=query.rerank,
            exact=query.exact or None,
            real=real,
            decode=query.by != "hamming",
        )

    def _check_possible(self, query: Query) -> None:
        index = self.index
        if index.learner is None:
            return
        if query.exact and not (index.learner.certified and index.keep_rows):
            raise UnavailableError(
                "proofs need raw rows and codes that are certified: begin an index with "
                "--keep-rows, --refine and --set certified=true, or leave exact out"
            )
        if query.rerank and not index.keep_rows:
            raise UnavailableError("rerank needs raw rows: begin an index with --keep-rows")
        if query.candidates is not None and not index.codes.refine:
            raise UnavailableError(
                "candidates are for codes with a refinement: begin an index with --refine, or "
                "leave candidates out"
            )

    def _true_neighbours(self, query: Query) -> Hits:
        index = self.index
        if index.learner is None:
            return index.search(query.rows, query.k, allow=query.allow)
        if not index.keep_rows:
            raise UnavailableError(
                "true distances need raw rows, and this index does not keep them: begin one with "
                "--keep-rows"
            )
        if query.allow is None:
            ids = concat_ids([batch.ids for batch in index.codes.items()])
        else:
            allowed = as_ids(query.allow, "allow")
            ids = np.unique(allowed[index.codes.has(allowed)]) if len(allowed) else allowed
        found = no_hits(len(query.rows), np.float64)
        for start in range(0, len(ids), TRUE_ROWS):
            part = ids[start : start + TRUE_ROWS]
            near = nearest_rows(query.rows, part, index.rows(part), query.k, index.settings.metric)
            found = merge_nearest([found, near], query.k) if len(found.ids[0]) else near
        return found

    def rows_of(self, ids: Any) -> NDArray[Any]:
        """Return the raw rows of ids.

        Raises
        ------
        UnavailableError
            If raw rows are not kept.
        InputError
            If an id is not there.
        """
        if self.index.learner is not None and not self.index.keep_rows:
            raise UnavailableError(
                "raw rows are not kept, so there is nothing to look up by an id: begin an index "
                "with --keep-rows, or send the row itself"
            )
        return self.index.rows(ids)

    # The source

    def _consume(self) -> None:
        """Read the source to its end, or until the service stops; errors are shown, and tried."""
        while not self.stopping.is_set():
            try:
                self._read_source()
            except UnreachableError as error:
                self._source_failed("away", str(error))
                self.stopping.wait(SOURCE_RETRY_SECONDS)
            except Exception as error:  # the service goes on answering
                if not isinstance(error, StreambitsError):
                    logger.exception("the source cannot be read")
                self._source_failed("failed", str(error))
                return
            else:
                self.source_state = "stopped" if self.stopping.is_set() else "ended"
                return

    def _source_failed(self, state: str, reason: str) -> None:
        if self.source_state != state:
            self.happened("source", state=state, reason=reason)
        self.source_state, self.source_error = state, reason
        logger.warning("the source: %s", reason)

    def _read_source(self) -> None:
        source = self.source
        assert source is not None
        for batch in source.read(offset_of(self.index.note, source)):
            self.source_state, self.source_error = "reading", ""
            for reject in batch.rejects[:3]:
                logger.warning("left out: %s: %s", reject.where, reject.reason)
            for change in changes_of(batch, note_of(source, batch.offset)):
                if not self._pass_on(change):
                    return
            self.rejects += len(batch.rejects)
            if self.stopping.is_set():
                return

    def _pass_on(self, change: _Change) -> bool:
        """Let a change of the source be made; False if the service stops before."""
        while not self.stopping.is_set():
            try:
                self._enqueue(change, wait=True).result()
            except BusyError:
                self.stopping.wait(0.01)
            else:
                return True
        return False

    @property
    def lag(self) -> int | None:
        """Rows that wait in the broker, where that is known."""
        return getattr(self.source, "lag", None)

    @property
    def alive(self) -> bool:
        """Whether its threads work; if not, only another process can help."""
        return not self.failure and not self.index.closed

    @property
    def ready(self) -> bool:
        """Whether changes and searches are answered."""
        return bool(self._threads) and self.alive and not self._closed


def note_of(source: Source, offset: Any) -> dict[str, Any]:
    """What is kept with a change, so that the source continues behind it."""
    note = {"source": source.identity(), "offset": offset}
    if isinstance(source, Verifiable):
        note["evidence"] = source.evidence(offset)
    return note


def offset_of(note: Any, source: Source) -> Any:
    """Where a source continues, by the note of the last change.

    Raises
    ------
    InputError
        If the index was fed from another source, or files of it were exchanged since.
    """
    identity = source.identity()
    if note is None:
        return None
    if not isinstance(note, dict) or "offset" not in note:
        raise InputError(f"the index has the note {note!r}, which is not the offset of a source")
    if note.get("source") != identity:
        raise InputError(
            f"this index was fed from {note.get('source')}, and not from {identity}: serve it "
            f"without --source, or use another folder"
        )
    changed = source.changes(note["evidence"]) if isinstance(source, Verifiable) else []
    if changed:
        raise InputError(
            f"the source has changed since it was read: {changed[0]}. Restore it, or use another "
            f"folder"
        )
    return note["offset"]


def changes_of(batch: RowBatch, note: Any) -> list[_Change]:
    """What a batch of a source does, as few changes, of which the last has the note."""
    rows = to_numpy(batch.rows)
    gone = batch.removed
    if not len(rows):
        return [_Change("remove", gone, note=note)]
    if not len(gone):
        return [_Change("add", batch.ids, rows, note)]
    within = np.isin(gone, batch.ids)
    if within.any():  # rows that come and go: they are learned, then removed
        return [_Change("add", batch.ids, rows), _Change("remove", gone, note=note)]
    return [_Change("remove", gone), _Change("add", batch.ids, rows, note)]


def resident_bytes() -> int | None:
    """Memory of this process, where the system says it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _groups(changes: list[_Change]) -> Iterator[list[_Change]]:
    """Neighbours that can be one record."""
    group: list[_Change] = []
    for change in changes:
        if group and not change.joins(group[-1]):
            yield group
            group = []
        group.append(change)
    if group:
        yield group
