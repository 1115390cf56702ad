"""`streambits encode`: codes by a model, to standard output or to a folder, where it resumes."""

from pathlib import Path
from typing import Annotated

import typer

from streambits.cli import options
from streambits.cli.job import Plan, Told, run, summarise, watching
from streambits.errors import StorageError
from streambits.io.codes.jsonl import StandardOutput
from streambits.io.protocols import Source
from streambits.jobs.encoding import Encoding, coder_of
from streambits.jobs.open import ReadOptions, open_any
from streambits.jobs.rejects import Rejects
from streambits.jobs.run import Job, Pace


def encode(
    model: Annotated[
        Path,
        typer.Argument(
            help="A file of a learner or coder, or the folder of a job: its model.safetensors."
        ),
    ],
    sources: options.Sources,
    *,
    out: Annotated[
        str, typer.Option(help="A folder, where it resumes; - for JSON lines on stdout.")
    ] = "-",
    to: options.To = None,
    columns: options.Columns = None,
    ids: options.Ids = None,
    format_: options.Format = None,
    follow: options.Follow = False,
    idle: options.Idle = None,
    retry_seconds: options.Retry = None,
    changed_source: options.ChangedSource = options.Changed.refuse,
    skip_bad: options.SkipBad = False,
    rejects: Annotated[
        Path | None, typer.Option(help="For --skip-bad without a folder: where bad rows go.")
    ] = None,
    commit_rows: options.CommitRows = options.PACE.rows,
    commit_seconds: options.CommitSeconds = options.PACE.seconds,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    log_json: options.LogJson = False,
    metrics_port: options.MetricsPort = None,
) -> None:
    """Give rows their codes by a model that was learned before, which stays as it is.

    With --out, OUT gets codes/ and, with --skip-bad, rejects.jsonl, and after a crash or a signal
    the same command goes on. Without it, codes are lines on stdout, in hexadecimal.

    The model of a job has learned more than the coders that its own codes were made by, so some
    bits differ. OUT notes which model it was, and streambits search OUT takes that one.
    """
    here = out == "-"
    if here and (to or as_json):
        raise typer.BadParameter("--to and --json need a folder: name one with --out")
    if skip_bad and here and rejects is None:
        raise typer.BadParameter("--skip-bad needs a place for bad rows: --rejects FILE, or --out")
    if rejects and not (skip_bad and here):
        raise typer.BadParameter("--rejects is for --skip-bad without --out")
    coder, digest = coder_of(model)
    work = Encoding(coder, str(model))
    accept = changed_source == options.Changed.accept
    source = open_any(
        sources, ReadOptions(columns, ids, format_, follow, idle, retry_seconds, accept)
    )
    told = Told(as_json, quiet, log_json, metrics_port)
    if here:
        _to_stdout(source, work, Rejects(rejects, skip=skip_bad), told)
        return
    settings = {"model": digest}
    plan = Plan(
        "encode",
        source,
        work,
        settings,
        Path(out),
        bits=coder.bits,
        to=to,
        skip_bad=skip_bad,
        names={"model": str(model)},
        retry_seconds=retry_seconds,
    )
    run(plan, Pace(commit_rows, commit_seconds), told)


def _to_stdout(source: Source, work: Encoding, rejects: Rejects, told: Told) -> None:
    if rejects.path is not None and rejects.path.exists():
        raise StorageError(f"{rejects.path} exists already: choose another file for bad rows")
    with watching("encode", told) as watchers:
        end = Job(source, work, StandardOutput(), rejects, watchers=watchers).run()
    summarise("encode", end, told, "standard output", str(rejects.path))
