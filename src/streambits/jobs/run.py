"""The loop of a job: read, work, write; now and then commit."""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from streambits.codes import Coded
from streambits.errors import StorageError, StreambitsError
from streambits.jobs.checkpoint import Checkpoint
from streambits.jobs.folder import Folder
from streambits.jobs.reader import Reader
from streambits.jobs.rejects import Rejects
from streambits.jobs.signals import Stop
from streambits.jobs.standing import Standing, Watcher
from streambits.jobs.work import Work
from streambits.streams.connect import Chunk, Sink, Source

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
        self._total = source.length
        self._before = self._committed = 0  # rows
        self._began = self._kept = self._told = time.monotonic()

    def run(self) -> Standing:
        """Until the source ends or a signal comes; all that was read is committed then."""
        try:
            with Stop() as stop:
                self._begin()
                self._tell("start")
                self._loop(stop)
                if not stop.asked:
                    self._write(self.work.rest())
                self._commit()
                self._finish()
                return self._tell("end", stopped=stop.asked)
        except StorageError as error:
            raise self._safe(error) from error
        finally:
            self.rejects.close()

    def _begin(self) -> None:
        """Go back to the last commit, or make the first."""
        found = self.folder.checkpoint() if self.folder else None
        if found is None:
            self.rejects.resume(0, 0)
            if self.folder:
                self._keep()
            return
        if found.sink is not None:
            getattr(self.sink, "resume")(found.sink)  # noqa: B009 - not all sinks have it
        self.rows, self.bytes = found.counts["rows"], found.counts["bytes"]
        self.rejects.resume(found.counts["rejects"], found.counts["length"])
        self.work.resume(found.parts)
        self._offset, self._before, self._committed = found.offset, self.rows, self.rows

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

    def _take(self, chunk: Chunk) -> None:
        epoch = self.work.epoch
        self._write(self.work.take(chunk.ids, chunk.rows))
        self.rejects.put(chunk.rejects)
        self.rows, self.bytes = self.rows + len(chunk.ids), self.bytes + chunk.rows.nbytes
        self._offset = chunk.offset
        if self.work.epoch != epoch:
            self._tell("epoch")
        elif time.monotonic() - self._told >= TELL:
            self._tell("step")

    def _write(self, coded: Iterable[Coded]) -> None:
        for ids, codes in coded:
            if self.sink is not None:
                self.sink.write(ids, codes)

    def _due(self) -> bool:
        waited = time.monotonic() - self._kept
        return self.rows - self._committed >= self.pace.rows or waited >= self.pace.seconds

    def _commit(self) -> None:
        self._kept = time.monotonic()
        if not self.work.ready:
            return
        self._keep()
        self._committed = self.rows
        self._tell("commit")

    def _keep(self) -> None:
        if self.sink is not None:
            self.sink.commit()
        state = getattr(self.sink, "state", lambda: None)()
        self.rejects.commit()
        counts = {
            "rows": self.rows,
            "bytes": self.bytes,
            "rejects": self.rejects.count,
            "length": self.rejects.length,
        }
        if self.folder:
            self.folder.keep(Checkpoint(self._offset, state, counts, self.work.parts()))

    def _finish(self) -> None:
        if self.sink is not None:
            self.sink.close()
        if self.folder:
            self.work.save(self.folder.path)

    def _tell(self, event: str, *, stopped: bool = False) -> Standing:
        learner = self.work.learner
        drift = learner.drift if learner else ()
        standing = Standing(
            rows=self.rows,
            bytes=self.bytes,
            rejects=self.rejects.count,
            fresh=self.rows - self._before,
            seconds=time.monotonic() - self._began,
            epoch=self.work.epoch,
            certificate=learner.certificate if learner else None,
            drift=drift[-1] if drift else None,
            lag=getattr(self.source, "lag", None),
            total=self._total,
            stopped=stopped,
        )
        for watcher in self.watchers:
            watcher(event, standing)
        self._told = time.monotonic()
        return standing

    def _safe(self, error: StorageError) -> StorageError:
        if not self.folder:
            return error
        return StorageError(
            f"{error}; {self._committed:,} rows are committed and safe, and the same command goes "
            f"on from there"
        )
