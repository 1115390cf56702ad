"""`streambits search`: the nearest codes of queries, whatever epoch they are of."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from streambits.cli import progress
from streambits.cli.finding import Answer, Finder, read_ids
from streambits.cli.models import KEPT, as_coder, find_model, open_model
from streambits.cli.options import names
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.io.codes import code_format, open_codes
from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.model.batches import RowBatch

TRIES, TICK = 20, 0.25  # looks at a job that runs, and seconds between them


def search(
    where: Annotated[
        str, typer.Argument(help="A job's folder, codes (as streambits index takes) or an index.")
    ],
    *,
    query: Annotated[
        str, typer.Option(help="Rows to look for: a file, a folder, or - for standard input.")
    ],
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="How many to find of each.")] = 10,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Model, or job's folder for its coders.safetensors; by default the one that "
            "encode has noted, or in or beside WHERE."
        ),
    ] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Compare the queries' real values: ranks better.")
    ] = False,
    rerank: Annotated[
        str | None,
        typer.Option(help="The rows that were encoded: ranks 10 k candidates by true distance."),
    ] = None,
    radius: Annotated[
        int | None, typer.Option(min=0, help="Instead of k: all within so many bits.")
    ] = None,
    allow: Annotated[
        str | None, typer.Option(help="Ids to choose from: 1,2,3, or a file of them.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of the queries, with commas between.")
    ] = None,
    ids: Annotated[str | None, typer.Option(help="Column of the queries' ids.")] = None,
    rerank_ids: Annotated[str | None, typer.Option(help="Column of ids in --rerank.")] = None,
    format: Annotated[  # noqa: A002 - what users call it
        str | None, typer.Option(help="Of the queries; by default by the name, csv for -.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines, as without a terminal.")
    ] = False,
) -> None:
    """Find the nearest codes of each query.

    Queries are encoded by the model, once for every epoch that the codes have. With several epochs
    distances are estimates of Euclidean ones, with one they are numbers of bits. Without a
    terminal the output is JSON lines: {"query": 0, "ids": [...], "distances": [...]}.

    Example: streambits search job/ --query queries.npy -k 10
    """
    if radius is not None and (real or rerank or allow):
        raise typer.BadParameter("--radius goes without --real, --rerank and --allow")
    console = progress.stderr()
    source = open_source(query, columns=names(columns), ids=ids, format=format)
    rows = None if rerank is None else open_source(rerank, ids=rerank_ids)
    with progress.working(console, f"opening {where}"):
        ids_only = None if allow is None else read_ids(allow)
        finder = replace(open_finder(where, model), k=k, real=real, radius=radius, allow=ids_only)
    chunks = _usable(source, console)
    if rows is None:
        found = finder.answers(chunks, source.name)
    else:
        found = finder.reranked(chunks, source.name, rows)
    console.print(f"searching {len(finder.index):,} codes by {finder.path}", soft_wrap=True)
    show(found, as_json)


def open_finder(where: str, model: Path | None) -> Finder:
    """The index and the model, checked against each other.

    Codes whose file tells no epoch (FAISS, .npy) are taken for those of the newest.
    """
    path = find_model(where, model)
    found = open_model(path)
    newest = as_coder(found)
    index = open_codes(where, epoch=newest.epoch, bits=_length(where, newest.bits)).index()
    if newest.bits != index.bits:
        raise InputError(
            f"{where} has codes of {index.bits} bits, and the model {path} makes {newest.bits}: "
            f"name the model they were made with (--model)"
        )
    for _ in range(TRIES):  # the codes of a job that runs may be newer than its checkpoint
        if path.name != KEPT or not isinstance(found, CoderSet) or set(index.epochs) <= set(found):
            break
        time.sleep(TICK)
        path = find_model(where, model)
        found = open_model(path)
    if isinstance(found, CoderSet):
        _leave_out_retired(index, found)
    return Finder(index, found if isinstance(found, CoderSet) else newest, path)


def _leave_out_retired(index: HammingIndex, coders: CoderSet) -> None:
    """Codes of epochs that a job has retired (--keep-epochs) are not searched; says so."""
    gone = [epoch for epoch in index.epochs if epoch < coders.retired]
    if not gone:
        return
    ids = [ids for ids, codes in index.items() if codes.epoch in gone]
    index.remove(np.concatenate(ids))
    progress.stderr().print(
        f"left out: {sum(map(len, ids)):,} codes of epochs before {coders.retired}, whose coders "
        f"were retired (--keep-epochs); streambits reencode brings them to the newest epoch",
        soft_wrap=True,
    )


def _length(where: str, bits: int) -> int | None:
    """Bits of codes, where their file knows whole bytes only."""
    return bits if code_format(where) in ("faiss", "packed", "jsonl", "npy") else None


def _usable(source: Source, console: Console) -> Iterator[RowBatch]:
    """Chunks of the source; rows that cannot be used are told, and an error if all are so."""
    good = bad = 0
    for chunk in source.read():
        for reject in chunk.rejects:
            console.print(f"left out: {reject.where}: {reject.reason}", soft_wrap=True)
        good, bad = good + len(chunk.ids), bad + len(chunk.rejects)
        yield chunk
    if not good:
        raise InputError(
            f"{source.name} has no row that can be used" + (f"; {bad} bad" * bool(bad))
        )


def show(answers: Iterable[Answer], as_json: bool) -> None:
    """For programs a line a query, as they come; for people a table."""
    if as_json or not sys.stdout.isatty():
        for answer in answers:
            _print(json.dumps(answer._asdict()))
        return
    table = Table("query", "id", "distance")
    for number, answer in enumerate(answers):
        table.add_section() if number else None
        for place, pair in enumerate(zip(answer.ids, answer.distances, strict=True)):
            name = "" if place else str(answer.query)
            table.add_row(name, str(pair[0]), f"{pair[1]:g}")
    Console(highlight=False).print(table)


def _print(line: str) -> None:
    """A line to standard output at once; who has closed it wants no more, and is not told."""
    try:
        typer.echo(line)
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - or Python complains at the end
        raise StorageError(f"standard output: {error.strerror or error}") from error
