"""`streambits search`: the nearest codes of queries, whatever epoch they are of."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from streambits._arrays import Ids, as_ids
from streambits.cli import options, output
from streambits.cli.options import Format, column_names
from streambits.epochs.coder_set import AUTO, CoderSet
from streambits.errors import InputError, StorageError
from streambits.io.codes.npy import load_array
from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.jobs.search import (
    Answer,
    Ranking,
    Searcher,
    WaitingRows,
    open_searcher,
    rows_by_id,
)
from streambits.model.batches import RowBatch


class Reach(StrEnum):
    """What to do with queries out of reach."""

    refuse = "refuse"
    accept = "accept"


class Metric(StrEnum):
    """How decoded rows are compared."""

    euclidean = "euclidean"
    inner = "inner"
    cosine = "cosine"


def _candidates(text: str | None) -> str | int | None:
    if text is None or text == "all":
        return text
    if not text.isdecimal() or not int(text):
        raise typer.BadParameter(f"{text!r} is not all, or a number of codes")
    return int(text)


def search_command(
    where: Annotated[
        str, typer.Argument(help="A job's folder, codes (as for streambits index) or an index.")
    ],
    *,
    query: Annotated[str, typer.Option(help="Rows to search for: file, folder, or -.")],
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Answers per query.")] = 10,
    model: options.Model = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            callback=_candidates,
            help="Codes per epoch to rank by what they decode to, or all. Default: 300 or more.",
        ),
    ] = None,
    metric: Annotated[
        Metric | None, typer.Option(help="How to rank. Default: as the model was learned.")
    ] = None,
    rerank: Annotated[
        str | None, typer.Option(help="The encoded rows: 10 k answers are ranked by them.")
    ] = None,
    exact: Annotated[
        str | None,
        typer.Option(help="The encoded rows: answers are proven (certified models)."),
    ] = None,
    radius: Annotated[
        int | None, typer.Option(min=0, help="Find all codes within so many bits instead.")
    ] = None,
    allow: Annotated[
        str | None, typer.Option(help="Ids to choose from: 1,2,3, or a file of them.")
    ] = None,
    columns: options.Columns = None,
    ids: options.Ids = None,
    real: Annotated[
        bool | None,
        typer.Option(
            "--real/--no-real",
            hidden=True,
            help="Whether to rank by real values of queries. Default: yes, but for tables.",
        ),
    ] = None,
    rerank_ids: Annotated[
        str | None, typer.Option(hidden=True, help="Id column of the encoded rows.")
    ] = None,
    out_of_reach: Annotated[
        Reach,
        typer.Option(
            hidden=True, help="If over half of the queries are out of reach: refuse, or accept."
        ),
    ] = Reach.refuse,
    format: Format = None,  # noqa: A002 - what users call it
    as_json: options.AsJson = False,
) -> None:
    """Find the nearest codes of each query, in all epochs.

    Without a terminal the output is JSON lines: {"query": 0, "ids": [...], "distances": [...]}.
    Distances of codes with a refinement are those of decoded rows, of others estimates.

    Example: streambits search job/ --query queries.npy -k 10
    """
    if radius is not None and (real or rerank or allow or exact or candidates):
        raise typer.BadParameter(
            "--radius goes without --rerank, --exact, --candidates, --allow and the setting real"
        )
    if exact is not None and rerank is not None:
        raise typer.BadParameter("--exact proves what --rerank only improves: choose one")
    console = output.stderr()
    source = open_source(query, columns=column_names(columns), ids=ids, format=format)
    rows = None if rerank is None else open_source(rerank, ids=rerank_ids)
    with output.working(console, f"opening {where}"):
        only = None if allow is None else read_ids(allow)
        searcher = open_searcher(where, model)
    _warn_of_retired(searcher)
    console.print(f"searching {searcher}", soft_wrap=True)
    how = {"real": AUTO if real is None else real, "allow": only, "name": source.name}
    batches, by = _usable(source), None if metric is None else metric.value
    if rows is None:
        proof = None if exact is None else rows_by_id(open_source(exact, ids=rerank_ids))
        ranking = Ranking(candidates, by, proof)
        how |= {"refuse": out_of_reach is Reach.refuse}
        answers = searcher.answers(batches, k, radius=radius, ranking=ranking, **how)  # type: ignore[arg-type]
    else:
        answers = searcher.reranked(batches, rows, k, metric=by, **how)  # type: ignore[arg-type]
    show(answers, as_json)


def _warn_of_retired(searcher: Searcher | WaitingRows) -> None:
    if not isinstance(searcher, Searcher):
        return
    coders = searcher.model.coders
    if searcher.retired and isinstance(coders, CoderSet):
        output.stderr().print(
            f"left out: {searcher.retired:,} codes of epochs before {coders.retired}, whose "
            f"coders were retired (keep_epochs); streambits reencode brings them to the newest "
            f"epoch",
            soft_wrap=True,
        )


def _usable(source: Source) -> Iterator[RowBatch]:
    """Batches of the source; bad rows are printed, and an error if there are no others."""
    good = bad = 0
    for batch in source.read():
        for reject in batch.rejects:
            output.show_reject(reject)
        good, bad = good + len(batch.ids), bad + len(batch.rejects)
        yield batch
    if not good:
        raise InputError(
            f"{source.name} has no row that can be used" + (f"; {bad} bad" * bool(bad))
        )


def read_ids(text: str) -> Ids:
    """Ids in a text (1,2,3), a .npy file, or a file of a line each."""
    try:
        if all(part.strip().lstrip("-").isdigit() for part in text.split(",")):
            return np.array(text.split(","), np.int64)
        if text.endswith(".npy"):
            return as_ids(load_array(Path(text)).reshape(-1))
        if "," in text and not Path(text).exists():
            return as_ids([part.strip() for part in text.split(",")])
        lines = Path(text).read_text(encoding="utf-8").split()
        whole = all(line.lstrip("-").isdigit() for line in lines)
        return np.array(lines, np.int64) if whole else as_ids(lines)
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(f"{text} cannot be read as ids, one per line or 1,2,3: {error}") from error


def show(answers: Iterable[Answer], as_json: bool) -> None:
    """For programs one line per query, as they come; for people a table."""
    if as_json or not sys.stdout.isatty():
        for answer in answers:
            _print(json.dumps(answer.as_dict()))
        return
    table = Table("query", "id", "distance", "proven")
    for number, answer in enumerate(answers):
        table.add_section() if number else None
        proven = "" if answer.reads is None else "yes"
        for place, hit in enumerate(zip(answer.ids, answer.distances, strict=True)):
            name = "" if place else str(answer.query)
            table.add_row(name, str(hit[0]), f"{hit[1]:g}", proven)
    output.stdout().print(table)


def _print(line: str) -> None:
    """A line to standard output at once; one that is closed wants no more, without a word."""
    try:
        typer.echo(line)
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - or Python complains at the end
        raise StorageError(f"standard output: {error.strerror or error}") from error
