"""`streambits learn`, `online` and `encode`: passes over a source, which resume."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from streambits.cli.options import (
    MODEL_HELP,
    From,
    JobOptions,
    Out,
    Shown,
    Sources,
    To,
    given_settings,
)
from streambits.cli.output import report_end, run_and_report, watching
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError, StorageError
from streambits.io.codes.jsonl import StandardOutput
from streambits.jobs.job import Job, JobPlan
from streambits.jobs.models import OpenModel, open_learner, open_model
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Encoding, Learning, Online
from streambits.methods.settings import Settings
from streambits.model.learner import Learner


def learn_command(
    context: typer.Context,
    sources: Sources,
    *,
    out: Out,
    from_: From = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Learner or job whose landmarks this shard shares, for merge."),
    ] = None,
    settings: Annotated[Settings, Shown("bits method refine metric", without="refresh")],
    options: Annotated[JobOptions, Shown("columns ids format skip_bad json", without="keep")],
) -> None:
    """Learn a model from a stream; `encode` then makes codes.

    Model and rejects.jsonl in OUT are committed together. After a crash or a signal the same
    command goes on, and the model in the end is the same. It also reads files that were added.

    Example: streambits learn vectors/*.parquet --bits 64 --out model/
    """
    if from_ is not None and like is not None:
        raise typer.BadParameter("--from goes on with a model, --like begins beside it: choose one")
    settings = settings.checked()
    plain: dict[str, Any] = settings.plain()
    plain.pop("refresh")
    start, names = None, {}
    for flag, path in (("from", from_), ("like", like)):
        if path is not None:
            start, found = _start(context, f"--{flag}", path)
            plain, names = {flag: found.digest}, {flag: str(path)}
    if like is not None and start is not None:
        start = start.shard()
    work = Learning(settings, options.device, start, refuse=options.refuse)
    _run("learn", sources, work, out, options, settings=plain, names=names)


def online_command(
    context: typer.Context,
    sources: Sources,
    *,
    out: Out,
    to: To = None,
    from_: From = None,
    settings: Annotated[Settings, Shown("bits refine metric")],
    keep_epochs: Annotated[
        int | None,
        typer.Option(min=1, hidden=True, help="Newest epochs that stay searchable. Default: all."),
    ] = None,
    options: Annotated[JobOptions, Shown("columns ids keep format skip_bad json")],
) -> None:
    """Give every row of a stream its code at once, and learn from it.

    OUT gets codes/, model.safetensors (the learner), coders.safetensors, epochs/ and rejects.jsonl,
    which are committed together. After a crash or a signal the same command goes on, and codes and
    models in the end are the same. It also reads files that were added.

    Example: streambits online vectors/*.parquet --bits 64 --out codes/
    """
    settings = settings.checked()
    facts: dict[str, Any] = {"settings": settings.plain(), "names": {}}
    start: dict[str, Any] = {}
    bits, refine = settings.sign_bits, settings.refinement_bytes
    if from_ is not None:
        learner, found = _start(context, "--from", from_, ("refresh",))
        coders = found.content if isinstance(found.content, CoderSet) else None
        start = {"start": learner, "coders": coders}
        bits, refine = learner.bits, learner.refine + learner.certified
        facts["settings"] = {"from": found.digest, "refresh": settings.refresh}
        facts["names"] = {"from": str(from_)}
    work = Online(settings, keep_epochs, options.device, refuse=options.refuse, **start)
    _run("online", sources, work, out, options, bits=bits, refine=refine, to=to, **facts)


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
    coder = found.coder
    work = Encoding(coder, str(model), options.device, refuse=options.refuse)
    if stdout:
        _to_stdout(sources, work, rejects, options)
        return
    facts: dict[str, Any] = {"settings": {"model": found.digest}, "names": {"model": str(model)}}
    codes = {"bits": coder.bits, "refine": coder.refine}
    _run("encode", sources, work, Path(out), options, to=to, **codes, **facts)


def _start(
    context: typer.Context, flag: str, path: Path, allowed: Sequence[str] = ()
) -> tuple[Learner, OpenModel]:
    """Open what a job begins from, unless settings are given beside it that are not allowed."""
    for name in given_settings(context):
        if name not in allowed:
            raise typer.BadParameter(f"{name} is that of the model: leave it out with {flag}")
    return open_learner(path)


def _run(
    verb: str,
    sources: list[str],
    work: Learning | Encoding,
    out: Path,
    options: JobOptions,
    **more: Any,
) -> None:
    plan = JobPlan(
        verb=verb,
        source=options.open(sources),
        work=work,
        out=out,
        keep=options.kept,
        skip_bad=options.skip_bad,
        retry_seconds=options.retry_seconds,
        **more,
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
