"""`streambits demo`: what the codes are worth, in tables and a plot, without a download."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import streambits
from streambits import methods
from streambits._arrays import blocks
from streambits._files import check_writable
from streambits.cli import output
from streambits.cli.options import Seed
from streambits.evaluation.bits import bits_changed
from streambits.evaluation.page import line_plot, write_svg
from streambits.evaluation.quality import mean_average_precision
from streambits.evaluation.truth import draw_queries
from streambits.features import nearest
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.online import encode_online

ONLINE_BITS, LANDMARKS, QUERIES = 64, 500, 1000
BITS = (8, 16, 32)  # the method as printed takes 20 s for these, longer ones much more
FIXED = 1000  # rows on which changed bits are counted
METHODS: dict[str, Callable[..., Learner]] = {
    "ssbc": methods.ssbc,
    "ssbc, as in the paper": partial(methods.ssbc, paper=True),
    "linear ITQ": methods.METHODS["itq"],
}
REFRESH = 500  # rows between two coders


class Uniform(NamedTuple):
    """The paper's synthetic data: 50 columns, column t uniform on [0, 1 / t^2].

    landmarks: a uniform sample; rows: the stream; queries: places of rows to search for;
    threshold: the mean distance to the 30th neighbour, within which rows are neighbours.
    """

    landmarks: NDArray[Any]
    rows: NDArray[Any]
    queries: NDArray[np.intp]
    threshold: float

    @classmethod
    def draw(cls, rows: int, seed: int) -> "Uniform":
        """So many rows, and the landmarks."""
        shape = (LANDMARKS + rows, 50)
        drawn = np.random.default_rng(seed).random(shape) / np.arange(1, 51) ** 2
        landmarks, stream = np.split(drawn.astype(np.float32), [LANDMARKS])
        queries = draw_queries(QUERIES, rows, seed=seed)
        return cls(landmarks, stream, queries, nearest(30).distance(landmarks))

    def map(self, codes: Codes) -> float:
        """Mean average precision of the codes of all rows."""
        return mean_average_precision(codes, self.rows, self.queries, self.threshold)


class OnlineScore(NamedTuple):
    """online: MAP of codes that are final at once; end: of all codes made after the last row;
    changed: the mean share of bits that a refresh changed; rate: rows per second.
    """

    online: float
    end: float
    changed: float
    certificate: float | None
    rate: float


class Score(NamedTuple):
    """MAP of a method's codes at the end of the stream; seconds to learn and encode."""

    method: str
    bits: int
    map: float
    seconds: float


class Shown(NamedTuple):
    """rows: of the stream; plot: where it is."""

    rows: int
    online: OnlineScore
    scores: list[Score]
    plot: Path


def _svg(path: Path) -> Path:
    if path.suffix.lower() != ".svg":
        raise typer.BadParameter(f"the plot is an SVG file: name it {path.with_suffix('.svg')}")
    return path


def demo_command(
    out: Annotated[
        Path, typer.Option(help="File of the plot (SVG, for any browser).", callback=_svg)
    ] = Path("streambits-demo.svg"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
    seed: Seed = 0,
    rows: Annotated[int, typer.Option(min=1000, hidden=True)] = 10000,
) -> None:
    """Stream the paper's Uniform data, then compare four methods on it at several lengths.

    Prints mean average precision (MAP) and plots it against bits. Needs no download, no extra
    package and no settings.

    Example: streambits demo --out plot.svg
    """
    found = run_demo(out, seed, rows, output.stderr())
    if as_json:
        typer.echo(json.dumps(_facts(found, seed)))
    else:
        report(found, output.stdout())


def run_demo(out: Path, seed: int, rows: int, console: Console) -> Shown:
    """All of the work; what could fail at the end is tried first."""
    check_writable(out)
    data = Uniform.draw(rows, seed)
    with output.working(console, f"Uniform, {ONLINE_BITS} bits, online"):
        online = encode_while_learning(data, seed)
    scores = []
    for name, build in METHODS.items():
        with output.working(console, f"Uniform, {BITS[0]} to {BITS[-1]} bits: {name}"):
            scores += [_score(data, name, build, bits, seed) for bits in BITS]
    lines = {name: [(s.bits, s.map) for s in scores if s.method == name] for name in METHODS}
    write_svg(out, line_plot("Mean average precision on Uniform", "bits per vector", lines))
    return Shown(rows, online, scores, out)


def encode_while_learning(data: Uniform, seed: int) -> OnlineScore:
    """ssbc in the online setting: every code is final before the next rows are read."""
    fixed, changes = data.rows[:FIXED], list[float]()
    learner = methods.ssbc(data.landmarks, ONLINE_BITS, seed=seed)
    started = time.perf_counter()

    def compare(old: Any, new: Any) -> None:
        changes.append(bits_changed(old.encode(fixed), new.encode(fixed)))

    parts = encode_online(learner, blocks(data.rows, REFRESH), refresh=REFRESH, on_refresh=compare)
    at_once = Codes.concat([codes for _, codes in parts])
    rate = len(data.rows) / (time.perf_counter() - started)
    last = methods.ssbc(data.landmarks, ONLINE_BITS, seed=seed).learn(data.rows).coder()
    changed = float(np.mean(changes))
    end = data.map(last.encode(data.rows))
    return OnlineScore(data.map(at_once), end, changed, learner.certificate, rate)


def _score(data: Uniform, name: str, build: Callable[..., Learner], bits: int, seed: int) -> Score:
    started = time.perf_counter()
    codes = build(data.landmarks, bits, seed=seed).learn(data.rows).coder().encode(data.rows)
    seconds = time.perf_counter() - started
    return Score(name, bits, data.map(codes), seconds)


def report(found: Shown, console: Console) -> None:
    """The results for people."""
    got = found.online
    console.print(
        f"\nssbc on Uniform, {ONLINE_BITS} bits, one pass over {found.rows:,} rows:\n"
        f"  MAP online    {got.online:.3f}  each code is final at once\n"
        f"  MAP at end    {got.end:.3f}  all codes made after the last row\n"
        f"  bits changed  {got.changed:.2%}  at each refresh, every {REFRESH} rows\n"
    )
    console.print(_table(found.scores))
    console.print(f"\nplot: {found.plot}", soft_wrap=True)


def _table(scores: list[Score]) -> Table:
    """One line per method, one column per length; the best of each in bold."""
    table = Table("method", title="MAP at the end of the stream")
    for bits in BITS:
        table.add_column(f"{bits} bits", justify="right")
    best = {bits: max(score.map for score in scores if score.bits == bits) for bits in BITS}
    for method in METHODS:
        mine = [score for score in scores if score.method == method]
        bold = ("[bold]" if score.map == best[score.bits] else "" for score in mine)
        table.add_row(method, *(f"{b}{s.map:.3f}" for b, s in zip(bold, mine, strict=True)))
    return table


def _facts(found: Shown, seed: int) -> dict[str, Any]:
    """The results for programs."""
    got = found.online
    return {
        "streambits": streambits.__version__,
        "seed": seed,
        "online": {
            "data": "uniform",
            "method": "ssbc",
            "bits": ONLINE_BITS,
            "rows": found.rows,
            "rows_per_second": round(got.rate, 1),
            "certificate": got.certificate,
            "bits_changed": got.changed,
            "map_online": got.online,
            "map_end": got.end,
        },
        "scores": [
            score._asdict() | {"data": "uniform", "seconds": round(score.seconds, 3)}
            for score in found.scores
        ],
        "plot": str(found.plot),
    }
