"""What verbs that run a job share: its watchers, its folder, its summary."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import typer

import streambits
from streambits.cli.progress import job_progress
from streambits.errors import InputError
from streambits.io.codes import open_sink
from streambits.io.protocols import Sink, Source
from streambits.io.urls import is_url, secrets_in, shown
from streambits.jobs.folder import Folder
from streambits.jobs.logs import JsonLog, clean
from streambits.jobs.progress import Progress, Watcher
from streambits.jobs.rejects import Rejects
from streambits.jobs.run import Job, Pace
from streambits.jobs.work import Work

H = TypeVar("H", bound=logging.Handler)
logger = logging.getLogger("streambits")
VISIBLE = (
    "a password on the command line can be seen by other users of this machine as long as the "
    "command runs: give it in PGPASSWORD, ~/.pgpass or a service for PostgreSQL, or in "
    "STREAMBITS_NATS_PASSWORD or STREAMBITS_NATS_TOKEN for NATS"
)


class Told(NamedTuple):
    """How a job is told about."""

    as_json: bool = False
    quiet: bool = False
    log_json: bool = False
    metrics_port: int | None = None


class Plan(NamedTuple):
    """A job in a folder. settings: what makes it this job; bits: of codes, None if it has none;
    to: where they go, by default into the folder; names: what the user called some settings;
    retry_seconds: seconds that a database may be away.
    """

    verb: str
    source: Source
    work: Work
    settings: dict[str, Any]
    out: Path
    bits: int | None = None
    to: str | None = None
    skip_bad: bool = False
    names: dict[str, str] | None = None
    retry_seconds: float | None = None


def run(plan: Plan, pace: Pace, told: Told) -> None:
    """Run a job, or go on with it, and say how it ended."""
    if is_url(str(plan.out)):
        raise InputError(f"--out is {shown(str(plan.out))}, a URL, and it must be a folder")
    with ExitStack() as stack:
        folder = stack.enter_context(Folder(plan.out, _description(plan), plan.names))
        watchers = stack.enter_context(watching(plan.verb, told))
        sink = _sink(plan)
        rejects = Rejects(plan.out / "rejects.jsonl", skip=plan.skip_bad)
        job = Job(plan.source, plan.work, sink, rejects, folder, pace=pace, watchers=watchers)
        end = job.run()
    summarise(plan.verb, end, told, str(plan.out), str(rejects.path))


def _sink(plan: Plan) -> Sink | None:
    if plan.bits is None:
        return None
    target = plan.to or f"parquet:{plan.out / 'codes'}"
    model = plan.settings.get("model")  # its digest, where there is one before the job
    return open_sink(target, plan.bits, retry_seconds=plan.retry_seconds, made_by=model)


def _description(plan: Plan) -> dict[str, Any]:
    target = plan.to and shown(plan.to)
    sink = {} if plan.bits is None else {"sink": target or "codes"}
    source = plan.source.identity()
    return {"verb": plan.verb, "settings": plan.settings, "source": source, **sink}


@contextmanager
def watching(verb: str, told: Told) -> Iterator[list[Watcher]]:
    """Those who are told where a job is."""
    with ExitStack() as stack:
        watchers: list[Watcher] = []
        if told.metrics_port is not None:
            from streambits.jobs.metrics import Metrics  # noqa: PLC0415 - an extra

            metrics = stack.enter_context(Metrics(told.metrics_port))
            watchers.append(metrics)
            if not told.quiet and not told.log_json:
                typer.echo(f"metrics: http://127.0.0.1:{metrics.port}/metrics", err=True)
        if told.log_json:
            watchers.append(stack.enter_context(_logging(JsonLog(verb))))
        elif told.quiet:
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


def summarise(verb: str, end: Progress, told: Told, out: str, rejects: str) -> None:
    """How it ended: an object on stdout if asked, and a line or two on stderr."""
    if told.as_json:
        typer.echo(json.dumps(as_object(verb, end, out), allow_nan=False))
    if told.quiet or told.log_json:
        return
    fresh = f"{end.fresh:,} new, " if 0 < end.fresh < end.rows else ""
    typer.echo(f"{out}: {end.rows:,} rows, {fresh}epoch {end.epoch}", err=True)
    if end.rejects:
        bad = "1 bad row is" if end.rejects == 1 else f"{end.rejects:,} bad rows are"
        typer.echo(f"{bad} in {rejects}", err=True)
    if end.stopped:
        typer.echo("stopped, and all of that is committed: the same command goes on", err=True)
    elif end.rows and not end.fresh:
        typer.echo("finished before: there is nothing new", err=True)


def as_object(verb: str, end: Progress, out: str) -> dict[str, Any]:
    """The same for programs."""
    found: dict[str, Any] = clean(
        {
            "streambits": streambits.__version__,
            "verb": verb,
            "out": out,
            "rows": end.rows,
            "new_rows": end.fresh,
            "bytes": end.bytes,
            "rejects": end.rejects,
            "epoch": end.epoch,
            "certificate": end.certificate,
            "seconds": round(end.seconds, 3),
            "rows_per_second": round(end.rate, 1),
            "stopped": end.stopped,
        }
    )
    return found
