"""`streambits learn`: a model from one pass over a stream; it resumes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from streambits.cli.options import From, JobOptions, Out, Shown, Sources, refuse_settings
from streambits.cli.output import run_and_report
from streambits.jobs.job import JobPlan
from streambits.jobs.models import open_learner
from streambits.jobs.work import Learning
from streambits.methods.settings import Settings


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
            refuse_settings(context, f"--{flag}")
            start, found = open_learner(path)
            plain, names = {flag: found.digest}, {flag: str(path)}
    if like is not None and start is not None:
        start = start.shard()
    plan = JobPlan(
        verb="learn",
        source=options.open(sources),
        work=Learning(settings, options.device, start, refuse=options.refuse),
        settings=plain,
        out=out,
        skip_bad=options.skip_bad,
        names=names,
    )
    run_and_report(plan, options)
