"""`streambits index`: codes into one file that is searched without reading it all."""

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
            help="A job's folder, Parquet, packed .npy, .faiss, JSON lines (- for standard "
            "input), or an index."
        ),
    ],
    *,
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .safetensors, .index, .faiss, .parquet, .jsonl or .npy.",
            callback=_as_output,
        ),
    ] = Path("index.safetensors"),
    strategy: Annotated[
        Strategy | None,
        typer.Option(help="How it searches: scan, multi (tables), or auto, the default."),
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_BITS, help="Length of codes, if not recorded."),
    ] = None,
    epoch: Annotated[
        int, typer.Option(min=0, max=LAST_EPOCH, help="Epoch of codes, if not recorded.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Gather codes in an index file, or convert them.

    The file appears whole or not at all. FAISS has no epochs: codes of several are refused there.

    Example: streambits index job/ --out index.safetensors
    """
    with output.working(output.stderr(), f"gathering the codes of {codes}"):
        index = open_codes(codes, bits=bits, epoch=epoch).index(strategy=strategy)
        if index.strategy == Strategy.multi:
            index.build()
        export(index, out)
    facts = {
        "out": str(out),
        "codes": len(index),
        "bits": index.bits,
        "epochs": list(index.epochs),
        "bytes": out.stat().st_size,
    }
    text = f"{out}: {len(index):,} codes of {index.bits} bits, {facts['bytes']:,} bytes"
    output.result(facts, text, as_json)
