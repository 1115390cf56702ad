"""`streambits online`: every row gets its code before the next is read; it resumes."""

from typing import Annotated

import typer

from streambits.cli.options import JobOptions, Out, Sources, To
from streambits.cli.output import run_and_report
from streambits.jobs.job import JobPlan
from streambits.jobs.work import Online
from streambits.methods.settings import Settings

KeepEpochs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How many epochs can be searched through the job, the current one included. Default: "
        "all. The coders of older epochs are removed: their codes stay where they are, and are "
        "left out of searches until streambits reencode brings them to the newest epoch.",
    ),
]


def online_command(
    sources: Sources,
    *,
    out: Out,
    to: To = None,
    settings: Settings,
    keep_epochs: KeepEpochs = None,
    options: JobOptions,
) -> None:
    """Give every row of a stream its code at once, and learn from it.

    OUT gets codes/, model.safetensors (the learner), coders.safetensors (the coder of the last
    epoch and what its distances mean), epochs/ (the same for each epoch before) and, with
    --skip-bad, rejects.jsonl. The newest coder of both models is the one that made the last codes.
    All is committed together now and then: after a crash or a signal the same command goes on, and
    the end is the same to the byte.

    Example: streambits online vectors/*.parquet --bits 64 --out codes/
    """
    settings = settings.checked()
    plan = JobPlan(
        verb="online",
        source=options.open(sources),
        work=Online(settings, keep_epochs, options.device),
        settings=settings.plain(),
        out=out,
        bits=settings.sign_bits,
        refine=settings.refinement_bytes,
        to=to,
        skip_bad=options.skip_bad,
        retry_seconds=options.retry_seconds,
    )
    run_and_report(plan, options)
