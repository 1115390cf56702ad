"""`streambits encode`: codes by a model, to standard output or to a folder, where it resumes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from streambits.cli.options import MODEL_HELP, JobOptions, Shown, Sources, To, option
from streambits.cli.output import report_end, run_and_report, watching
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError, StorageError
from streambits.io.codes.jsonl import StandardOutput
from streambits.jobs.job import Job, JobPlan
from streambits.jobs.models import open_model
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Encoding, EncodingByEpoch


@dataclass(frozen=True)
class PrintOptions:
    """Of codes on standard output."""

    every_epoch: bool = option(False, "On stdout: a code for every epoch of the job.")
    bit_strings: bool = option(False, "On stdout: bits as a string of 0 and 1.")
    rejects: str | None = option(None, "On stdout: file for bad rows of --skip-bad.")


def encode_command(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)],
    sources: Sources,
    *,
    out: Annotated[
        str, typer.Option(help="Folder, where it resumes; - for JSON lines on stdout.")
    ] = "-",
    to: To = None,
    printed: Annotated[PrintOptions, Shown("every_epoch bit_strings rejects")],
    options: Annotated[JobOptions, Shown("columns ids keep follow skip_bad json")],
) -> None:
    """Give rows their codes by a model that was learned before, which stays as it is.

    The folder of a job stands for the coder of its last codes. OUT records which model made its
    codes, and `search` uses that one. After a crash or a signal the same command goes on.

    Example: cat rows.csv | streambits encode model.safetensors -
    """
    stdout, every_epoch = out == "-", printed.every_epoch
    rejects = None if printed.rejects is None else Path(printed.rejects)
    if stdout and (to or options.json or options.keep):
        raise typer.BadParameter("--to, --keep and --json need a folder: name one with --out")
    if not stdout and (every_epoch or printed.bit_strings):
        raise typer.BadParameter("--every-epoch and --bit-strings go without --out")
    if every_epoch and options.device:
        raise typer.BadParameter("--every-epoch goes without the setting device")
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
        if every_epoch and isinstance(found.coders, CoderSet):
            work = EncodingByEpoch(found.coders, str(model))
        _to_stdout(sources, work, StandardOutput(as_bits=printed.bit_strings), rejects, options)
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
    sources: list[str],
    work: Encoding,
    sink: StandardOutput,
    rejects: Path | None,
    options: JobOptions,
) -> None:
    if rejects is not None and rejects.exists():
        raise StorageError(f"{rejects} exists already: choose another file for bad rows")
    aside = Rejects(rejects, skip=options.skip_bad)
    with watching("encode", options) as watchers:
        end = Job(options.open(sources), work, sink, aside, watchers=watchers).run()
    report_end("encode", end, options, sink.name, str(rejects))
