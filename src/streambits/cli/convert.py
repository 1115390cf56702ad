"""`streambits index`, `merge` and `reencode`: new files from codes and models that are there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from streambits.cli import output
from streambits.cli.options import READ, AsJson, Model, RowOptions, Shown, option
from streambits.errors import StorageError
from streambits.io.codes import open_codes
from streambits.io.codes.convert import ENDINGS, export
from streambits.jobs.models import learner_file, merge_models, open_model_of
from streambits.jobs.reencode import reencode_index, write_reencoded
from streambits.model.codes import MOST_BITS
from streambits.storage import save

LAST_EPOCH = 2**31 - 1  # that Parquet, JSON lines and databases hold


@dataclass(frozen=True)
class IndexOptions:
    """What codes are, where their file does not say it."""

    bits: int | None = option(None, "Length of codes, if not recorded.", least=1, most=MOST_BITS)
    epoch: int = option(0, "Epoch of codes, if not recorded.", least=0, most=LAST_EPOCH)


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
        typer.Option(help="File to write: .safetensors, .index, .faiss, .parquet, .jsonl or .npy."),
    ] = Path("index.safetensors"),
    options: Annotated[IndexOptions, Shown("bits epoch")],
    as_json: AsJson = False,
) -> None:
    """Gather codes in an index file, or convert them.

    The file appears whole or not at all. FAISS has no epochs: codes of several are refused there.

    Example: streambits index job/ --out index.safetensors
    """
    if out.suffix not in ENDINGS:
        raise typer.BadParameter(f"{out} should end in one of {', '.join(ENDINGS)}")
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
    output.result(facts, [text], as_json)


def merge_command(
    models: Annotated[list[Path], typer.Argument(help="Learners of shards: files or folders.")],
    *,
    out: Annotated[Path, typer.Option(help="File for the merged model.")] = Path(
        "model.safetensors"
    ),
    as_json: AsJson = False,
) -> None:
    """Merge the learners of shards into one, as if it had seen all their rows.

    They must have begun from the same landmarks and settings (`learn --like`). The certificates
    add up.

    Example: streambits merge shard-1/ shard-2/ --out model.safetensors
    """
    if len(models) < 2:
        raise typer.BadParameter("name at least two models", param_hint="models")
    files = [learner_file(path).resolve() for path in models]
    twice = [path for path, file in zip(models, files, strict=True) if files.count(file) > 1]
    if twice:
        raise typer.BadParameter(f"{twice[-1]} is named twice", param_hint="models")
    with output.working(output.stderr(), f"merging {len(models)} models"):
        whole = merge_models(models)
        save(whole, out)
    facts = {
        "out": str(out),
        "models": len(models),
        "rows": whole.seen,
        "bits": whole.bits,
        "epoch": whole.epoch,
        "certificate": whole.certificate,
    }
    text = f"{out}: {whole.seen:,} rows of {len(models)} models, {whole.bits} bits"
    output.result(facts, [text], as_json)


def reencode_command(
    where: Annotated[str, typer.Argument(help="A job's folder, codes or an index.")],
    source: Annotated[str, typer.Argument(help="The rows of all codes, with their ids.")],
    *,
    out: Annotated[
        Path, typer.Option(help="New folder for codes and model, or file: .safetensors, .faiss.")
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
