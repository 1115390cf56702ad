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
from streambits.cli.options import AsJson, Columns, Format, Ids, Seed, column_names
from streambits.cli.runbook import RUNBOOK, Asked, on_runbook
from streambits.evaluation.evaluate import BYTES, LENGTHS, QUERIES, ROWS, evaluate
from streambits.evaluation.page import write_page
from streambits.evaluation.result import KIND_NAMES, Evaluation, bytes_rows, headings, table_rows
from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.jobs.models import open_model
from streambits.methods.settings import Settings


def _numbers(text: str) -> str:
    if text and not all(part.strip().isdecimal() for part in text.split(",")):
        raise typer.BadParameter("numbers with commas between, such as 32,64,128")
    return text


def evaluate_command(
    model: Annotated[
        Path | None, typer.Argument(help="A model file, or the folder of a job.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Argument(help="Rows: a file, a folder, a glob, or - for standard input."),
    ] = None,
    *,
    queries: Annotated[
        str | None,
        typer.Option(help="Rows to search for. Default: 1,000 of the rows, which are held out."),
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Number of nearest rows to find.")] = 10,
    lengths: Annotated[
        str,
        typer.Option(
            callback=_numbers,
            help="Numbers of bits to compare, with commas between; an empty text compares none.",
        ),
    ] = ",".join(map(str, LENGTHS)),
    n_bytes: Annotated[
        str,
        typer.Option(
            "--bytes",
            callback=_numbers,
            help="Numbers of bytes per row to compare, with commas between: refined codes and "
            "product codes. An empty text compares none.",
        ),
    ] = ",".join(map(str, BYTES)),
    target: Annotated[
        float, typer.Option(min=0.01, max=1, help="The recall that the advice aims at.")
    ] = 0.95,
    sample: Annotated[
        int, typer.Option(min=2, help="Number of rows to use; of more, that many are drawn.")
    ] = ROWS,
    seed: Seed = 0,
    columns: Columns = None,
    ids: Ids = None,
    format: Format = None,  # noqa: A002 - what users call it
    html: Annotated[
        Path | None, typer.Option(help="Write a page with plots to this file as well.")
    ] = None,
    runbook: Annotated[
        Path | None,
        typer.Option(
            help="In place of a model: play this runbook (YAML, as in the streaming track of "
            "NeurIPS'23) on an index that learns while rows come and go. Needs --rows and "
            "--queries."
        ),
    ] = None,
    of_runbook: Annotated[
        str | None, typer.Option("--rows", help="The rows of a runbook, in its order.")
    ] = None,
    generate: Annotated[
        str | None,
        typer.Option(
            help="Write a runbook for --rows to the file --runbook, and the rows in its order to "
            "a file beside it that ends in .npy: clustered, expiry, or sliding_window."
        ),
    ] = None,
    bits: Annotated[
        int, typer.Option(min=1, help="Of the index that plays a runbook: bits of a code.")
    ] = RUNBOOK.bits,
    refine: Annotated[
        int, typer.Option(min=0, help="Of the index that plays a runbook: bytes beside the bits.")
    ] = RUNBOOK.refine or 0,
    method: Annotated[
        str, typer.Option(help="Of the index that plays a runbook: how codes are learned.")
    ] = RUNBOOK.method,
    as_json: AsJson = False,
) -> None:
    """Measure how well a model's codes find the true nearest neighbours among your rows.

    Recall of the true nearest rows in the first answers and after re-ranking, mean average
    precision (MAP), the same for shorter and longer codes of the same method, recall against bytes
    per row of sign bits, refined codes and product codes, and how evenly the bits are used.

    With --runbook rows come and go, as the runbook says, and recall is averaged over its searches.

    Example: streambits evaluate job/ vectors.parquet --html evaluation.html
    """

    def opened(name: str) -> Source:
        return open_source(name, columns=column_names(columns), ids=ids, format=format)

    if runbook is not None:
        settings = Settings(bits, method, refine=refine, seed=seed)
        named = Asked(runbook, model, of_runbook, queries, generate)
        on_runbook(named, opened, settings, k=k, as_json=as_json)
        return
    if model is None or rows is None:
        raise typer.BadParameter("a model and rows are needed, or --runbook")
    console = output.stderr()
    if html is not None:
        check_writable(html)
    found = open_model(model)

    def read(name: str) -> Any:
        drawn = output.draw(opened(name), sample, seed)
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
    if html is not None:
        write_page(result, html, f"Codes of {model} on {rows}")
    if as_json:
        typer.echo(json.dumps({"streambits": streambits.__version__, **result.as_dict()}))
        return
    for part in _shown(result):
        output.stdout().print(part, soft_wrap=isinstance(part, str), markup=False)
    if html is not None:
        console.print(f"page: {html}", soft_wrap=True, markup=False)


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
