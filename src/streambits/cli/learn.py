"""`streambits learn`: a model from one pass over a stream; it resumes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from streambits.cli.options import (
    From,
    JobOptions,
    LearnSettings,
    Out,
    Sources,
    refuse_settings,
)
from streambits.cli.output import run_and_report
from streambits.jobs.job import JobPlan
from streambits.jobs.models import open_learner
from streambits.jobs.work import Learning

Like = Annotated[
    Path | None,
    typer.Option(
        help="A learner, or the folder of a job, whose landmarks and settings this shard shares, "
        "so that streambits merge can merge them. It begins without rows and without epochs."
    ),
]


def learn_command(
    context: typer.Context,
    sources: Sources,
    *,
    out: Out,
    from_: From = None,
    like: Like = None,
    settings: LearnSettings,
    options: JobOptions,
) -> None:
    """Learn a model from a stream; `encode` then makes codes.

    OUT gets model.safetensors and, with --skip-bad, rejects.jsonl. All is committed together now
    and then: after a crash or a signal the same command goes on, and the end is the same to the
    byte.

    A folder of files may grow: the same command then reads the new ones. --from MODEL goes on
    learning from other rows, in a folder of its own.

    Example: streambits learn vectors/*.parquet --bits 64 --out model/
    """
    if from_ is not None and like is not None:
        raise typer.BadParameter("--from goes on with a model, --like begins beside it: choose one")
    settings = settings.checked()
    plain: dict[str, Any] = settings.plain()
    plain.pop("refresh")
    start, names = None, {}
    for option, path in (("from", from_), ("like", like)):
        if path is not None:
            refuse_settings(context, f"--{option}")
            start, found = open_learner(path)
            plain, names = {option: found.digest}, {option: str(path)}
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
