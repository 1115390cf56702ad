"""`streambits evaluate`: the paper's experiments and more, with a report; it resumes."""

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import streambits
from streambits.cli import progress
from streambits.cli.remaining import remaining
from streambits.evaluation import datasets, figures, report, runs, theory_runs
from streambits.evaluation.cells import STREAMS
from streambits.evaluation.plan import GRIDS, Grid, read_grid
from streambits.evaluation.streams import title


class Which(StrEnum):
    """The grids that come with the package."""

    paper = "paper"
    quick = "quick"


def evaluate(
    which: Annotated[
        Which | None,
        typer.Argument(help="paper: everything, for hours; quick: a first look, two minutes."),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Where the report and the results go.")] = Path(
        "report"
    ),
    data: Annotated[Path | None, typer.Option(help="Where data files are looked for.")] = None,
    download: Annotated[bool, typer.Option(help="Fetch data sets that are not here.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
    grid: Annotated[Path | None, typer.Option(help="A grid of your own (TOML).")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object: where things are, verdicts.")
    ] = False,
) -> None:
    """Run the paper's experiments, and what goes beyond them, and write a report.

    Every result is kept in OUT/results: a run that was stopped goes on with what is missing.
    """
    if (which is None) == (grid is None):
        raise typer.BadParameter("say paper or quick, or name a grid of your own with --grid")
    if data is not None:
        os.environ["STREAMBITS_DATA"] = str(data)  # the workers look there too
    console = progress.stderr()
    plan = _plan(grid or GRIDS / f"{which}.toml", download, console)
    written = run(plan, out, workers or os.cpu_count() or 1, console)
    if as_json:
        typer.echo(json.dumps(as_object(plan, written)))
    else:
        show(written, Console(highlight=False))


def _plan(path: Path, download: bool, console: Console) -> Grid:
    """The grid with the data there are; those that are missing are told, or fetched if asked."""
    plan = read_grid(path)
    if download and plan.absent:
        for name in dict.fromkeys(STREAMS[stream][0] for stream in plan.absent):
            datasets.load(name, download=True)
        plan = read_grid(path)
    if not plan.cells and plan.absent:
        datasets.load(STREAMS[plan.absent[0]][0])  # says what is missing, and where to get it
    for stream in plan.absent:
        console.print(f"left out: {title(stream)}, its data are not here", soft_wrap=True)
    for method in plan.unpacked:
        console.print(f"left out: {method}, its package is not installed", soft_wrap=True)
    return plan


def run(plan: Grid, out: Path, workers: int, console: Console) -> report.Written:
    """Measure what is missing and write the report; what could fail at the end is tried first."""
    folder = out / "results"
    runs.make(folder)
    figures.check(out / "figure.png")
    try:
        todo = runs.missing(plan, folder)
        with remaining(console, todo, len(plan.cells) - len(todo), workers) as tell:
            runs.run(plan, folder, workers=workers, on_done=tell)
        names = theory_runs.missing(plan, folder)
        theory_runs.run(plan, folder, on_start=lambda name: _tell(console, name, names))
    except KeyboardInterrupt:
        done = len(plan.cells) - len(runs.missing(plan, folder))
        told = f"stopped: {done:,} of {len(plan.cells):,} cells are done"
        console.print(f"{told}; the same command goes on from here", soft_wrap=True)
        raise typer.Exit(130) from None
    with progress.working(console, "writing the report"):
        return report.write(plan, folder, out)


def _tell(console: Console, name: str, names: list[str]) -> None:
    console.print(f"theory: {name}, {names.index(name) + 1} of {len(names)}")


def show(written: report.Written, console: Console) -> None:
    """The verdicts for people."""
    table = Table("claim", "who", "verdict", title="What the paper says, measured")
    for finding in written.findings:
        condition = f", {finding.verdict.condition}" if finding.verdict.condition else ""
        verdict = f"{finding.verdict.word}{condition}"
        table.add_row(finding.claim.name, finding.who, verdict)
    console.print(table)
    for name, path in (("report", written.page), ("table", written.table)):
        console.print(f"{name}: {path}", soft_wrap=True)
    console.print(f"picture: {written.picture}", soft_wrap=True)


def as_object(plan: Grid, written: report.Written) -> dict[str, Any]:
    """The verdicts for programs."""
    return {
        "streambits": streambits.__version__,
        "report": str(written.page),
        "table": str(written.table),
        "picture": str(written.picture),
        "cells": len(plan.cells),
        "absent": plan.absent,
        "claims": [
            {
                "claim": finding.claim.name,
                "method": finding.method or None,
                "verdict": finding.verdict.word,
                "condition": finding.verdict.condition,
                "measured": finding.measured,
            }
            for finding in written.findings
        ],
    }
