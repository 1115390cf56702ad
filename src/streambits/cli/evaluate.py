"""`streambits evaluate`: how well a model's codes find the nearest of your own rows."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import streambits
from streambits._files import check_writable
from streambits.cli import output
from streambits.cli.options import (
    MODEL_HELP,
    AsJson,
    Columns,
    Format,
    Ids,
    Rows,
    Seed,
    column_names,
)
from streambits.evaluation.evaluate import BYTES, LENGTHS, QUERIES, ROWS, evaluate
from streambits.evaluation.result import KIND_NAMES, Evaluation, bytes_rows, headings, table_rows
from streambits.io.rows import open_source
from streambits.jobs.models import open_model


def _numbers(text: str) -> str:
    if text and not all(part.strip().isdecimal() for part in text.split(",")):
        raise typer.BadParameter(f"{text!r} is not numbers with commas between, as 32,64,128")
    return text


def evaluate_command(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)],
    rows: Rows,
    *,
    queries: Annotated[
        str | None, typer.Option(help="Rows to search for. Default: 1,000 held-out rows.")
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Nearest rows to find.")] = 10,
    lengths: Annotated[
        str, typer.Option(callback=_numbers, help="Numbers of bits to compare; empty: none.")
    ] = ",".join(map(str, LENGTHS)),
    n_bytes: Annotated[
        str,
        typer.Option("--bytes", callback=_numbers, help="Bytes per row to compare; empty: none."),
    ] = ",".join(map(str, BYTES)),
    target: Annotated[float, typer.Option(min=0.01, max=1, help="Recall to aim at.")] = 0.95,
    sample: Annotated[int, typer.Option(min=2, help="Rows to use at most.")] = ROWS,
    seed: Seed = 0,
    columns: Columns = None,
    ids: Ids = None,
    format: Format = None,  # noqa: A002 - what users call it
    plot: Annotated[
        Path | None, typer.Option(help="Picture to write: .png, .svg or .pdf (extra plot).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well a model's codes find the true nearest neighbours among your rows.

    Recall and mean average precision of the model, of other lengths, and of other codes of as many
    bytes; how evenly bits are used; and advice.

    Example: streambits evaluate job/ vectors.parquet --plot recall.png
    """
    console = output.stderr()
    if plot is not None:
        from streambits.evaluation.plot import check_plot  # noqa: PLC0415 - an extra

        check_plot(plot)
        check_writable(plot)
    found = open_model(model)

    def read(name: str) -> Any:
        source = open_source(name, columns=column_names(columns), ids=ids, format=format)
        drawn = output.draw(source, sample, seed)
        found.check_rows(drawn.shape[1], name)
        return drawn

    every, asked = read(rows), QUERIES if queries is None else read(queries)
    compared, sizes = (
        [int(part) for part in text.split(",") if part.strip()] for text in (lengths, n_bytes)
    )
    console.print("searching exactly, and by the codes of the model", soft_wrap=True)
    result = evaluate(
        found.learner() or found.content,  # a learner can be learned at other lengths
        every,
        queries=asked,
        k=k,
        lengths=compared,
        bytes=sizes,
        target=target,
        sample=sample,
        seed=seed,
        on_code=lambda size: console.print(f"learning codes of {size}"),
    )
    if plot is not None:
        from streambits.evaluation.plot import write_plot  # noqa: PLC0415 - an extra

        write_plot(result, plot)
        console.print(f"plot: {plot}", soft_wrap=True, markup=False)
    if as_json:
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
