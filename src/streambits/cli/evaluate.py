"""`streambits evaluate`: how well a model's codes find the nearest of your own rows."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import streambits
from streambits._files import check_writable
from streambits.cli import output
from streambits.cli.options import HELP, MODEL_HELP, ROWS_SHOWN, RowOptions, Rows, Shown, option
from streambits.evaluation.evaluate import BYTES, LENGTHS, QUERIES, ROWS, evaluate
from streambits.evaluation.plot import check_plot, write_plot
from streambits.evaluation.result import KIND_NAMES, Evaluation, bytes_rows, headings, table_rows
from streambits.jobs.models import open_model


def _numbers(name: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(f"--{name} is {text!r}: write numbers with commas, as 32,64,128")
    return [int(part) for part in parts]


@dataclass(frozen=True)
class EvaluateOptions:
    """What is compared, and on how much."""

    queries: str | None = option(None, "Rows to search for. Default: 1,000 held-out rows.")
    k: int = option(10, "Nearest rows to find.", least=1)
    lengths: str = option(",".join(map(str, LENGTHS)), "Numbers of bits to compare; empty: none.")
    bytes: str = option(",".join(map(str, BYTES)), "Bytes per row to compare; empty: none.")
    target: float = option(0.95, "Recall to aim at.", least=0.01, most=1)
    sample: int = option(ROWS, "Rows to use at most.", least=2)
    seed: int = option(0, "Random seed.", least=0)
    plot: str | None = option(None, "Picture to write: .png, .svg or .pdf (extra plot).")
    json: bool = option(False, HELP["json"])


def evaluate_command(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)],
    rows: Rows,
    *,
    options: Annotated[EvaluateOptions, Shown("queries k lengths bytes target sample plot json")],
    reading: Annotated[RowOptions, Shown(ROWS_SHOWN)],
) -> None:
    """Measure how well a model's codes find the true nearest neighbours among your rows.

    Recall and mean average precision of the model, of other lengths, and of other codes of as many
    bytes; how evenly bits are used; and advice.

    Example: streambits evaluate job/ vectors.parquet --plot recall.png
    """
    console = output.stderr()
    lengths, sizes = _numbers("lengths", options.lengths), _numbers("bytes", options.bytes)
    plot = None if options.plot is None else Path(options.plot)
    if plot is not None:
        check_plot(plot)
        check_writable(plot)
    found = open_model(model)

    def read(name: str) -> Any:
        drawn = output.draw(reading.open(name), options.sample, options.seed)
        found.check_rows(drawn.shape[1], name)
        return drawn

    every, asked = read(rows), QUERIES if options.queries is None else read(options.queries)
    console.print("searching exactly, and by the codes of the model", soft_wrap=True)
    result = evaluate(
        found.learner() or found.content,  # a learner can be learned at other lengths
        every,
        queries=asked,
        k=options.k,
        lengths=lengths,
        bytes=sizes,
        target=options.target,
        sample=options.sample,
        seed=options.seed,
        on_code=lambda size: console.print(f"learning codes of {size}"),
    )
    if plot is not None:
        write_plot(result, plot)
        console.print(f"plot: {plot}", soft_wrap=True, markup=False)
    if options.json:
        typer.echo(json.dumps({"streambits": streambits.__version__, **result.as_dict()}))
        return
    for part in _shown(result):
        output.stdout().print(part, soft_wrap=isinstance(part, str), markup=False)


def _shown(found: Evaluation) -> list[Table | str]:
    """The tables for people, why codes are missing, and the advice."""
    title = f"Recall of the {found.k} nearest: {found.queries:,} queries among {found.rows:,} rows"
    shown: list[Table | str] = []
    sizes = list(bytes_rows(found))
    if len(sizes) > 1:
        own = "" if found.itself is None else str(found.itself.n_bytes)
        text = f"Recall of the {found.k} nearest in the first {found.k} answers, by bytes"
        shown.append(_table(text, ("bytes", *KIND_NAMES.values()), sizes, own))
    own = str(found.model.bits)
    shown.append(_table(title, headings(found), table_rows(found), own))
    shown += [f"{one.bits} bits: {one.reason}" for one in found.lengths if one.reason]
    shown += [f"{one.label}: {one.reason}" for one in found.sizes if one.reason]
    use = found.use
    bits = (
        f"bits: mean imbalance {use.imbalance:.3f} (0 is best), {use.constant} constant, "
        f"mean correlation {use.correlation:.3f}, largest {use.most:.3f}"
    )
    return [*shown, *([bits] if found.model.bits else []), found.advice]


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], own: str) -> Table:
    """A table; own: the first cell of the row in bold."""
    table = Table(*heads, title=title)
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        table.add_row(*row, style="bold" if row[0] == own else None)
    return table
