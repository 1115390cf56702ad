"""What a person sees: progress on stderr, and the end of a job.

Progress is live in a terminal, and plain lines elsewhere.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

import streambits
from streambits.cli.options import JobOptions
from streambits.io.protocols import Source
from streambits.io.urls import redact_urls, secrets_in
from streambits.jobs.folder import JobFolder
from streambits.jobs.job import JobPlan, run_job
from streambits.jobs.progress import JsonLog, Metrics, Progress, Watcher, finite
from streambits.jobs.reader import sample_source
from streambits.model.batches import Reject

LINE_SECONDS = 5.0  # between two lines of a job
VERSION = {"streambits": streambits.__version__}
H = TypeVar("H", bound=logging.Handler)
logger = logging.getLogger("streambits")
VISIBLE = (
    "a password on the command line can be seen by other users of this machine as long as the "
    "command runs: give it in PGPASSWORD, ~/.pgpass or a service for PostgreSQL, or in "
    "STREAMBITS_NATS_PASSWORD or STREAMBITS_NATS_TOKEN for NATS"
)


def stderr() -> Console:
    """A console that writes no escape codes unless stderr is a terminal."""
    return Console(stderr=True, highlight=False)


def stdout() -> Console:
    """A console for results."""
    return Console(highlight=False)


@contextmanager
def working(console: Console, title: str) -> Iterator[None]:
    """Show what is going on until it is over."""
    title = redact_urls(title, sys.argv[1:])
    if not console.is_interactive:
        console.print(title)
        yield
        return
    with console.status(title):
        yield


def result(facts: dict[str, Any], parts: Iterable[Table | str], as_json: bool) -> None:
    """Print the result of a verb: one object for programs, or tables and lines for people."""
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for part in parts:
        stdout().print(part, soft_wrap=isinstance(part, str), markup=False)


def table(
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    bold: Callable[[Sequence[str]], bool] = lambda _: False,
) -> Table:
    """A table; without heads, of names and values. bold: says which rows are."""
    made = Table(*heads, title=title or None, title_justify="left", show_header=bool(heads))
    for row in rows:
        made.add_row(*row, style="bold" if bold(row) else None)
    return made


def show_reject(reject: Reject) -> None:
    """Print a row that cannot be used, and why."""
    stderr().print(f"left out: {reject.where}: {reject.reason}", soft_wrap=True)


def draw(source: Source, size: int, seed: int) -> Any:
    """A uniform sample of the rows of a source; says so."""
    console = stderr()
    with working(console, f"drawing at most {size:,} rows from {source.name}"):
        found = sample_source(source, size, seed)
    if found.rejects:
        console.print(f"left out: {found.rejects:,} bad rows")
    return found.rows


def duration(seconds: float | None) -> str:
    """Time left, as 1:02:03; nothing if it is not known."""
    return "" if seconds is None else f"{timedelta(seconds=round(seconds))} left"


# Jobs


def run_and_report(plan: JobPlan, options: JobOptions) -> None:
    """Run a job, or go on with it, and report how it ended."""
    with watching(plan.verb, options) as watchers:
        end = run_job(plan, pace=options.pace, watchers=watchers)
    report_end(plan.verb, end, options, str(plan.out), str(JobFolder(plan.out).rejects_file))


@contextmanager
def watching(verb: str, options: JobOptions) -> Iterator[list[Watcher]]:
    """The watchers of a job."""
    with ExitStack() as stack:
        watchers: list[Watcher] = []
        if options.metrics_port is not None:
            metrics = stack.enter_context(Metrics(options.metrics_port))
            watchers.append(metrics)
            if not options.quiet and not options.log_json:
                typer.echo(f"metrics: http://127.0.0.1:{metrics.port}/metrics", err=True)
        if options.log_json:
            watchers.append(stack.enter_context(_logging(JsonLog(verb))))
        elif options.quiet:
            stack.enter_context(_logging(logging.NullHandler()))
        else:
            watchers.append(stack.enter_context(job_progress()))
        if any(map(secrets_in, sys.argv[1:])):
            logger.warning(VISIBLE)
        yield watchers


@contextmanager
def _logging(log: H) -> Iterator[H]:
    """What the library logs goes there and nowhere else."""
    before = logger.propagate
    logger.addHandler(log)
    logger.propagate = False
    try:
        yield log
    finally:
        logger.removeHandler(log)
        logger.propagate = before


@contextmanager
def job_progress() -> Iterator[Watcher]:
    """A watcher that shows how far a job is."""
    console = stderr()
    if console.is_interactive:
        with Live(console=console, transient=True) as live:
            yield lambda _, progress: live.update(progress_line(progress))
        return
    last = -LINE_SECONDS

    def show(event: str, progress: Progress) -> None:
        nonlocal last
        if event == "epoch" or (event != "end" and time.monotonic() - last >= LINE_SECONDS):
            last = time.monotonic()
            console.print(progress_line(progress), soft_wrap=True)

    yield show


def progress_line(progress: Progress) -> str:
    """How far a job is, in one line."""
    total = "" if progress.total is None else f" of {progress.total:,}"
    certificate, lag = progress.certificate, progress.lag
    words = [
        f"{progress.rows:,}{total} rows",
        f"{progress.rate:,.0f} rows/s",
        duration(progress.left),
        "" if certificate is None else f"certificate {certificate:.3g}",
        f"epoch {progress.epoch}",
        "" if lag is None else f"{lag:,} waiting",
    ]
    counts = {
        "of them wait for landmarks": progress.waiting,
        "removed": progress.removed,
        "bad": progress.rejects,
        "out of reach": progress.out_of_reach,
    }
    words += [f"{count:,} {what}" for what, count in counts.items() if count]
    return ", ".join(filter(None, words))


def report_end(verb: str, end: Progress, options: JobOptions, out: str, rejects: str) -> None:
    """How a job ended: an object on stdout if asked, and a line or two on stderr."""
    if options.json:
        typer.echo(json.dumps(_end(verb, end, out), allow_nan=False))
    if options.quiet or options.log_json:
        return
    fresh = f"{end.fresh:,} new, " if 0 < end.fresh < end.rows else ""
    removed = f"{end.removed:,} removed, " if end.removed else ""
    bad = "1 bad row is" if end.rejects == 1 else f"{end.rejects:,} bad rows are"
    lines = {
        f"{out}: {end.rows:,} rows, {fresh}{removed}epoch {end.epoch}": True,
        f"{end.waiting:,} of them waited for landmarks, which are drawn when there are more, or at "
        f"the end of the source; the same command reads them again": end.waiting,
        f"{end.out_of_reach:,} of the rows were out of reach of the model, so their codes say "
        f"nothing: are they scaled as the others?": end.out_of_reach,
        f"{bad} in {rejects}": end.rejects,
        "stopped, and all of that is committed: the same command goes on": end.stopped
        and not end.waiting,
        "finished before: there is nothing new": end.rows and not (end.fresh or end.stopped),
    }
    for line, applies in lines.items():
        if applies:
            typer.echo(line, err=True)


def _end(verb: str, end: Progress, out: str) -> dict[str, Any]:
    names = ("bytes", "rejects", "removed", "waiting", "out_of_reach", "epoch")
    facts: dict[str, Any] = {**VERSION, "verb": verb, "out": out}
    facts |= {"rows": end.rows, "new_rows": end.fresh, "seconds": round(end.seconds, 3)}
    facts |= {name: getattr(end, name) for name in (*names, "certificate", "stopped")}
    return dict(finite(facts | {"rows_per_second": round(end.rate, 1)}))
