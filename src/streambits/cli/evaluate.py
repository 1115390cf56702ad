"""`streambits evaluate`: how well a model's codes find the nearest of your own rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from streambits._files import check_writable
from streambits.cli import output
from streambits.cli.options import MODEL_HELP, READ, RowOptions, Rows, Shown, option
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
class EvaluateOptions(RowOptions):
    """What is compared, and on how much."""

    queries: str | None = option(None, "Rows to search for. Default: 1,000 held-out rows.")
    k: int = option(10, "Nearest rows to find.", least=1)
    lengths: str = option(",".join(map(str, LENGTHS)), "Numbers of bits to compare; empty: none.")
    bytes: str = option(",".join(map(str, BYTES)), "Bytes per row to compare; empty: none.")
    target: float = option(0.95, "Recall to aim at.", least=0.01, most=1)
    sample: int = option(ROWS, "Rows to use at most.", least=2)
    seed: int = option(0, "Random seed.", least=0)
    plot: str | None = option(None, "Picture to write: .png, .svg or .pdf (extra plot).")


def evaluate_command(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)],
    rows: Rows,
    *,
    options: Annotated[
        EvaluateOptions, Shown(f"queries k lengths bytes target sample plot {READ}")
    ],
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
        drawn = output.draw(options.open(name), options.sample, options.seed)
        found.check_rows(drawn.shape[1], name)
        return drawn

    every, asked = read(rows), QUERIES if options.queries is None else read(options.queries)
    console.print("searching exactly, and by the codes of the model", soft_wrap=True)
    result = evaluate(
        found.learner() or found.content,  # a learner can be learned at other lengths
        every,
        queries=asked,
        lengths=lengths,
        bytes=sizes,
        **{name: getattr(options, name) for name in ("k", "target", "sample", "seed")},
        on_code=lambda size: console.print(f"learning codes of {size}"),
    )
    if plot is not None:
        write_plot(result, plot)
        console.print(f"plot: {plot}", soft_wrap=True, markup=False)
    output.result({**output.VERSION, **result.as_dict()}, _shown(result), options.json)


def _shown(found: Evaluation) -> list[Table | str]:
    """The tables for people, why codes are missing, and the advice."""
    title = f"Recall of the {found.k} nearest"
    shown: list[Table | str] = []
    sizes = list(bytes_rows(found))
    if len(sizes) > 1:
        own = "" if found.itself is None else str(found.itself.n_bytes)
        text, heads = f"{title} in the first {found.k} answers, by bytes", KIND_NAMES.values()
        shown.append(_table(text, ("bytes", *heads), sizes, own))
    title += f": {found.queries:,} queries among {found.rows:,} rows"
    shown.append(_table(title, headings(found), table_rows(found), str(found.model.bits)))
    shown += [f"{one.bits} bits: {one.reason}" for one in found.lengths if one.reason]
    shown += [f"{one.label}: {one.reason}" for one in found.sizes if one.reason]
    use = found.use
    bits = (
        f"bits: mean imbalance {use.imbalance:.3f} (0 is best), {use.constant} constant, "
        f"mean correlation {use.correlation:.3f}, largest {use.most:.3f}"
    )
    return [*shown, *([bits] if found.model.bits else []), found.advice]


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], own: str) -> Table:
    """A table of figures; own: the first cell of the row in bold."""
    table = output.table(title, heads, rows, lambda row: row[0] == own)
    for column in table.columns:
        column.justify = "right"
    return table
