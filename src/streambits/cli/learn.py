"""`streambits learn`: a model from one pass over a stream; it resumes."""

from streambits.cli.options import JobOptions, LearnSettings, Out, Sources
from streambits.cli.output import run_and_report
from streambits.jobs.job import JobPlan
from streambits.jobs.work import Learning


def learn_command(
    sources: Sources, *, out: Out, settings: LearnSettings, options: JobOptions
) -> None:
    """Learn a model from a stream; `encode` then makes codes.

    OUT gets model.safetensors and, with --skip-bad, rejects.jsonl. All is committed together now
    and then: after a crash or a signal the same command goes on, and the end is the same to the
    byte.

    Example: streambits learn vectors/*.parquet --bits 64 --out model/
    """
    settings = settings.checked()
    plain = {name: value for name, value in settings.plain().items() if name != "refresh"}
    plan = JobPlan(
        verb="learn",
        source=options.open(sources),
        work=Learning(settings, options.device),
        settings=plain,
        out=out,
        skip_bad=options.skip_bad,
    )
    run_and_report(plan, options)
