"""`streambits inspect`: what a model, an index, codes or a job's folder hold."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.table import Table

from streambits.cli import output
from streambits.cli.options import AsJson
from streambits.jobs.describe import Facts, describe
from streambits.jobs.folder import named_settings

CAPTIONS = {
    "drift": "drift, the last measurements",
    "each": "codes by epoch",
    "coders": "coders by epoch",
}
NESTED = ("spectrum", *CAPTIONS)
WORDS = {
    "bytes": "bytes in memory",
    "certificate_relative": "of the energy",
    "half_life": "half-life",
}
ENDS = {  # by whether a source has no end, and whether all of it was read
    False: {True: "finished", False: "not finished", None: "not running"},
    True: {True: "caught up", False: "stopped", None: "not running"},
}


def inspect_command(
    path: Annotated[str, typer.Argument(help="A model, an index, codes, or the folder of a job.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show what a model, an index, codes or a job's folder hold.

    The certificate bounds the error of the sketch.

    Example: streambits inspect job/
    """
    with output.working(output.stderr(), f"reading {path}"):
        facts = describe(path)
    output.result({**output.VERSION, "path": path, **facts}, _parts(path, facts), as_json)


def _parts(title: str, facts: Facts) -> Iterator[Table]:
    """Tables, one below the other."""
    kind = facts["kind"]
    if kind == "job":
        yield from _job(facts)
        return
    plain = {name: value for name, value in facts.items() if name not in (*NESTED, "kind")}
    yield _table(title if title == kind else f"{title}: {kind}", plain)
    for name, caption in CAPTIONS.items():
        if facts.get(name):
            rows = ([_text(*cell) for cell in row.items()] for row in facts[name])
            yield output.table(caption, list(facts[name][0]), rows)


def _job(facts: Facts) -> Iterator[Table]:
    """How far a job is, what it does, and what it has made."""
    endless, counts, job = facts.get("endless", False), facts.get("progress", {}), facts["job"]
    source = job.get("source")
    files = source.get("files", []) if isinstance(source, dict) else []
    if files:
        source = files[0][0] + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    rows = {
        "state": "running" if facts["running"] else ENDS[endless][facts.get("finished")],
        "end": "none: a broker's stream goes on" if endless else None,
        "rows": counts.get("rows"),
        "rejects": counts.get("rejects"),
        "verb": job.get("verb"),
        "source": source,
        "sink": job.get("sink"),
    }
    yield _table("job", rows | named_settings(job))
    for name in ("codes", "model", "coders"):
        if name in facts:
            yield from _parts(name, {"kind": name} | facts[name])


def _table(title: str, facts: Facts) -> Table:
    present = {name: value for name, value in facts.items() if value is not None}
    rows = ((WORDS.get(name, name), _text(name, value)) for name, value in present.items())
    return output.table(title, (), rows)


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "certificate_relative":
        return f"{value:.3%}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and name not in ("epoch", "seed"):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
