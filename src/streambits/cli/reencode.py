"""`streambits reencode`: all codes brought to the newest epoch, from the rows they came from."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from streambits._files import sync_folder
from streambits.cli import progress
from streambits.cli.models import (
    CODERS,
    MODEL,
    Model,
    as_coder,
    check_width,
    find_model,
    open_model,
)
from streambits.cli.options import names
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.io.codes import SAVED, open_codes, open_sink, save_index
from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.model.sampling import Reservoir
from streambits.online import reencode as bring
from streambits.storage import save


def reencode(
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
    whole = out.suffix not in SAVED
    if renew and not whole and model_out is None:
        raise typer.BadParameter("--renew makes a new model: say where it goes with --model-out")
    if whole and out.exists():
        raise StorageError(f"{out} exists: name a folder that does not")
    console = progress.stderr()
    rows = open_source(source, columns=names(columns), ids=ids, format=format)
    path = find_model(where, model, (MODEL,) if renew else (MODEL, CODERS))
    with progress.working(console, f"opening {where} and {path}"):
        index, newest = open_codes(where).index(), _renewed(open_model(path), path, renew)
    before = list(index.epochs)
    with progress.working(console, f"encoding the rows of {rows.name}"):
        coders = encoded(index, rows, as_coder(newest), path, console)
        (_write_folder if whole else _write_file)(index, newest, coders, out)
        if model_out is not None:
            save(newest, model_out)
    told = {"out": str(out), "codes": len(index), "epochs_before": before}
    told["epoch"] = index.epochs[0] if index.epochs else None
    if as_json:
        typer.echo(json.dumps(told))
    else:
        text = f"{out}: {len(index):,} codes, all of epoch {told['epoch']}"
        Console(highlight=False).print(text, soft_wrap=True)


def _renewed(model: Model, path: Path, renew: bool) -> Model:
    if renew:
        if not isinstance(model, Learner):
            raise InputError(f"{path} holds {type(model).__name__}, and only a learner is renewed")
        model.renew()
    return model


def encoded(
    index: HammingIndex, source: Source, coder: Coder, path: Path, console: Console
) -> CoderSet:
    """Bring the index to the epoch of the coder; gives the coders to search it with."""
    if coder.bits != index.bits:
        raise InputError(
            f"the model {path} makes codes of {coder.bits} bits, and those there have {index.bits}"
        )
    coders = CoderSet()
    sample = Reservoir(coders.size, coder.features.like, inputs=coder.features.inputs)

    def batches() -> Iterator[tuple[Any, Any]]:
        for chunk in source.read():
            for reject in chunk.rejects:
                console.print(f"left out: {reject.where}: {reject.reason}", soft_wrap=True)
            if len(chunk.rows):
                check_width(chunk.rows.shape[1], coder, source.name, path)
                sample.update(chunk.rows)
                yield chunk.ids, chunk.rows

    bring(coder, batches(), index)
    if sample.seen:
        coders.note(coder, sample.rows, coder.encode(sample.rows))
    return coders


def _write_file(index: HammingIndex, _: Model, __: CoderSet, out: Path) -> None:
    save_index(index, out)


def _write_folder(index: HammingIndex, model: Model, coders: CoderSet, out: Path) -> None:
    with new_folder(out) as beside:
        sink = open_sink(f"parquet:{beside / 'codes'}", index.bits)
        for ids, codes in index.items():
            sink.write(ids, codes)
        sink.close()
        save(coders, beside / CODERS)
        if isinstance(model, Learner):
            save(model, beside / MODEL)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which is renamed to `out` at the end, unless something went wrong."""
    beside = out.with_name(f".{out.name}.{os.getpid()}.new")
    try:
        beside.mkdir()
        yield beside
        beside.rename(out)
        sync_folder(out.parent)
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
