"""`streambits evaluate --runbook`: an index that learns while rows come and go."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

import streambits
from streambits._files import check_writable, replacing
from streambits.cli import output
from streambits.errors import InputError
from streambits.evaluation.runbook import Played, generate, play, read
from streambits.io.protocols import Source
from streambits.methods.settings import Settings
from streambits.stream_index import StreamIndex

RUNBOOK = Settings(64, refine=8)  # what plays, unless options say otherwise


class Asked(NamedTuple):
    """What the command line names: files, and what to generate."""

    runbook: Path
    model: Path | None
    rows: str | None
    queries: str | None
    generate: str | None


def on_runbook(
    asked: Asked, opened: Callable[[str], Source], settings: Settings, *, k: int, as_json: bool
) -> None:
    """Generate a runbook, or play one; opened: the source of a name."""
    if asked.model is not None or asked.rows is None:
        raise typer.BadParameter("--runbook needs --rows, and no model")
    rows = read_all(opened(asked.rows))
    if asked.generate is not None:
        write_runbook(asked.generate, rows, asked.runbook, settings.seed)
        return
    if asked.queries is None:
        raise typer.BadParameter("--runbook needs --queries: rows that are not among --rows")
    queries = read_all(opened(asked.queries))
    play_runbook(asked.runbook, rows, queries, settings, k=k, as_json=as_json)


def read_all(source: Source) -> NDArray[Any]:
    """All rows of a source, in their order; a bad row would shift the others, and is an error."""
    parts = []
    for batch in source.read():
        if batch.rejects:
            place, reason = batch.rejects[0][:2]
            raise InputError(f"{source.name}, {place}: {reason}; a runbook needs every row")
        parts.append(np.asarray(batch.rows))
    if not sum(map(len, parts)):
        raise InputError(f"{source.name} has no rows")
    return np.concatenate([part for part in parts if len(part)])


def write_runbook(kind: str, rows: NDArray[Any], file: Path, seed: int) -> None:
    """Write a runbook, and rows in its order beside it."""
    beside = file.with_suffix(".npy")
    check_writable(file)
    check_writable(beside)
    runbook, order = generate(kind, rows, dataset=file.stem, seed=seed)
    with replacing(beside) as opened:
        np.save(opened, rows[order])
    runbook.write(file)
    console = output.stderr()
    console.print(f"runbook: {file}, {len(runbook.steps):,} steps", soft_wrap=True, markup=False)
    console.print(f"its rows, in its order: {beside}", soft_wrap=True, markup=False)


def play_runbook(
    file: Path,
    rows: NDArray[Any],
    queries: NDArray[Any],
    settings: Settings,
    *,
    k: int,
    as_json: bool,
) -> None:
    """Play a runbook, and print what was reached."""
    runbook = read(file)
    settings = settings.checked()
    with output.working(output.stderr(), f"playing {len(runbook.steps):,} steps of {file}"):
        played = play(runbook, rows, queries, StreamIndex(settings), k)
    if as_json:
        typer.echo(json.dumps({"streambits": streambits.__version__, **played.as_dict()}))
        return
    output.stdout().print(_table(played, f"{runbook.dataset}, {settings}"), markup=False)


def _table(played: Played, title: str) -> Table:
    table = Table("", "", title=title)
    table.columns[1].justify = "right"
    lives = [one.live for one in played.searches]
    table.add_row("searches", f"{len(lives):,}")
    table.add_row("live rows", f"{min(lives):,} to {max(lives):,}")
    table.add_row(f"mean recall of the {played.k} nearest", f"{played.mean:.3f}")
    table.add_row("worst search", f"{played.worst:.3f}")
    table.add_row("worst / mean", f"{played.steadiness:.3f}")
    for name, seconds in played.seconds.items():
        table.add_row(f"seconds of {name}", f"{seconds:.2f}")
    return table
