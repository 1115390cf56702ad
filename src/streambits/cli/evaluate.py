"""`streambits evaluate`: how well a model's codes find the nearest of your own rows."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import streambits
from streambits._files import check_writable
from streambits.cli import progress
from streambits.cli.models import CODERS, KEPT, MODEL, as_coder, check_width, find_model, open_model
from streambits.cli.options import names
from streambits.cli.tune import draw
from streambits.evaluation.evaluate import LENGTHS, QUERIES, ROWS, Evaluation, table_rows
from streambits.evaluation.evaluate import evaluate as measure
from streambits.evaluation.page import headings, write_page
from streambits.io.rows import open_source

FIRST = (MODEL, CODERS, KEPT)  # a learner, if there is one: it can be learned at other lengths


def _lengths(text: str) -> str:
    if text and not all(part.strip().isdecimal() for part in text.split(",")):
        raise typer.BadParameter("numbers of bits with commas between, such as 32,64,128")
    return text


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model file, or the folder of a job.")],
    rows: Annotated[
        str, typer.Argument(help="Rows: a file, a folder, a glob, or - for standard input.")
    ],
    *,
    queries: Annotated[
        str | None,
        typer.Option(help="Rows to search for. Default: 1,000 of the rows, which are held out."),
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Number of nearest rows to find.")] = 10,
    lengths: Annotated[
        str,
        typer.Option(
            callback=_lengths,
            help="Numbers of bits to compare, with commas between; an empty text compares none.",
        ),
    ] = ",".join(map(str, LENGTHS)),
    target: Annotated[
        float, typer.Option(min=0.01, max=1, help="The recall that the advice aims at.")
    ] = 0.95,
    sample: Annotated[
        int, typer.Option(min=2, help="Number of rows to use; of more, that many are drawn.")
    ] = ROWS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample and the queries.")] = 0,
    columns: Annotated[
        str | None, typer.Option(help="Names of the columns, with commas between.")
    ] = None,
    ids: Annotated[
        str | None, typer.Option(help="Name of the id column (not used as a feature).")
    ] = None,
    format: Annotated[  # noqa: A002 - what users call it
        str | None, typer.Option(help="Format of the rows. Default: from the file name.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with plots to this file as well.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure how well a model's codes find the true nearest neighbours among your rows.

    Recall of the true nearest rows in the first answers and after re-ranking, mean average
    precision (MAP), the same for shorter and longer codes of the same method, and how evenly the
    bits are used.

    Example: streambits evaluate job/ vectors.parquet --html evaluation.html
    """
    console = progress.stderr()
    if html is not None:
        check_writable(html)
    path = find_model(str(model), model, FIRST)
    found = open_model(path)

    def read(name: str) -> Any:
        source = open_source(name, columns=names(columns), ids=ids, format=format)
        with progress.working(console, f"drawing at most {sample:,} rows from {source.name}"):
            drawn = draw(source, sample, seed, console)
        check_width(drawn.shape[1], as_coder(found), name, path)
        return drawn

    every, asked = read(rows), QUERIES if queries is None else read(queries)
    chosen = [int(part) for part in lengths.split(",") if part.strip()]
    console.print("searching exactly, and by the codes of the model", soft_wrap=True)
    result = measure(
        found,
        every,
        queries=asked,
        k=k,
        lengths=chosen,
        target=target,
        sample=sample,
        seed=seed,
        on_length=lambda bits: console.print(f"learning codes of {bits} bits"),
    )
    if html is not None:
        write_page(result, html, f"Codes of {model} on {rows}")
    if as_json:
        typer.echo(json.dumps({"streambits": streambits.__version__, **result.as_dict()}))
        return
    for part in shown(result):
        Console(highlight=False).print(part, soft_wrap=isinstance(part, str), markup=False)
    if html is not None:
        console.print(f"page: {html}", soft_wrap=True, markup=False)


def shown(found: Evaluation) -> list[Table | str]:
    """The table for people, why lengths are missing, and the advice."""
    title = f"Recall of the {found.k} nearest: {found.queries:,} queries among {found.rows:,} rows"
    table = Table(*headings(found), title=title)
    for column in table.columns:
        column.justify = "right"
    for row in table_rows(found):
        table.add_row(*row, style="bold" if row[0] == str(found.model.bits) else None)
    reasons = [f"{one.bits} bits: {one.reason}" for one in found.lengths if one.reason]
    use = found.use
    bits = (
        f"bits: mean imbalance {use.imbalance:.3f} (0 is best), {use.constant} constant, "
        f"mean correlation {use.correlation:.3f}, largest {use.most:.3f}"
    )
    return [table, *reasons, bits, found.advice]
