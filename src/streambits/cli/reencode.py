"""`streambits reencode`: all codes brought to the newest epoch, from the rows they came from."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streambits.cli import output
from streambits.cli.opening import OUTPUTS, names, open_index, write_index
from streambits.errors import StorageError
from streambits.io.rows import open_source
from streambits.jobs.models import open_model_of
from streambits.jobs.reencode import reencode_index, write_reencoded
from streambits.model.batches import Reject
from streambits.storage import save


def reencode_command(
    where: Annotated[str, typer.Argument(help="A job's folder, codes or an index.")],
    source: Annotated[
        str, typer.Argument(help="The rows of all codes, with their ids; - for standard input.")
    ],
    *,
    out: Annotated[
        Path,
        typer.Option(help="A new folder, with codes and model; or an index: .safetensors, .faiss."),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            help="Model or job's folder; by default the one that encode has noted, or in or beside "
            "WHERE."
        ),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="First begin a new epoch, on new landmarks.")
    ] = False,
    model_out: Annotated[
        Path | None, typer.Option(help="Where the renewed model goes, if OUT is a file.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of the rows, with commas between.")
    ] = None,
    ids: Annotated[str | None, typer.Option(help="Column of the rows' ids.")] = None,
    format: Annotated[  # noqa: A002 - what users call it
        str | None, typer.Option(help="Of the rows; by default by the name, csv for -.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Encode all rows by the newest coder, and write their codes to a new place.

    What is there stays as it is; the new place appears whole or not at all. Every code's row must
    be in the source, and no others. A folder also gets the model, so that streambits search finds
    it there.

    Example: streambits reencode job/ embeddings/ --renew --out new/
    """
    whole = out.suffix not in OUTPUTS
    if renew and not whole and model_out is None:
        raise typer.BadParameter("--renew makes a new model: say where it goes with --model-out")
    if whole and out.exists():
        raise StorageError(f"{out} exists: name a folder that does not")
    console = output.stderr()
    rows = open_source(source, columns=names(columns), ids=ids, format=format)
    found = open_model_of(where, model)
    with output.working(console, f"opening {where} and {found.path}"):
        index = open_index(where)
    before = list(index.epochs)

    def left_out(reject: Reject) -> None:
        console.print(f"left out: {reject.where}: {reject.reason}", soft_wrap=True)

    with output.working(console, f"encoding the rows of {rows.name}"):
        made = reencode_index(index, rows, found, renew=renew, on_reject=left_out)
        if whole:
            write_reencoded(index, made, out)
        else:
            write_index(index, out)
        if model_out is not None:
            save(made.model, model_out)
    told = {"out": str(out), "codes": len(index), "epochs_before": before}
    told["epoch"] = index.epochs[0] if index.epochs else None
    if as_json:
        typer.echo(json.dumps(told))
    else:
        text = f"{out}: {len(index):,} codes, all of epoch {told['epoch']}"
        Console(highlight=False).print(text, soft_wrap=True)
