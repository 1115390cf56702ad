"""`streambits tune`: settings for your rows, by measuring."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from streambits._digests import seal_text
from streambits._files import replacing
from streambits.cli import output
from streambits.cli.options import READ, RowOptions, Rows, Shown, option
from streambits.errors import StorageError
from streambits.methods.settings import Settings
from streambits.model.codes import MOST_BITS
from streambits.model.quantiser import MOST_BYTES
from streambits.tune import ANSWERS, CANDIDATES, TARGETS, Tuned, code_size, tune

TABLE_TRIALS = 10
READING = ("columns", "ids", "format")
LEARN_FLAGS = (*READING, "bits", "method", "refine", "metric")  # the others: --set


@dataclass(frozen=True)
class TuneOptions:
    """What is tried, on what, and for how long."""

    bits: int | None = option(
        None, "Length of codes of sign bits. Default: 64.", least=1, most=MOST_BITS
    )
    bytes: int | None = option(
        None, "Instead: bytes of sign bits and refinement.", least=2, most=MOST_BYTES
    )
    target: str | None = option(
        None, "Score: map (default with --bits), or recall (with --bytes).", choices=TARGETS
    )
    scan: bool = option(False, "With --bytes: allow codes without sign bits.")
    candidates: int = option(CANDIDATES, "With --bytes: candidates at most.", least=ANSWERS)
    seconds: float = option(60.0, "Seconds to try settings.", least=0.1)
    n_landmarks: int = option(500, "Landmarks at most.", least=2)
    seed: int = option(0, "Random seed.", least=0)


def tune_command(
    rows: Rows,
    *,
    options: Annotated[TuneOptions, Shown("bits bytes target scan seconds")],
    sample: Annotated[int, typer.Option(min=200, hidden=True, help="Rows to measure on.")] = 5000,
    out: Annotated[
        Path | None, typer.Option(help="New TOML file of the choice, for --config of learn.")
    ] = None,
    reading: Annotated[RowOptions, Shown(READ)],
) -> None:
    """Choose features, landmarks, bandwidth, whitening and rotation on a sample of your rows.

    With --bytes it also chooses how many bytes are sign bits, and how many a refinement. Prints
    what was tried, and the command that learns with the choice.

    Example: streambits tune embeddings/ --bytes 16 --out tuned.toml
    """
    console = output.stderr()
    if out is not None:
        check_new(out)
    drawn = output.draw(reading.open(rows), sample, options.seed)
    with output.working(console, f"trying settings, {options.seconds:g} s and a little more"):
        tuned = tune(drawn, **asdict(options))
    best = _settings(tuned.settings)
    line = command_line(rows, {name: getattr(reading, name) for name in READING} | best)
    facts = {"settings": best, "candidates": tuned.candidates, "command": line}
    text = f"best: {tuned.settings}"
    if tuned.candidates is not None:
        text += f"\nA search for ten answers should rank candidates: {tuned.candidates}."
    shown: list[Table | str] = [_table(tuned), f"{text}\n\n{line}"]
    output.result(facts | {"trials": _trials(tuned)}, shown, reading.json)
    if out is not None:  # last: what was measured is printed, whatever the disk says
        write(out, best)
        written = f"{out}: the same, for --config of learn and online"
        console.print(written, soft_wrap=True, markup=False)


def _settings(settings: Settings) -> dict[str, Any]:
    """What differs from the defaults; bits only of codes that have some."""
    found = settings.differences()
    if not settings.sign_bits:
        del found["bits"]
    return found


def _table(tuned: Tuned) -> Table:
    """The best trials; the choice in bold."""
    best = sorted(tuned.trials, key=lambda trial: -trial.score)
    tried = "1 setting" if len(best) == 1 else f"{len(best)} settings"
    rows = [
        (f"{one.score:.4f}", f"{one.seconds:.2f}", code_size(one.settings), str(one.settings))
        for one in best[:TABLE_TRIALS]
    ]
    heads = ("score", "seconds", "code", "settings")
    return output.table(f"{tried} tried", heads, rows, lambda row: row[-1] == str(tuned.settings))


def _trials(tuned: Tuned) -> list[dict[str, Any]]:
    """The same for programs."""
    names = ("score", "seconds", "finalist", "settings")
    values = (
        (one.score, round(one.seconds, 3), one.finalist, _settings(one.settings))
        for one in tuned.trials
    )
    return [dict(zip(names, each, strict=True)) for each in values]


def toml(settings: Mapping[str, Any]) -> str:
    """Settings as lines of a file.

    >>> print(toml({"method": "linear", "whitening": 0.5}))
    method = "linear"
    whitening = 0.5
    <BLANKLINE>
    """
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())


def command_line(rows: str, settings: Mapping[str, Any]) -> str:
    """The line to type; settings: how rows were read, too.

    >>> command_line("a b.csv", {"ids": "key", "columns": None, "bits": 8, "certified": True})
    "streambits learn 'a b.csv' --ids key --bits 8 --set certified=true --out model/"
    """
    words = []
    for name, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if value is not None:
            words += [f"--{name}", text] if name in LEARN_FLAGS else ["--set", f"{name}={text}"]
    return shlex.join(["streambits", "learn", rows, *words, "--out", "model/"])


def check_new(path: Path) -> None:
    """Refuse to write where somebody's settings are, or where nothing can be."""
    if path.exists():
        raise StorageError(f"{path} exists: choose another name, or remove it")
    if not path.parent.is_dir():
        raise StorageError(f"{path} cannot be written: there is no folder {path.parent}")


def write(path: Path, settings: Mapping[str, Any]) -> None:
    """Write a file that --config reads, whole or not at all."""
    with replacing(path) as file:
        file.write(seal_text(toml(settings)).encode())
