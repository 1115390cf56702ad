"""`streambits encode`: codes by a model, to standard output or to a folder, where it resumes."""

from pathlib import Path
from typing import Annotated

import typer

from streambits.cli.options import JobOptions, Sources, To
from streambits.cli.output import report_end, run_and_report, watching
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError, StorageError
from streambits.io.codes.jsonl import StandardOutput
from streambits.io.protocols import Source
from streambits.jobs.job import Job, JobPlan
from streambits.jobs.models import open_model
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Encoding, EncodingByEpoch


def encode_command(
    model: Annotated[
        Path, typer.Argument(help="The file of a learner or a coder, or the folder of a job.")
    ],
    sources: Sources,
    *,
    out: Annotated[
        str, typer.Option(help="A folder, where it resumes; - for JSON lines on stdout.")
    ] = "-",
    to: To = None,
    every_epoch: Annotated[
        bool,
        typer.Option(
            "--every-epoch",
            help="Encode each row once for every epoch of the job: queries for codes of several "
            "epochs, on stdout.",
        ),
    ] = False,
    bit_strings: Annotated[
        bool,
        typer.Option(
            "--bit-strings",
            help='Print sign bits as "bits", a string of 0 and 1 as PostgreSQL writes them, on '
            "stdout.",
        ),
    ] = False,
    rejects: Annotated[
        Path | None, typer.Option(help="File for bad rows, for --skip-bad without a folder.")
    ] = None,
    options: JobOptions,
) -> None:
    """Give rows their codes by a model that was learned before, which stays as it is.

    With --out, OUT gets codes/ and, with --skip-bad, rejects.jsonl, and after a crash or a signal
    the same command goes on. Without it, codes are lines on stdout, in hexadecimal.

    A job's folder stands for the coder that made its last codes. OUT records which model it was,
    and streambits search OUT uses that one.

    Example: cat rows.csv | streambits encode model.safetensors -
    """
    here = out == "-"
    if here and (to or options.json or options.keep):
        raise typer.BadParameter("--to, --keep and --json need a folder: name one with --out")
    if not here and (every_epoch or bit_strings):
        raise typer.BadParameter("--every-epoch and --bit-strings go without --out")
    if every_epoch and options.device:
        raise typer.BadParameter("--every-epoch goes without --device")
    if options.skip_bad and here and rejects is None:
        raise typer.BadParameter("--skip-bad needs a place for bad rows: --rejects FILE, or --out")
    if rejects and not (options.skip_bad and here):
        raise typer.BadParameter("--rejects is for --skip-bad without --out")
    found = open_model(model)
    if found.live and not here:
        raise InputError(
            f"the job in {model} goes on, and its next commit replaces the model: wait until it "
            f"has ended, or leave --out out"
        )
    work = Encoding(found.coder, str(model), options.device, refuse=options.refuse)
    if here:
        if every_epoch and isinstance(found.coders, CoderSet):
            work = EncodingByEpoch(found.coders, str(model))
        aside, sink = Rejects(rejects, skip=options.skip_bad), StandardOutput(as_bits=bit_strings)
        _to_stdout(options.open(sources), work, sink, aside, options)
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
    source: Source, work: Encoding, sink: StandardOutput, rejects: Rejects, options: JobOptions
) -> None:
    if rejects.path is not None and rejects.path.exists():
        raise StorageError(f"{rejects.path} exists already: choose another file for bad rows")
    with watching("encode", options) as watchers:
        end = Job(source, work, sink, rejects, watchers=watchers).run()
    report_end("encode", end, options, sink.name, str(rejects.path))
