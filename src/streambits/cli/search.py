"""`streambits search`: the nearest codes of queries, whatever epoch they are of."""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from streambits._arrays import Ids, as_ids
from streambits.cli import output
from streambits.cli.options import READ, Model, RowOptions, Shown, option, refusing
from streambits.epochs.coder_set import AUTO, CoderSet
from streambits.errors import InputError
from streambits.io.codes.npy import load_array
from streambits.io.protocols import Source
from streambits.io.rows import open_source
from streambits.jobs.search import Answer, Ranking, Searcher, open_searcher, rows_by_id
from streambits.model.batches import RowBatch
from streambits.model.metric import COSINE, EUCLIDEAN, INNER


@dataclass(frozen=True)
class SearchOptions(RowOptions):
    """What is searched, and how answers are ranked."""

    candidates: str | int | None = option(
        None,
        "Codes per epoch to rank by what they decode to, or all. Default: 300 or more.",
        words=("all",),
        least=1,
    )
    metric: str | None = option(
        None, "How to rank. Default: as the model was learned.", choices=(EUCLIDEAN, INNER, COSINE)
    )
    rerank: str | None = option(None, "The encoded rows: 10 k answers are ranked by them.")
    exact: str | None = option(None, "The encoded rows: answers are proven (certified models).")
    radius: int | None = option(None, "Find all codes within so many bits instead.", least=0)
    allow: str | None = option(None, "Ids to choose from: 1,2,3, or a file of them.")
    real: bool | None = option(None, "Whether to rank by real values of queries. Default: yes.")
    rerank_ids: str | None = option(None, "Id column of the encoded rows.")
    out_of_reach: str = refusing("If over half of the queries are out of reach")

    def __post_init__(self) -> None:
        if self.radius is not None and (
            self.real or self.rerank or self.allow or self.exact or self.candidates
        ):
            raise typer.BadParameter(
                "--radius goes without --rerank, --exact, --candidates, --allow and real"
            )
        if self.exact is not None and self.rerank is not None:
            raise typer.BadParameter("--exact proves what --rerank only improves: choose one")


def search_command(
    where: Annotated[
        str, typer.Argument(help="A job's folder, codes (as for streambits index) or an index.")
    ],
    *,
    query: Annotated[str, typer.Option(help="Rows to search for: file, folder, or -.")],
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Answers per query.")] = 10,
    model: Model = None,
    options: Annotated[SearchOptions, Shown(f"candidates metric rerank exact radius allow {READ}")],
) -> None:
    """Find the nearest codes of each query, in all epochs.

    Without a terminal the output is JSON lines: {"query": 0, "ids": [...], "distances": [...]}.
    Distances of codes with a refinement are those of decoded rows, of others estimates.

    Example: streambits search job/ --query queries.npy -k 10
    """
    console, source = output.stderr(), options.open(query)
    rows = None if options.rerank is None else open_source(options.rerank, ids=options.rerank_ids)
    with output.working(console, f"opening {where}"):
        only = None if options.allow is None else read_ids(options.allow)
        searcher = open_searcher(where, model)
    _warn_of_retired(searcher)
    console.print(f"searching {searcher}", soft_wrap=True)
    real = AUTO if options.real is None else options.real
    how: dict[str, Any] = {"real": real, "allow": only, "name": source.name}
    batches, by = _usable(source), options.metric
    if rows is None:
        proof = options.exact and rows_by_id(open_source(options.exact, ids=options.rerank_ids))
        ranking = Ranking(options.candidates, by, proof or None)
        how |= {"refuse": options.out_of_reach == "refuse", "ranking": ranking}
        answers = searcher.answers(batches, k, radius=options.radius, **how)
    else:
        answers = searcher.reranked(batches, rows, k, metric=by, **how)
    show(answers, options.json)


def _warn_of_retired(searcher: Searcher) -> None:
    coders = searcher.model.coders
    if isinstance(coders, CoderSet) and searcher.retired:
        output.stderr().print(
            f"left out: {searcher.retired:,} codes of epochs before {coders.retired}, whose coders "
            f"were retired (keep_epochs); streambits reencode brings them to the newest epoch",
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
    path = Path(text)
    try:
        if path.suffix == ".npy":
            return as_ids(load_array(path).reshape(-1))
        listed = _whole([text]) or ("," in text and not path.exists())
        words = text.split(",") if listed else path.read_text(encoding="utf-8").split()
        names = [word.strip() for word in words]
        return np.array(names, np.int64) if _whole(names) else as_ids(names)
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(f"{text} cannot be read as ids, one per line or 1,2,3: {error}") from error


def _whole(words: list[str]) -> bool:
    return all(word.lstrip("-").isdigit() for word in words)


def show(answers: Iterable[Answer], as_json: bool) -> None:
    """For programs one line per query, as they come; for people a table."""
    if as_json or not sys.stdout.isatty():
        for answer in answers:
            typer.echo(json.dumps(answer.as_dict()))
        return
    rows = (
        (str(answer.query), str(name), f"{distance:g}", "" if answer.reads is None else "yes")
        for answer in answers
        for name, distance in zip(answer.ids, answer.distances, strict=True)
    )
    output.stdout().print(output.table("", ("query", "id", "distance", "proven"), rows))
