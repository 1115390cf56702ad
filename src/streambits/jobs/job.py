"""The loop of a job: read, work, write; now and then commit."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streambits._digests import Digest
from streambits.epochs.detector import latest
from streambits.errors import EpochError, InputError, ReachError, StorageError, StreambitsError
from streambits.io.codes import open_sink
from streambits.io.codes.convert import check_target, export
from streambits.io.protocols import Live, Resumable, Sink, Source, Verifiable
from streambits.io.urls import is_url, redact_url
from streambits.jobs.folder import Checkpoint, JobFolder
from streambits.jobs.progress import Progress, Stop, Watcher, tell
from streambits.jobs.reader import ReadAhead
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Change, Work
from streambits.model.batches import RowBatch

REPORT = 1.0  # seconds between two steps that are reported


class Pace(NamedTuple):
    """How often a job commits: after so many rows or seconds, whichever comes first."""

    rows: int = 262_144
    seconds: float = 30.0


class JobPlan(NamedTuple):
    """A job in a folder.

    Attributes
    ----------
    verb : str
        What it is called: learn, online or encode.
    source, work
        Where rows come from, and what is done with them.
    settings : dict
        A JSON value: what makes it this job. Other settings are another job.
    out : Path
        The folder.
    bits : int, optional
        Sign bits of the codes; None for a job that makes none.
    refine : int
        Their bytes of refinement.
    to : str, optional
        A database that codes go to, as `open_sink` reads it; or a file that the Parquet files in
        the folder are converted to when the job has ended, as `export` does.
    keep : tuple of str
        Names of what the source gives as payload, to be kept with the codes.
    skip_bad : bool
        Put bad rows aside instead of stopping.
    names : dict of str to str, optional
        What the user called some of the settings.
    retry_seconds : float, optional
        How long a database may be away.
    """

    verb: str
    source: Source
    work: Work
    settings: dict[str, Any]
    out: Path
    bits: int | None = None
    refine: int = 0
    to: str | None = None
    keep: tuple[str, ...] = ()
    skip_bad: bool = False
    names: dict[str, str] | None = None
    retry_seconds: float | None = None

    @property
    def file(self) -> str | None:
        """The file that codes are converted to."""
        return None if self.to is None or is_url(self.to) else self.to

    def description(self) -> dict[str, Any]:
        """What makes it this job, without secrets."""
        database = redact_url(self.to) if self.to and not self.file else None
        sink = {} if self.bits is None else {"sink": database or "codes"}
        source = self.source.identity()
        return {"verb": self.verb, "settings": self.settings, "source": source, **sink}


def run_job(
    plan: JobPlan, *, pace: Pace | None = None, watchers: Sequence[Watcher] = ()
) -> Progress:
    """Run a job in its folder, or go on with it.

    Parameters
    ----------
    plan : JobPlan
        What to do, and where.
    pace : Pace, optional
        How often to commit.
    watchers : sequence of callables
        Called with an event and the progress.

    Returns
    -------
    Progress
        How far it came: to the end of the source, unless a signal stopped it.

    Raises
    ------
    StorageError
        If the folder belongs to another job, another process works in it, or the disk fails.
    InputError
        If the source has changed since it was read, or a row is bad and `skip_bad` is not set.
    """
    if is_url(str(plan.out)):
        raise InputError(f"--out is {redact_url(str(plan.out))}, a URL, and it must be a folder")
    if plan.file is not None:
        check_target(plan.file, refine=plan.refine, keep=plan.keep)
    with JobFolder(plan.out, plan.description(), plan.names) as folder:
        sink = None
        if plan.file is not None and Path(plan.file).exists() and folder.checkpoint() is None:
            raise StorageError(f"{plan.file} exists already: choose another file, or remove it")
        if plan.bits is not None:
            model = plan.settings.get("model")  # its digest, where there is one before the job
            sink = open_sink(
                folder.codes if plan.to is None or plan.file else plan.to,
                plan.bits,
                refine=plan.refine,
                keep=plan.keep,
                retry_seconds=plan.retry_seconds,
                made_by=model,
            )
        rejects = Rejects(folder.rejects_file, skip=plan.skip_bad)
        job = Job(plan.source, plan.work, sink, rejects, folder, pace=pace, watchers=watchers)
        end = job.run()
        if plan.file is not None and not end.stopped:
            _convert(folder.codes, plan.file)
        return end


def _convert(codes: Path, file: str) -> None:
    try:
        export(codes, file)
    except (EpochError, InputError, StorageError) as error:
        raise type(error)(
            f"{error}; all codes are in {codes}, and streambits index converts them"
        ) from error


class Job:
    """One stream: from a source, through some work, to a sink.

    Committed together, in one file: what was learned, the offset of the source, the state of the
    sink, the length of the file of rejects. Whatever ends the process, the next one goes back to
    the last commit, and codes and models in the end are the same. A sink without a state is given
    again what came after the commit, and replaces it.

    Parameters
    ----------
    source, work, sink, rejects
        Where rows come from, what is done with them, where codes and bad rows go.
    folder : JobFolder, optional
        Locked by the caller; without one the job cannot be resumed.
    pace : Pace, optional
        How often to commit.
    watchers : sequence of callables
        Called with an event and the progress.
    """

    def __init__(
        self,
        source: Source,
        work: Work,
        sink: Sink | None,
        rejects: Rejects,
        folder: JobFolder | None = None,
        *,
        pace: Pace | None = None,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self.source, self.work, self.sink = source, work, sink
        self.rejects, self.folder = rejects, folder
        self.pace, self.watchers = pace or Pace(), watchers
        self.rows = self.bytes = self.removed = 0
        self._offset: Any = None
        self._uncommitted = False  # whether rows came since the last commit
        self._committed = self._counts()
        self._sink_state: Any = None  # at the last commit
        self._rows_before = 0  # this run
        self._total = source.length
        self._certificate: float | None = None
        self._start_time = self._commit_time = self._report_time = time.monotonic()

    def run(self) -> Progress:
        """Until the source ends or a signal comes; all that was read is committed then."""
        try:
            with Stop() as stop:
                self._resume()
                self._report("start")
                self._loop(stop)
                if not stop.asked:
                    self._write(self.work.finish())
                self._commit()
                self._finish(ended=not stop.asked)
                return self._report("end", stopped=stop.asked)
        except StorageError as error:
            raise self._safe(error) from error
        except ReachError as error:
            raise ReachError(f"{error}; --set out_of_reach=accept goes on all the same") from error
        finally:
            self.rejects.close()

    def _resume(self) -> None:
        """Go back to the last commit, or make the first."""
        found = self.folder.checkpoint() if self.folder else None
        if found is not None:
            self._check_source(found)
        self.work.resume(found.models if found else {}, self.folder)
        if found is None:
            self._go_back()
            if self.folder:
                self._commit_all()
            return
        if found.sink is not None and isinstance(self.sink, Resumable):
            self.sink.resume(found.sink)
        self._committed, self._offset = found.counts, found.offset
        self._go_back()
        self._rows_before = self.rows
        if found.ended:  # it goes on: what it writes from here on is not committed yet
            self._commit_all()

    def _check_source(self, found: Checkpoint) -> None:
        """What is read before the offset must be what was read then; the rest would not fit it."""
        if not isinstance(self.source, Verifiable):
            return
        changes = self.source.changes(found.source)
        if changes:
            more = f"; and {len(changes) - 1} more files" if len(changes) > 1 else ""
            raise InputError(
                f"the source has changed since {found.counts['rows']:,} rows of it were read: "
                f"{changes[0]}{more}. Restore it, choose another folder, or go on all the same "
                f"with --set changed_source=accept"
            )

    def _loop(self, stop: Stop) -> None:
        with ReadAhead(self.source, self._offset, self.work.device) as reader:
            batches = iter(reader)
            while not stop.asked:
                try:
                    batch = next(batches)
                    self.rejects.check(batch.rejects if batch else ())
                except StopIteration:
                    return
                except StreambitsError:  # of the source: what came before is committed
                    self._commit()
                    raise
                if batch:
                    self._process(batch)
                if self._commit_due():
                    self._commit()

    def _process(self, batch: RowBatch) -> None:
        epoch = self.work.epoch
        self._write(self.work.process(batch))
        self.rejects.put(batch.rejects)
        self.rows, self.bytes = self.rows + len(batch.ids), self.bytes + batch.rows.nbytes
        self.removed += len(batch.removals.ids) if batch.removals else 0
        self._offset, self._uncommitted = batch.offset, True
        if self.work.epoch != epoch:
            self._report("epoch")
        elif time.monotonic() - self._report_time >= REPORT:
            self._report("step")

    def _write(self, changes: Iterable[Change]) -> None:
        for ids, codes, payload in changes:
            if self.sink is None:
                continue
            if codes is None:
                self.sink.remove(ids)
            else:
                self.sink.write(ids, codes, payload)

    def _commit_due(self) -> bool:
        waited = time.monotonic() - self._commit_time
        rows = self.rows - self._committed["rows"]
        return self._uncommitted and (rows >= self.pace.rows or waited >= self.pace.seconds)

    def _commit(self) -> None:
        """Commit what was read; until there is a coder, first rows are read again after a crash."""
        self._commit_time = time.monotonic()
        if self.work.waiting:
            return
        self._commit_all()
        self._report("commit")

    def _commit_all(self) -> None:
        if self.sink is not None:
            self.sink.commit()
        self._sink_state = self.sink.state() if isinstance(self.sink, Resumable) else None
        self.rejects.commit()
        self._write_checkpoint(ended=False)

    def _write_checkpoint(self, *, ended: bool) -> None:
        """From now on this is where the job is."""
        counts = self._counts()
        if self.folder:
            source = self.source
            evidence = source.evidence(self._offset) if isinstance(source, Verifiable) else None
            now = (self._offset, self._sink_state, counts, self.work.models())
            self.folder.commit(Checkpoint(*now, source=evidence, ended=ended))
            self.work.committed()
        self._committed, self._uncommitted = counts, False

    def _counts(self) -> dict[str, int]:
        rejects = {"rejects": self.rejects.count, **self.rejects.digest._asdict()}
        return {"rows": self.rows, "bytes": self.bytes, "removed": self.removed} | rejects

    def _go_back(self) -> None:
        """Count from the last commit on."""
        self.rows, self.bytes = self._committed["rows"], self._committed["bytes"]
        self.removed = self._committed.get("removed", 0)  # older checkpoints do not say
        digest = Digest(self._committed["size"], self._committed["crc"])
        self.rejects.resume(self._committed["rejects"], digest)

    def _finish(self, *, ended: bool) -> None:
        """Close the sink, mark the checkpoint as the end if it is, then write the models.

        The order matters: readers prefer the checkpoint while it has seen more than the models.
        """
        if self.sink is not None:
            self.sink.close()
        if ended:
            self._write_checkpoint(ended=True)
        if self.folder:
            self.work.save(self.folder)

    def _report(self, event: str, *, stopped: bool = False) -> Progress:
        learner = self.work.learner
        if learner and event != "step":  # it costs as much as learning some hundred rows
            self._certificate = learner.certificate
        drift = learner.drift if learner else ()
        progress = Progress(
            rows=self.rows,
            bytes=self.bytes,
            rejects=self.rejects.count,
            fresh=self.rows - self._rows_before,
            seconds=time.monotonic() - self._start_time,
            epoch=self.work.epoch,
            certificate=self._certificate,
            drift=latest(drift),
            lag=self.source.lag if isinstance(self.source, Live) else None,
            total=self._total,
            out_of_reach=self.work.out_of_reach,
            removed=self.removed,
            waiting=self.work.waiting,
            stopped=stopped,
        )
        tell(self.watchers, event, progress)
        self._report_time = time.monotonic()
        return progress

    def _safe(self, error: StorageError) -> StorageError:
        if not self.folder:
            return error
        rows = self._committed["rows"]
        return StorageError(
            f"{error}; {rows:,} rows are committed and safe: the same command goes on from there"
        )
