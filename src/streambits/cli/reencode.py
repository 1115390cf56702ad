"""`streambits reencode`: all codes brought to the newest epoch, from the rows they came from."""

from pathlib import Path
from typing import Annotated

import typer

from streambits.cli import output
from streambits.cli.options import READ, Model, RowOptions, Shown
from streambits.errors import StorageError
from streambits.io.codes import open_codes
from streambits.io.codes.convert import ENDINGS, export
from streambits.jobs.models import open_model_of
from streambits.jobs.reencode import reencode_index, write_reencoded
from streambits.storage import save


def reencode_command(
    where: Annotated[str, typer.Argument(help="A job's folder, codes or an index.")],
    source: Annotated[str, typer.Argument(help="The rows of all codes, with their ids.")],
    *,
    out: Annotated[
        Path,
        typer.Option(help="New folder for codes and model, or file: .safetensors, .faiss."),
    ],
    model: Model = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Begin a new epoch first, on new landmarks.")
    ] = False,
    model_out: Annotated[
        Path | None, typer.Option(help="File for the renewed model, if OUT is a file.")
    ] = None,
    reading: Annotated[RowOptions, Shown(READ)],
) -> None:
    """Encode all rows by the newest coder, and write their codes to a new place.

    The new place appears whole or not at all. The source must have the row of every code, and no
    others.

    Example: streambits reencode job/ embeddings/ --renew --out new/
    """
    whole = out.suffix not in ENDINGS
    if renew and not whole and model_out is None:
        raise typer.BadParameter("--renew makes a new model: say where it goes with --model-out")
    if whole and out.exists():
        raise StorageError(f"{out} exists: name a folder that does not")
    console = output.stderr()
    rows = reading.open(source)
    found = open_model_of(where, model)
    with output.working(console, f"opening {where} and {found.path}"):
        index = open_codes(where).index()
    before = list(index.epochs)
    with output.working(console, f"encoding the rows of {rows.name}"):
        made = reencode_index(index, rows, found, renew=renew, on_reject=output.show_reject)
        if whole:
            write_reencoded(index, made, out)
        else:
            export(index, out)
        if model_out is not None:
            save(made.model, model_out)
    facts = {"out": str(out), "codes": len(index), "epochs_before": before}
    facts["epoch"] = index.epochs[0] if index.epochs else None
    text = f"{out}: {len(index):,} codes, all of epoch {facts['epoch']}"
    output.result(facts, [text], reading.json)
