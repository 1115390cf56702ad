"""The loop of a job: read, work, write; now and then commit."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from streambits._digests import Digest
from streambits.epochs.detector import latest
from streambits.errors import InputError, StorageError, StreambitsError
from streambits.io.protocols import Resumable, Sink, Source
from streambits.jobs.checkpoint import Checkpoint
from streambits.jobs.folder import Folder
from streambits.jobs.progress import Progress, Watcher
from streambits.jobs.reader import Reader
from streambits.jobs.rejects import Rejects
from streambits.jobs.signals import Stop
from streambits.jobs.work import Work
from streambits.model.batches import CodeBatch, RowBatch

TELL = 1.0  # seconds between two steps that are told


class Pace(NamedTuple):
    """How often a job commits: after so many rows or seconds, whichever comes first."""

    rows: int = 262_144
    seconds: float = 30.0


class Job:
    """One stream: from a source, through some work, to a sink.

    Committed together, in one file: what was learned, the offset of the source, the state of the
    sink, the length of the file of rejects. Whatever ends the process, the next one goes back to
    the last commit, and the end is the same to the byte. A sink without a state is given again
    what came after the commit, and replaces it.

    folder: locked by the caller; None for a job that cannot be resumed. watchers: are told.
    """

    def __init__(
        self,
        source: Source,
        work: Work,
        sink: Sink | None,
        rejects: Rejects,
        folder: Folder | None = None,
        *,
        pace: Pace | None = None,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self.source, self.work, self.sink = source, work, sink
        self.rejects, self.folder = rejects, folder
        self.pace, self.watchers = pace or Pace(), watchers
        self.rows = self.bytes = 0
        self._offset: Any = None
        self._state: Any = None  # of the sink, at the last commit
        self._counts = self._count()  # of the last commit
        self._new = False  # since then
        self._total = source.length
        self._certificate: float | None = None
        self._before = 0  # rows
        self._began = self._kept = self._told = time.monotonic()

    def run(self) -> Progress:
        """Until the source ends or a signal comes; all that was read is committed then."""
        try:
            with Stop() as stop:
                self._begin()
                self._tell("start")
                self._loop(stop)
                if not stop.asked:
                    self._write(self.work.rest())
                self._commit()
                if not self.work.ready:  # rows that wait for more are read again the next time
                    self._go_back()
                self._finish(ended=not stop.asked)
                return self._tell("end", stopped=stop.asked)
        except StorageError as error:
            raise self._safe(error) from error
        finally:
            self.rejects.close()

    def _begin(self) -> None:
        """Go back to the last commit, or make the first."""
        found = self.folder.checkpoint() if self.folder else None
        if found is not None:
            self._check_source(found)
        self.work.resume(found.parts if found else {}, self.folder.path if self.folder else None)
        if found is None:
            self._go_back()
            if self.folder:
                self._keep()
            return
        if found.sink is not None and isinstance(self.sink, Resumable):
            self.sink.resume(found.sink)
        self._counts, self._offset = found.counts, found.offset
        self._go_back()
        self._before = self.rows

    def _check_source(self, found: Checkpoint) -> None:
        """What is read before the offset must be what was read then; the rest would not fit it."""
        changes: list[str] = getattr(self.source, "changes", lambda _: [])(found.source)
        if changes:
            more = f"; and {len(changes) - 1} more files" if len(changes) > 1 else ""
            raise InputError(
                f"the source has changed since {found.counts['rows']:,} rows of it were read: "
                f"{changes[0]}{more}. Restore it, choose another folder, or go on all the same "
                f"with --changed-source accept"
            )

    def _loop(self, stop: Stop) -> None:
        with Reader(self.source, self._offset) as reader:
            chunks = iter(reader)
            while not stop.asked:
                try:
                    chunk = next(chunks)
                    self.rejects.check(chunk.rejects if chunk else ())
                except StopIteration:
                    return
                except StreambitsError:  # of the source: what came before is kept
                    self._commit()
                    raise
                if chunk:
                    self._take(chunk)
                if self._due():
                    self._commit()

    def _take(self, chunk: RowBatch) -> None:
        epoch = self.work.epoch
        self._write(self.work.take(chunk.ids, chunk.rows))
        self.rejects.put(chunk.rejects)
        self.rows, self.bytes = self.rows + len(chunk.ids), self.bytes + chunk.rows.nbytes
        self._offset, self._new = chunk.offset, True
        if self.work.epoch != epoch:
            self._tell("epoch")
        elif time.monotonic() - self._told >= TELL:
            self._tell("step")

    def _write(self, coded: Iterable[CodeBatch]) -> None:
        for ids, codes in coded:
            if self.sink is not None:
                self.sink.write(ids, codes)

    def _due(self) -> bool:
        waited, rows = time.monotonic() - self._kept, self.rows - self._counts["rows"]
        return self._new and (rows >= self.pace.rows or waited >= self.pace.seconds)

    def _commit(self) -> None:
        self._kept = time.monotonic()
        if not self.work.ready:
            return
        self._keep()
        self._tell("commit")

    def _keep(self) -> None:
        if self.sink is not None:
            self.sink.commit()
        self._state = self.sink.state() if isinstance(self.sink, Resumable) else None
        self.rejects.commit()
        self._mark(ended=False)

    def _mark(self, *, ended: bool) -> None:
        """From now on this is where the job is."""
        counts = self._count()
        if self.folder:
            evidence = getattr(self.source, "evidence", lambda _: None)(self._offset)
            now = (self._offset, self._state, counts, self.work.parts())
            self.folder.keep(Checkpoint(*now, source=evidence, ended=ended))
            self.work.committed()
        self._counts, self._new = counts, False

    def _count(self) -> dict[str, int]:
        rejects = {"rejects": self.rejects.count, **self.rejects.digest._asdict()}
        return {"rows": self.rows, "bytes": self.bytes} | rejects

    def _go_back(self) -> None:
        """Count from the last commit on."""
        self.rows, self.bytes = self._counts["rows"], self._counts["bytes"]
        digest = Digest(self._counts["size"], self._counts["crc"])
        self.rejects.resume(self._counts["rejects"], digest)

    def _finish(self, *, ended: bool) -> None:
        """Close the sink, say so if this is the end, and write the models: after the checkpoint,
        which is for others only as long as it is newer.
        """
        if self.sink is not None:
            self.sink.close()
        if ended:
            self._mark(ended=True)
        if self.folder:
            self.work.save(self.folder.path)

    def _tell(self, event: str, *, stopped: bool = False) -> Progress:
        learner = self.work.learner
        if learner and event != "step":  # it takes as long as learning some hundred rows
            self._certificate = learner.certificate
        drift = learner.drift if learner else ()
        progress = Progress(
            rows=self.rows,
            bytes=self.bytes,
            rejects=self.rejects.count,
            fresh=self.rows - self._before,
            seconds=time.monotonic() - self._began,
            epoch=self.work.epoch,
            certificate=self._certificate,
            drift=latest(drift),
            lag=getattr(self.source, "lag", None),
            total=self._total,
            stopped=stopped,
        )
        for watcher in self.watchers:
            with suppress(OSError):  # a terminal or a log that is gone must not end the job
                watcher(event, progress)
        self._told = time.monotonic()
        return progress

    def _safe(self, error: StorageError) -> StorageError:
        if not self.folder:
            return error
        rows = self._counts["rows"]
        return StorageError(
            f"{error}; {rows:,} rows are committed and safe: the same command goes on from there"
        )
