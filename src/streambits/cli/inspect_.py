"""`streambits inspect`: what a model, an index, codes or a job's folder hold."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.table import Table

import streambits
from streambits.cli import output
from streambits.cli.options import AsJson
from streambits.jobs.describe import Facts, describe
from streambits.jobs.folder import named_settings

NESTED = ("spectrum", "drift", "each", "coders", "model", "codes", "job", "progress")
WORDS = {
    "bytes": "bytes in memory",
    "certificate_relative": "of the energy",
    "bits_changed": "bits changed",
    "half_life": "half-life",
}
ENDS = {  # by whether a source has no end, and whether all of it was read
    False: {True: "finished", False: "not finished", None: "not running"},
    True: {True: "caught up", False: "stopped", None: "not running"},
}


def inspect_command(
    path: Annotated[
        str,
        typer.Argument(help="A model, an index, codes, or the folder of a job."),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Show what a model, an index, codes or a job's folder hold.

    The certificate bounds the error of the sketch; bits changed is the share that the next coder
    changes; balance is 0 where every bit is as often 0 as 1.

    Example: streambits inspect job/
    """
    with output.working(output.stderr(), f"reading {path}"):
        facts = describe(path)
    if as_json:
        typer.echo(json.dumps({"streambits": streambits.__version__, "path": path, **facts}))
        return
    console = output.stdout()
    for part in _parts(path, facts):
        console.print(part, soft_wrap=isinstance(part, str), markup=False)


def _parts(title: str, facts: Facts) -> Iterator[Any]:
    """Tables and plots, one below the other."""
    yield from _job(facts) if facts["kind"] == "job" else ()
    if facts["kind"] != "job":
        kind = facts["kind"]
        yield _table(title if title == kind else f"{title}: {kind}", facts)
    for name, caption in (("drift", "drift, the last measurements"), ("each", "codes by epoch")):
        if facts.get(name):
            yield _listed(caption, facts[name])
    if facts["kind"] == "coders" and facts["coders"]:
        yield _listed("coders by epoch", facts["coders"])


def _job(facts: Facts) -> Iterator[Any]:
    yield _table("job", _progress(facts) | _described(facts["job"]))
    if "codes" in facts:
        yield from _parts("codes", {"kind": "codes", **facts["codes"]})
    for name in ("model", "coders"):
        if name in facts:
            yield from _parts(name, facts[name])


def _progress(facts: Facts) -> Facts:
    """How far a job is."""
    endless = facts.get("endless", False)
    state = "running" if facts["running"] else ENDS[endless][facts.get("finished")]
    counts = facts.get("progress", {})
    more = {"end": "none: a broker's stream goes on"} if endless else {}
    found = {key: counts[key] for key in ("rows", "rejects") if key in counts}
    return {"state": state} | more | found


def _described(job: Facts) -> Facts:
    """What a job does."""
    source = job.get("source")
    files = source.get("files", []) if isinstance(source, dict) else []
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        source = f"{files[0][0]}{more}"
    facts = {"verb": job.get("verb"), "source": source, "sink": job.get("sink")}
    return {**facts, **named_settings(job)}


def _table(title: str, facts: Facts) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in facts.items():
        nested = name in NESTED and isinstance(value, list | dict)
        if value is not None and name != "kind" and not nested:
            table.add_row(WORDS.get(name, name), _text(name, value))
    return table


def _listed(title: str, rows: list[Facts]) -> Table:
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*(_text(name, value) for name, value in row.items()))
    return table


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in ("bits_changed", "certificate_relative"):
        return f"{value:.3%}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and name not in ("epoch", "seed"):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
