"""`streambits online`: every row gets its code before the next is read; it resumes."""

from typing import Annotated, Any

import typer

from streambits.cli.options import From, JobOptions, Out, Shown, Sources, To, refuse_settings
from streambits.cli.output import run_and_report
from streambits.epochs.coder_set import CoderSet
from streambits.jobs.job import JobPlan
from streambits.jobs.models import open_learner
from streambits.jobs.work import Online
from streambits.methods.settings import Settings


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
    plain, names = settings.plain(), dict[str, str]()
    start: dict[str, Any] = {}
    bits, refine = settings.sign_bits, settings.refinement_bytes
    if from_ is not None:
        refuse_settings(context, "--from", ("refresh",))
        learner, found = open_learner(from_)
        coders = found.content if isinstance(found.content, CoderSet) else None
        start = {"start": learner, "coders": coders}
        bits, refine = learner.bits, learner.refine + learner.certified
        plain, names = {"from": found.digest, "refresh": settings.refresh}, {"from": str(from_)}
    plan = JobPlan(
        verb="online",
        source=options.open(sources),
        work=Online(settings, keep_epochs, options.device, refuse=options.refuse, **start),
        settings=plain,
        out=out,
        bits=bits,
        refine=refine,
        to=to,
        keep=options.kept,
        skip_bad=options.skip_bad,
        names=names,
        retry_seconds=options.retry_seconds,
    )
    run_and_report(plan, options)
