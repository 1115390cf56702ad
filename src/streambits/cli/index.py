"""`streambits index`: codes into one file that is searched without reading it all."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from streambits.cli import output
from streambits.cli.options import HELP, Shown, option
from streambits.io.codes import open_codes
from streambits.io.codes.convert import ENDINGS, export
from streambits.model.codes import MOST_BITS

LAST_EPOCH = 2**31 - 1  # that Parquet, JSON lines and databases hold


@dataclass(frozen=True)
class IndexOptions:
    """What codes are, where their file does not say it."""

    bits: int | None = option(None, "Length of codes, if not recorded.", least=1, most=MOST_BITS)
    epoch: int = option(0, "Epoch of codes, if not recorded.", least=0, most=LAST_EPOCH)
    json: bool = option(False, HELP["json"])


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
    options: Annotated[IndexOptions, Shown("bits epoch json")],
) -> None:
    """Gather codes in an index file, or convert them.

    The file appears whole or not at all. FAISS has no epochs: codes of several are refused there.

    Example: streambits index job/ --out index.safetensors
    """
    with output.working(output.stderr(), f"gathering the codes of {codes}"):
        index = open_codes(codes, bits=options.bits, epoch=options.epoch).index()
        export(index, out)
    facts = {
        "out": str(out),
        "codes": len(index),
        "bits": index.bits,
        "epochs": list(index.epochs),
        "bytes": out.stat().st_size,
    }
    text = f"{out}: {len(index):,} codes of {index.bits} bits, {facts['bytes']:,} bytes"
    output.result(facts, text, options.json)
