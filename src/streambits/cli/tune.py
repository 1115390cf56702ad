"""`streambits tune`: settings for your rows, by measuring."""

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from streambits.cli import progress
from streambits.cli.opening import names
from streambits.errors import InputError
from streambits.features import GaussianAffinity, Reservoir
from streambits.streams.connect import Source
from streambits.streams.sources import open_source
from streambits.tune import Choice, Tuned
from streambits.tune import tune as choose

SHOWN = 10  # trials in the table
LINEAR = {"itq": "itq", "none": "pcah"}  # methods without a kernel, by their rotation


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
    landmarks: Annotated[int, typer.Option(min=2, help="At most so many.")] = 500,
    sample: Annotated[int, typer.Option(min=200, help="Rows drawn to measure on.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample and all else.")] = 0,
    columns: Annotated[
        str | None, typer.Option(help="Columns of the rows, with commas between.")
    ] = None,
    ids: Annotated[str | None, typer.Option(help="Column of ids, left out.")] = None,
    format: Annotated[  # noqa: A002 - what users call it
        str | None, typer.Option(help="Of the rows; by default by the name, csv for -.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Choose features, landmarks, bandwidth, whitening and rotation on a sample of your rows.

    Prints what was tried, and the choice as TOML that --settings takes.

    Example: streambits tune embeddings/ --bits 64 --target recall
    """
    console = progress.stderr()
    source = open_source(rows, columns=names(columns), ids=ids, format=format)
    with progress.working(console, f"drawing {sample:,} rows from {source.name}"):
        drawn = draw(source, sample, seed, console)
    with progress.working(console, f"trying settings, {seconds:g} s and a little more"):
        tuned = choose(
            drawn, bits, target=target.value, seconds=seconds, landmarks=landmarks, seed=seed
        )
    if as_json:
        typer.echo(json.dumps(as_object(tuned)))
    else:
        out = Console(highlight=False)
        out.print(table(tuned))
        out.print(f"chosen: {tuned.choice}\n\n{toml(tuned)}", soft_wrap=True, markup=False)


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


def settings(tuned: Tuned) -> dict[str, Any]:
    """The choice as far as `learn` and `online` have options for it."""
    choice = tuned.choice
    if not choice.kernel:
        return {"method": LINEAR.get(choice.rotation, "itq"), "bits": tuned.bits}
    features = tuned.learner().features
    told: dict[str, Any] = {"method": "ssbc", "bits": tuned.bits, "landmarks": choice.count}
    if isinstance(features, GaussianAffinity) and choice.factor != Choice().factor:
        told["bandwidth"] = float(f"{features.bandwidth:.6g}")
    return told


def beyond(tuned: Tuned) -> dict[str, Any]:
    """What of the choice is no option: only `streambits.tune(...).learner()` has it."""
    choice = tuned.choice
    usual = Choice() if choice.kernel else Choice(kernel=False, whitening=0.0)
    names = ["whitening"] + (["landmarks", "rotation"] if choice.kernel else [])
    if not choice.kernel and choice.rotation not in LINEAR:
        names.append("rotation")
    values = {name: getattr(choice, name) for name in names}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def toml(tuned: Tuned) -> str:
    """The settings as a table for each verb that learns."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings(tuned).items()]
    lines += [f"# no option: {name} = {json.dumps(v)}" for name, v in beyond(tuned).items()]
    return "\n".join(f"[{verb}]\n" + "\n".join(lines) + "\n" for verb in ("learn", "online"))


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
    told = {"settings": settings(tuned), "beyond": beyond(tuned), "toml": toml(tuned)}
    return told | {"chosen": _plain(tuned.choice), "trials": trials}


def _plain(choice: Choice) -> dict[str, Any]:
    return dict(vars(choice))
