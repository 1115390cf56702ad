"""`streambits online`: every row gets its code before the next is read; it resumes."""

from typing import Annotated, Any

import typer

import streambits
from streambits.cli.options import From, JobOptions, Out, Sources, To, refuse_settings
from streambits.cli.output import report_end, run_and_report, watching
from streambits.epochs.coder_set import CoderSet
from streambits.jobs.folder import JobFolder
from streambits.jobs.group import run_group
from streambits.jobs.job import JobPlan
from streambits.jobs.models import open_learner
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
Group = Annotated[
    str | None,
    typer.Option(
        help="Work as a member of this group: the same command, started several times on one "
        "machine or many, shares one stream of a broker and one folder OUT. Members may come and "
        "go."
    ),
]
Partitions = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        help="With --group and NATS: into how many slices each round of the stream is cut, and so "
        "how many members can work at a time. Default: 8. Other slices are another job.",
    ),
]


def online_command(
    context: typer.Context,
    sources: Sources,
    *,
    out: Out,
    to: To = None,
    from_: From = None,
    settings: Settings,
    keep_epochs: KeepEpochs = None,
    group: Group = None,
    partitions: Partitions = None,
    options: JobOptions,
) -> None:
    """Give every row of a stream its code at once, and learn from it.

    OUT gets codes/, model.safetensors (the learner), coders.safetensors (the coder of the last
    epoch and what its distances mean), epochs/ (the same for each epoch before) and, with
    --skip-bad, rejects.jsonl. The newest coder of both models is the one that made the last codes.
    All is committed together now and then: after a crash or a signal the same command goes on, and
    the end is the same to the byte.

    A folder of files may grow: the same command then reads the new ones. --from JOB goes on
    learning from other rows in a folder of its own; inside an epoch the codes of both compare.

    With --group NAME several members do one job: each encodes and learns slices of the stream, one
    of them merges what all have learned, opens epochs and hands out coders. Which coder encodes
    which message does not depend on who works when: however many members there are, and whatever is
    killed, the end is the same to the byte.

    Example: streambits online vectors/*.parquet --bits 64 --out codes/
    """
    if group is not None:
        _check_group(to, from_, settings, options)
    elif partitions is not None:
        raise typer.BadParameter("--partitions is for a --group")
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
    if group is None:
        run_and_report(plan, options)
        return
    with watching(plan.verb, options) as watchers:
        end = run_group(
            plan,
            settings,
            group,
            version=streambits.__version__,
            partitions=partitions,
            keep_epochs=keep_epochs,
            pace=options.pace,
            watchers=watchers,
        )
    report_end(plan.verb, end, options, str(out), str(JobFolder(out).rejects_file))


def _check_group(to: str | None, from_: object, settings: Settings, options: JobOptions) -> None:
    """Refuse what a group cannot do."""
    refused = {
        "--to": (to, "codes of a group are Parquet files in OUT"),
        "--from": (from_, "a group begins with the first rows of its stream"),
        "--device": (options.device, "members of a group work on their processors"),
        "--half-life": (settings.half_life, "lanes that fade at their own pace do not merge"),
    }
    for option, (value, reason) in refused.items():
        if value is not None:
            raise typer.BadParameter(f"{option} does not go with --group: {reason}")
