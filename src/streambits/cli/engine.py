"""Options of engines, and the verbs as engines run them: thin over `streambits.engines`."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import typer

import streambits
from streambits.cli import output
from streambits.cli.options import JobOptions, column_names, option
from streambits.engines import job, run
from streambits.engines.job import EngineJob
from streambits.engines.partitions import partition_files
from streambits.engines.parts import code_files
from streambits.engines.run import Engine
from streambits.errors import InputError
from streambits.io.urls import is_url
from streambits.jobs.models import OpenModel, open_model_of
from streambits.jobs.search import Answer, answers_of
from streambits.methods.settings import Settings
from streambits.model.batches import RowBatch
from streambits.model.learner import Learner

READING = ("columns", "ids", "format")  # options of jobs that an engine has as well
SHOWING = ("json", "quiet", "log_json")
ENGINES = ("dask",)
OF_ENGINE = {"scheduler": "dask", "workers": "dask"}  # options, and the engine that has them


@dataclass(frozen=True)
class EngineOptions:
    """Which engine does the work, and where it is."""

    engine: str | None = option(
        None,
        "Who does the work. dask: the workers of a cluster, partition by partition; they must see "
        "the files and the folder by the same paths. Default: this process, in one pass.",
        choices=ENGINES,
    )
    scheduler: str | None = option(
        None, "Of dask: the address of the scheduler, such as tcp://host:8786."
    )
    workers: int | None = option(
        None, "Of dask, without a scheduler: number of worker processes on this machine.", least=1
    )
    row_groups: int | None = option(
        None,
        "Of an engine: row groups of a Parquet file that are a partition. By default every file "
        "is one.",
        least=1,
    )

    def check(self, context: typer.Context, allowed: Sequence[str], *, here: bool = False) -> bool:
        """Whether there is an engine; refuse what it cannot do, by name.

        allowed: names of the options that it can do, beside its own; here: whether the output is
        standard output.
        """
        own = {one.name for one in fields(self)}
        if self.engine is None:
            for name in own:
                if getattr(self, name) is not None:
                    raise typer.BadParameter(f"{_flag(name)} needs --engine")
            return False
        for name, engine in OF_ENGINE.items():
            if getattr(self, name) is not None and engine != self.engine:
                raise typer.BadParameter(f"{_flag(name)} is for --engine {engine}")
        if self.engine == "dask" and (self.scheduler is None) == (self.workers is None):
            raise typer.BadParameter("--engine dask needs --scheduler ADDRESS or --workers N")
        if here:
            raise typer.BadParameter(
                "--engine needs a folder that all workers see: name it with --out"
            )
        for parameter in context.command.params:
            name = str(parameter.name)
            source = context.get_parameter_source(name)
            usual = source is None or source.name == "DEFAULT"
            if not usual and name not in own and name not in allowed:
                raise typer.BadParameter(
                    f"{_flag(name)} is not an option of --engine {self.engine}: leave it out, or "
                    f"leave out --engine"
                )
        return True

    @contextmanager
    def opened(self) -> Iterator[Engine]:
        """The engine, with its workers there."""
        from streambits.engines import dask  # noqa: PLC0415 - an extra

        if self.scheduler is not None:
            with dask.connect(self.scheduler) as client:
                yield dask.DaskEngine(client)
            return
        with dask.local_cluster(self.workers or 1) as client:
            yield dask.DaskEngine(client)


def _flag(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"


def _plan(
    sources: list[str],
    options: JobOptions,
    engine: EngineOptions,
    out: Path,
    *,
    settings: dict[str, Any] | None = None,
    names: dict[str, str] | None = None,
) -> EngineJob:
    if is_url(str(out)):
        raise InputError(f"--out is {out}, a URL, and it must be a folder that all workers see")
    partitions: list[Any] = list(
        partition_files(
            sources,
            columns=column_names(options.columns),
            ids=options.ids,
            format=options.format,
            groups=engine.row_groups,
        )
    )
    source: dict[str, Any] = {"files": [[one] for one in sources], "format": options.format}
    source |= {"columns": column_names(options.columns), "ids": options.ids}
    source |= {"row_groups": engine.row_groups}
    return EngineJob(partitions, out.absolute(), source, settings, names)


def learn_by_engine(
    sources: list[str],
    out: Path,
    model: Learner | Settings,
    settings: dict[str, Any],
    names: dict[str, str],
    *,
    options: JobOptions,
    engine: EngineOptions,
) -> None:
    """`streambits learn` on an engine."""
    plan = _plan(sources, options, engine, out, settings=settings, names=names)
    with engine.opened() as there, output.partitions_done(options) as on_done:
        found = job.learn(there, plan, model, refuse=options.refuse, on_done=on_done)
    rows = sum(one.rows for one in found.reports)
    count, epoch = len(found.reports), found.learner.epoch
    _report("learn", out, options, rows=rows, partitions=count, epoch=epoch)


def encode_by_engine(
    sources: list[str],
    out: Path,
    model: OpenModel,
    name: str,
    *,
    options: JobOptions,
    engine: EngineOptions,
) -> None:
    """`streambits encode` on an engine."""
    plan = _plan(sources, options, engine, out, names={"model": name})
    coder = model.coder
    with engine.opened() as there, output.partitions_done(options) as on_done:
        parts = job.encode(there, plan, coder, on_done=on_done)
    rows, kept = sum(part.rows for part in parts), sum(part.kept for part in parts)
    count, epoch = len(parts), coder.epoch
    _report("encode", out, options, rows=rows, partitions=count, kept=kept, epoch=epoch)


def search_by_engine(
    where: str,
    batches: Iterator[RowBatch],
    k: int,
    *,
    model: Path | None,
    real: bool,
    name: str,
    engine: EngineOptions,
    how: dict[str, Any],
) -> Iterator[Answer]:
    """`streambits search` on an engine: the shards are the Parquet files of the codes."""
    found = open_model_of(where, model)
    coder, shards = found.coder, code_files(where)
    with engine.opened() as there:
        for batch in batches:
            if not len(batch.rows):
                continue
            found.check_rows(batch.rows.shape[1], name)
            queries: Any = (coder.project if real else coder.encode)(batch.rows)
            if coder.refine:
                queries = coder.queries(batch.rows, real=real)
            hits = run.search(there, shards, queries, k, **how)
            yield from answers_of(batch.ids, hits)


def _report(verb: str, out: Path, options: JobOptions, **counts: int) -> None:
    """How it ended. counts: rows, partitions, kept and epoch."""
    if options.json:
        facts = {"streambits": streambits.__version__, "verb": verb, "out": str(out)}
        typer.echo(json.dumps({**facts, **counts}))
    if not (options.quiet or options.log_json):
        kept = f", {counts['kept']} of them there already" if counts.get("kept") else ""
        rows = f"{counts['rows']:,} rows of {counts['partitions']:,} partitions{kept}"
        typer.echo(f"{out}: {rows}, epoch {counts['epoch']}", err=True)
