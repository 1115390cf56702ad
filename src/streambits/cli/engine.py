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
ENGINES = ("dask", "spark")
OF_ENGINE = {  # options, and the engine that has them
    "scheduler": "dask",
    "workers": "dask",
    "row_groups": "dask",
    "remote": "spark",
    "partitions": "spark",
    "partition_by": "spark",
}


@dataclass(frozen=True)
class EngineOptions:
    """Which engine does the work, and where it is."""

    engine: str | None = option(
        None,
        "Who does the work, partition by partition. dask: the workers of a cluster, which must see "
        "the files and the folder by the same paths. spark: a Spark Connect server, which reads "
        "Parquet files; its workers must see the folder. Default: this process, in one pass.",
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
        "Of dask: row groups of a Parquet file that are a partition. By default every file is one.",
        least=1,
    )
    remote: str | None = option(
        None, "Of spark: the address of the server, such as sc://host:15002."
    )
    partitions: int | None = option(
        None,
        "Of spark: number of partitions, into which rows are divided by their ids. By default one "
        "for every 262,144 rows; a task holds the rows of one in memory.",
        least=1,
    )
    partition_by: str | None = option(
        None, "Of spark: name of a column whose values are the partitions, instead."
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
        self._check_own()
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

    def _check_own(self) -> None:
        """Refuse options of another engine, and an engine without an address."""
        for name, engine in OF_ENGINE.items():
            if getattr(self, name) is not None and engine != self.engine:
                raise typer.BadParameter(f"{_flag(name)} is for --engine {engine}")
        if self.engine == "dask" and (self.scheduler is None) == (self.workers is None):
            raise typer.BadParameter("--engine dask needs --scheduler ADDRESS or --workers N")
        if self.engine == "spark" and self.remote is None:
            raise typer.BadParameter("--engine spark needs --remote ADDRESS")
        if self.partitions is not None and self.partition_by is not None:
            raise typer.BadParameter(
                "--partition-by says what partitions are, without --partitions"
            )

    @contextmanager
    def opened(self) -> Iterator[Engine]:
        """The engine, with its workers there."""
        if self.engine == "spark":
            from streambits.engines import spark  # noqa: PLC0415 - an extra

            with spark.connected(self.remote or "") as session:
                yield spark.SparkEngine(session)
            return
        from streambits.engines import dask  # noqa: PLC0415 - an extra

        if self.scheduler is not None:
            with dask.connect(self.scheduler) as client:
                yield dask.DaskEngine(client)
            return
        with dask.local_cluster(self.workers or 1) as client:
            yield dask.DaskEngine(client)

    @contextmanager
    def reading(
        self, sources: list[str], options: JobOptions
    ) -> Iterator[tuple[Engine, list[Any]]]:
        """The engine, and the partitions of the sources."""
        columns = column_names(options.columns)
        if self.engine != "spark":
            how = {"ids": options.ids, "format": options.format, "groups": self.row_groups}
            partitions = list(partition_files(sources, columns=columns, **how))  # type: ignore[arg-type]
            with self.opened() as there:
                yield there, partitions
            return
        from streambits.engines import spark  # noqa: PLC0415 - an extra

        if options.ids is None or options.format not in (None, "parquet"):
            raise typer.BadParameter(
                "--engine spark reads Parquet files, with a column of ids: name it with --ids"
            )
        paths = [one if is_url(one) else str(Path(one).absolute()) for one in sources]
        with spark.connected(self.remote or "") as session:
            frame, shares = spark.partition_frame(
                spark.read_parquet(session, paths),
                vectors=columns,
                ids=options.ids,
                partition=self.partition_by,
                n_partitions=self.partitions,
            )
            yield spark.SparkEngine(session, frame), list(shares)


def _flag(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"


@contextmanager
def _planned(
    sources: list[str],
    options: JobOptions,
    engine: EngineOptions,
    out: Path,
    *,
    settings: dict[str, Any] | None = None,
    names: dict[str, str] | None = None,
) -> Iterator[tuple[Engine, EngineJob]]:
    """The engine, and the job that it is to do."""
    if is_url(str(out)):
        raise InputError(f"--out is {out}, a URL, and it must be a folder that all workers see")
    source: dict[str, Any] = {"files": [[one] for one in sources], "format": options.format}
    source |= {"columns": column_names(options.columns), "ids": options.ids}
    more = ("partitions", "partition_by") if engine.engine == "spark" else ("row_groups",)
    source |= {name: getattr(engine, name) for name in more}
    with engine.reading(sources, options) as (there, partitions):
        yield there, EngineJob(partitions, out.absolute(), source, settings, names)


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
    planned = _planned(sources, options, engine, out, settings=settings, names=names)
    with planned as (there, plan), output.partitions_done(options) as on_done:
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
    planned = _planned(sources, options, engine, out, names={"model": name})
    coder = model.coder
    with planned as (there, plan), output.partitions_done(options) as on_done:
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
