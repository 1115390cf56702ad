"""`streambits encode`: codes by a model, to standard output or to a folder, where it resumes."""

from pathlib import Path
from typing import Annotated

import typer

from streambits.cli.options import MODEL_HELP, JobOptions, Shown, Sources, To
from streambits.cli.output import report_end, run_and_report, watching
from streambits.errors import InputError, StorageError
from streambits.io.codes.jsonl import StandardOutput
from streambits.jobs.job import Job, JobPlan
from streambits.jobs.models import open_model
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Encoding


def encode_command(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)],
    sources: Sources,
    *,
    out: Annotated[
        str, typer.Option(help="Folder, where it resumes; - for JSON lines on stdout.")
    ] = "-",
    to: To = None,
    rejects: Annotated[
        Path | None, typer.Option(help="On stdout: file for bad rows of --skip-bad.")
    ] = None,
    options: Annotated[JobOptions, Shown("columns ids keep format skip_bad json")],
) -> None:
    """Give rows their codes by a model that was learned before, which stays as it is.

    The folder of a job stands for the coder of its last codes. OUT records which model made its
    codes, and `search` uses that one. After a crash or a signal the same command goes on.

    Example: cat rows.csv | streambits encode model.safetensors -
    """
    stdout = out == "-"
    if stdout and (to or options.json or options.keep):
        raise typer.BadParameter("--to, --keep and --json need a folder: name one with --out")
    if options.skip_bad and stdout and rejects is None:
        raise typer.BadParameter("--skip-bad needs a place for bad rows: --rejects FILE, or --out")
    if rejects and not (options.skip_bad and stdout):
        raise typer.BadParameter("--rejects is for --skip-bad without --out")
    found = open_model(model)
    if found.live and not stdout:
        raise InputError(
            f"the job in {model} goes on, and its next commit replaces the model: wait until it "
            f"has ended, or leave --out out"
        )
    work = Encoding(found.coder, str(model), options.device, refuse=options.refuse)
    if stdout:
        _to_stdout(sources, work, rejects, options)
        return
    plan = JobPlan(
        verb="encode",
        source=options.open(sources),
        work=work,
        settings={"model": found.digest},
        out=Path(out),
        bits=found.coder.bits,
        refine=found.coder.refine,
        to=to,
        keep=options.kept,
        skip_bad=options.skip_bad,
        names={"model": str(model)},
        retry_seconds=options.retry_seconds,
    )
    run_and_report(plan, options)


def _to_stdout(
    sources: list[str], work: Encoding, rejects: Path | None, options: JobOptions
) -> None:
    if rejects is not None and rejects.exists():
        raise StorageError(f"{rejects} exists already: choose another file for bad rows")
    sink, aside = StandardOutput(), Rejects(rejects, skip=options.skip_bad)
    with watching("encode", options) as watchers:
        end = Job(options.open(sources), work, sink, aside, watchers=watchers).run()
    report_end("encode", end, options, sink.name, str(rejects))
