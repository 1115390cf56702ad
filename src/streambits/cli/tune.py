"""`streambits tune`: settings for your rows, by measuring."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from streambits.cli import chosen, progress
from streambits.cli.options import names
from streambits.errors import InputError
from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.model.sampling import Reservoir
from streambits.tune import Choice, Tuned
from streambits.tune import tune as choose

SHOWN = 10  # trials in the table


class Target(StrEnum):
    """What is wanted."""

    map = "map"
    recall = "recall"


def tune(
    rows: Annotated[
        str, typer.Argument(help="Rows: a file, a folder, a glob, or - for standard input.")
    ],
    *,
    bits: Annotated[int, typer.Option(min=1, max=4096, help="Length of the codes.")] = 64,
    target: Annotated[
        Target, typer.Option(help="map: rank all near rows well; recall: find the nearest.")
    ] = Target.map,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to try new settings.")] = 60.0,
    n_landmarks: Annotated[int, typer.Option(min=2, help="At most so many.")] = 500,
    sample: Annotated[int, typer.Option(min=200, help="Rows drawn to measure on.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample and all else.")] = 0,
    columns: Annotated[
        str | None, typer.Option(help="Columns of the rows, with commas between.")
    ] = None,
    ids: Annotated[str | None, typer.Option(help="Column of ids, left out.")] = None,
    format: Annotated[  # noqa: A002 - what users call it
        str | None, typer.Option(help="Of the rows; by default by the name, csv for -.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A new TOML file for the choice, which --settings of others takes."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Choose features, landmarks, bandwidth, whitening and rotation on a sample of your rows.

    Prints what was tried, and the command that learns with the choice; `online` takes the same
    options, and both take the file of --out by --settings.

    Example: streambits tune embeddings/ --bits 64 --target recall --out tuned.toml
    """
    console = progress.stderr()
    if out is not None:
        chosen.check_new(out)
    source = open_source(rows, columns=names(columns), ids=ids, format=format)
    with progress.working(console, f"drawing {sample:,} rows from {source.name}"):
        drawn = draw(source, sample, seed, console)
    with progress.working(console, f"trying settings, {seconds:g} s and a little more"):
        tuned = choose(
            drawn, bits, target=target.value, seconds=seconds, n_landmarks=n_landmarks, seed=seed
        )
    told = chosen.settings(tuned.choice, tuned.bits)
    line = chosen.command(rows, {"columns": columns, "ids": ids, "format": format}, told)
    if as_json:
        typer.echo(json.dumps({"settings": told, "command": line, **as_object(tuned)}))
    else:
        shown = Console(highlight=False)
        shown.print(table(tuned))
        shown.print(f"chosen: {tuned.choice}\n\n{line}", soft_wrap=True, markup=False)
    if out is not None:  # last: what was found is told, whatever the disk says
        chosen.write(out, told)
        written = f"{out}: the same, for --settings of learn and online"
        console.print(written, soft_wrap=True, markup=False)


def draw(source: Source, size: int, seed: int, console: Console) -> Any:
    """A uniform sample of the rows of a source, in one pass."""
    held, bad = None, 0
    for chunk in source.read():
        bad += len(chunk.rejects)
        if len(chunk.rows):
            held = held or Reservoir(size, chunk.rows, inputs=chunk.rows.shape[1], seed=seed)
            held.update(chunk.rows)
    if held is None:
        raise InputError(f"{source.name} has no row that can be used")
    if bad:
        console.print(f"left out: {bad:,} bad rows")
    return held.rows


def table(tuned: Tuned) -> Table:
    """The best trials; the choice in bold."""
    best = sorted(tuned.trials, key=lambda trial: -trial.score)
    shown = Table("score", "seconds", "settings", title=f"{len(best)} settings tried")
    for trial in best[:SHOWN]:
        bold = "[bold]" if trial.choice == tuned.choice else ""
        shown.add_row(f"{bold}{trial.score:.4f}", f"{trial.seconds:.2f}", f"{bold}{trial.choice}")
    return shown


def as_object(tuned: Tuned) -> dict[str, Any]:
    """The same for programs."""
    trials = [
        {
            "score": t.score,
            "seconds": round(t.seconds, 3),
            "finalist": t.finalist,
            **_plain(t.choice),
        }
        for t in tuned.trials
    ]
    return {"chosen": _plain(tuned.choice), "trials": trials}


def _plain(choice: Choice) -> dict[str, Any]:
    return dict(vars(choice))
