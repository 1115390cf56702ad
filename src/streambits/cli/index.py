"""`streambits index`: codes into one file that is searched without reading it all."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from streambits.cli import output
from streambits.cli.opening import as_output, open_index, write_index
from streambits.index import HammingIndex
from streambits.model.codes import MOST_BITS, Codes

LAST_EPOCH = 2**31 - 1  # that Parquet, JSON lines and databases hold


class Strategy(StrEnum):
    """How an index searches."""

    auto = "auto"
    scan = "scan"
    multi = "multi"


def index(
    codes: Annotated[
        str,
        typer.Argument(
            help="A job's folder, Parquet (file or folder), .npy of packed codes, .faiss, "
            "JSON lines (- for standard input), or an index."
        ),
    ],
    *,
    out: Annotated[
        Path,
        typer.Option(
            help="The file to write: .safetensors or .index for streambits, .faiss, .parquet.",
            callback=as_output,
        ),
    ] = Path("index.safetensors"),
    strategy: Annotated[
        Strategy | None,
        typer.Option(
            help="scan, multi (tables), or auto: whichever proves faster. By default auto, and an "
            "index keeps its own."
        ),
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_BITS, help="Length of codes that say none, if not whole bytes."
        ),
    ] = None,
    epoch: Annotated[int, typer.Option(min=0, max=LAST_EPOCH, help="Of codes that say none.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Gather codes in an index file, or convert them.

    The file appears whole or not at all. FAISS knows no epochs: codes of several are refused there.

    Example: streambits index job/ --out index.safetensors
    """
    with output.working(output.stderr(), f"gathering the codes of {codes}"):
        found = open_index(codes, bits=bits, epoch=epoch, strategy=strategy)
        if found.strategy == Strategy.multi:
            _build_tables(found)
        write_index(found, out)
    told = {
        "out": str(out),
        "codes": len(found),
        "bits": found.bits,
        "epochs": list(found.epochs),
        "bytes": out.stat().st_size,
    }
    if as_json:
        typer.echo(json.dumps(told))
    else:
        text = f"{out}: {len(found):,} codes of {found.bits} bits, {told['bytes']:,} bytes"
        Console(highlight=False).print(text, soft_wrap=True)


def _build_tables(found: HammingIndex) -> None:
    """They come with the first search, and are kept in the file."""
    nothing = np.zeros((1, found.bits), np.bool_)
    found.search({epoch: Codes.from_bits(nothing, epoch) for epoch in found.epochs}, 1)
