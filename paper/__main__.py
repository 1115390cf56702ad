"""`python -m paper`: the paper's experiments and more, with a report; a stopped run resumes."""

import json
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import streambits
from paper import datasets, runs
from paper.grid import GRIDS, Grid, read_grid
from paper.measure import STREAMS
from paper.progress import remaining
from paper.report import plots, report
from paper.report.tables import HEADER, line
from paper.summary import title
from paper.theory import runs as theory_runs
from streambits.cli import output
from streambits.errors import StreambitsError


class Which(StrEnum):
    """The grids that come with the repository."""

    quick = "quick"
    full = "full"
    methods = "methods"


def paper(
    which: Annotated[
        Which | None,
        typer.Argument(
            help="quick: a first look, some minutes. full: everything, for hours. methods: every "
            "method on every data set, one line per cell instead of a report."
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder of the report and the results.")] = Path(
        "report"
    ),
    data: Annotated[Path | None, typer.Option(help="Folder with the data files.")] = None,
    download: Annotated[bool, typer.Option(help="Download data sets that are missing.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes. Default: one per core.")
    ] = None,
    grid: Annotated[Path | None, typer.Option(help="A grid of your own (TOML).")] = None,
    cells: Annotated[
        bool, typer.Option("--cells", help="Print one line per cell and write no report.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object (with --cells, one per cell)."),
    ] = False,
) -> None:
    """Run the paper's experiments, and what goes beyond them, and write a report.

    Every result is saved in OUT/results: a run that was stopped continues with what is missing.
    """
    if (which is None) == (grid is None):
        raise typer.BadParameter(
            "name one of quick, full and methods, or a grid of your own with --grid"
        )
    if data is not None:
        os.environ["STREAMBITS_DATA"] = str(data)  # the workers look there too
    console = output.stderr()
    plan = _plan(grid or GRIDS / f"{which}.toml", download, console)
    count = workers or os.cpu_count() or 1
    if cells or which is Which.methods:
        measure(plan, out, count, console)
        for text in lines(plan, out, as_json):
            typer.echo(text)
        return
    written = run(plan, out, count, console)
    if as_json:
        typer.echo(json.dumps(as_object(plan, written)))
    else:
        show(written, Console(highlight=False))


def _plan(path: Path, download: bool, console: Console) -> Grid:
    """The grid with the data there are; what is missing is reported, or fetched."""
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


def measure(plan: Grid, out: Path, workers: int, console: Console) -> None:
    """Measure the cells that have no result yet."""
    folder = out / "results"
    runs.make(folder)
    try:
        todo = runs.missing(plan, folder)
        with remaining(console, todo, len(plan.cells) - len(todo), workers) as report_done:
            runs.run(plan, folder, workers=workers, on_done=report_done)
        names = theory_runs.missing(plan, folder)
        theory_runs.run(plan, folder, on_start=lambda name: _tell(console, name, names))
    except KeyboardInterrupt:
        done = len(plan.cells) - len(runs.missing(plan, folder))
        said = f"stopped: {done:,} of {len(plan.cells):,} cells are done"
        console.print(f"{said}; the same command goes on from here", soft_wrap=True)
        raise typer.Exit(130) from None


def lines(plan: Grid, out: Path, as_json: bool) -> Iterator[str]:
    """One line per cell: figures, or the reason why there are none."""
    if not as_json:
        yield HEADER
    for result in runs.results(plan.cells, out / "results", plan.queries):
        found = {"cell": result.cell._asdict(), "figures": result.figures}
        yield json.dumps(found) if as_json else line(result.cell, result.figures)


def run(plan: Grid, out: Path, workers: int, console: Console) -> report.Written:
    """Measure what is missing and write the report; what could fail at the end is tried first."""
    runs.make(out / "results")
    plots.check(out / "figure.png")
    measure(plan, out, workers, console)
    with output.working(console, "writing the report"):
        return report.write(plan, out / "results", out)


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


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(paper)


def main() -> None:
    """Run the command; a mistake is one line on stderr."""
    try:
        app(prog_name="python -m paper")
    except StreambitsError as error:
        typer.echo(f"paper: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
