"""`streambits demo`: what the codes are worth, in a table and a picture, without a download."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

import streambits
from streambits.cli import progress
from streambits.errors import MissingExtraError
from streambits.evaluation import figures
from streambits.evaluation.compare import CONTESTANTS, Contest, Score, compare, contest
from streambits.evaluation.gallery import gallery
from streambits.evaluation.online import Online, watch_online
from streambits.online import REFRESH

EXTRA = {"matplotlib": "matplotlib", "scikit-learn": "sklearn"}  # packages, and what they import
ONLINE_BITS = 64
BITS = 32  # linear ITQ has at most as many bits as there are columns, and Uniform has 50


class Shown(NamedTuple):
    """online: ssbc on Uniform; scores: every method on both data sets; picture: where it lies."""

    online: Online
    scores: list[Score]
    picture: Path


def _png(path: Path) -> Path:
    if path.suffix.lower() != ".png":
        raise typer.BadParameter(f"the picture is a PNG: name it {path.with_suffix('.png')}")
    return path


def demo(
    out: Annotated[Path, typer.Option(help="Where the picture goes (PNG).", callback=_png)] = Path(
        "streambits-demo.png"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the data, the landmarks and all else.")] = 0,
    rows: Annotated[int, typer.Option(min=1000, hidden=True)] = 10000,
) -> None:
    """Stream the paper's Uniform data, then compare four methods on it and on handwritten digits.

    Prints mean average precision (MAP) and draws a picture. Needs no download and no settings.
    """
    shown = run(out, seed, rows, progress.stderr())
    if as_json:
        typer.echo(json.dumps(as_object(shown, seed)))
    else:
        report(shown, Console(highlight=False))


def run(out: Path, seed: int, rows: int, console: Console) -> Shown:
    """All of the work; what could fail at the end is tried first."""
    for package, module in EXTRA.items():
        if find_spec(module) is None:
            raise MissingExtraError(package, "demo")
    figures.check(out)
    uniform = contest("uniform", 500, rows, seed=seed)
    digits = contest("digits", 300, 2000, seed=seed)
    with progress.streaming(console, f"Uniform, {ONLINE_BITS} bits, online") as on_step:
        online = watch_online(uniform, ONLINE_BITS, on_step=on_step, seed=seed)
    scores = [score for data in (uniform, digits) for score in _scores(data, seed, console)]
    with progress.working(console, "drawing the picture"):
        mine = [score for score in scores if score.data == digits.data]
        figures.write(figures.overview(scores, gallery(digits.stream.rows, mine)), out)
    return Shown(online, scores, out)


def _scores(data: Contest, seed: int, console: Console) -> list[Score]:
    scores: list[Score] = []
    for name, build in CONTESTANTS.items():
        with progress.working(console, f"{data.data.capitalize()}, {BITS} bits: {name}"):
            scores += compare(data, BITS, contestants={name: build}, seed=seed)
    return scores


def report(shown: Shown, console: Console) -> None:
    """The results for people."""
    got = shown.online
    console.print(
        f"\nssbc on Uniform, {ONLINE_BITS} bits, one pass over {got.last.total:,} rows:\n"
        f"  MAP online    {got.online:.3f}  each code given out at once\n"
        f"  MAP at end    {got.end:.3f}  all codes given out at the end\n"
        f"  bits changed  {got.changed:.2%}  at each refresh, every {REFRESH} rows\n"
    )
    console.print(table(shown.scores))
    console.print(f"\npicture: {shown.picture}", soft_wrap=True)


def table(scores: list[Score]) -> Table:
    """A line a method, a column a data set; the best of each in bold."""
    data = list(dict.fromkeys(score.data for score in scores))
    table = Table("method", title=f"MAP of {BITS}-bit codes at the stream's end")
    for name in data:
        table.add_column(name.capitalize(), justify="right")
    best = {name: max(score.quality for score in scores if score.data == name) for name in data}
    for method in CONTESTANTS:
        mine = [score for score in scores if score.method == method]
        bold = ("[bold]" if score.quality == best[score.data] else "" for score in mine)
        table.add_row(method, *(f"{b}{s.quality:.3f}" for b, s in zip(bold, mine, strict=True)))
    return table


def as_object(shown: Shown, seed: int) -> dict[str, Any]:
    """The results for programs."""
    got = shown.online
    return {
        "streambits": streambits.__version__,
        "seed": seed,
        "online": {
            "data": "uniform",
            "method": "ssbc",
            "bits": ONLINE_BITS,
            "rows": got.last.rows,
            "rows_per_second": round(got.last.rows / got.last.seconds, 1),
            "certificate": got.last.certificate,
            "bits_changed": got.changed,
            "map_online": got.online,
            "map_end": got.end,
        },
        "scores": [_score(score) for score in shown.scores],
        "picture": str(shown.picture),
    }


def _score(score: Score) -> dict[str, Any]:
    return {
        "data": score.data,
        "method": score.method,
        "bits": score.bits,
        "rows": len(score.codes),
        "map": score.quality,
        "seconds": round(score.seconds, 3),
    }
