"""`streambits index`: codes into one file that is searched without reading it all."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streambits.cli import output
from streambits.cli.options import AsJson
from streambits.io.codes import open_codes
from streambits.io.codes.convert import ENDINGS, export
from streambits.model.codes import MOST_BITS

LAST_EPOCH = 2**31 - 1  # that Parquet, JSON lines and databases hold


class Strategy(StrEnum):
    """How an index searches."""

    auto = "auto"
    scan = "scan"
    multi = "multi"


def _as_output(out: Path) -> Path:
    """Refuse a name that does not say the format."""
    if out.suffix not in ENDINGS:
        raise typer.BadParameter(f"{out} should end in one of {', '.join(ENDINGS)}")
    return out


def index_command(
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
            help="The file to write; its name ends in .safetensors or .index (streambits), .faiss, "
            ".parquet, .jsonl or .npy.",
            callback=_as_output,
        ),
    ] = Path("index.safetensors"),
    strategy: Annotated[
        Strategy | None,
        typer.Option(
            help="How the index searches: scan, multi (tables), or auto (whichever proves faster). "
            "The default is auto; an index keeps its own strategy."
        ),
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_BITS,
            help="Length of codes whose file does not record it, if it is not whole bytes.",
        ),
    ] = None,
    epoch: Annotated[
        int,
        typer.Option(
            min=0, max=LAST_EPOCH, help="Epoch to assign to codes whose file does not record one."
        ),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Gather codes in an index file, or convert them.

    The file appears whole or not at all. FAISS has no epochs: codes of several are refused there.

    Example: streambits index job/ --out index.safetensors
    """
    with output.working(output.stderr(), f"gathering the codes of {codes}"):
        found = open_codes(codes, bits=bits, epoch=epoch).index(strategy=strategy)
        if found.strategy == Strategy.multi:
            found.build()
        export(found, out)
    summary = {
        "out": str(out),
        "codes": len(found),
        "bits": found.bits,
        "epochs": list(found.epochs),
        "bytes": out.stat().st_size,
    }
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        text = f"{out}: {len(found):,} codes of {found.bits} bits, {summary['bytes']:,} bytes"
        output.stdout().print(text, soft_wrap=True)
