"""The parts of the report: each a function from results to HTML."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paper.claims import Claim, Finding
from paper.contestants import CONTESTANTS
from paper.grid import Grid
from paper.measure import Cell
from paper.report import figures
from paper.report.html import Markup, table, tag
from paper.report.tables import (
    BEYOND,
    REFUSED,
    Sheet,
    ablation,
    by_method,
    costs,
    summary_tables,
)
from paper.summary import INSTEAD, Book, reasons, title
from paper.verdicts import FAILS, HOLDS, OPEN, PARTLY

HOW = Path(__file__).with_name("how.html")
NOTHING = tag("p", "No results for it here.")
MARKS = {
    HOLDS: ("\u2714", "yes"),
    PARTLY: ("\u25d0", "partly"),
    FAILS: ("\u2718", "no"),
    OPEN: ("\u2013", "open"),
}


def claims(findings: Sequence[Finding]) -> Markup:
    """What the paper says, what was measured, and what follows; one line per method."""
    head = tag("tr", *(tag("th", h) for h in ("the paper says", "we measured", "verdict")))
    body = []
    for finding in findings:
        first = finding.method == finding.claim.who[0]
        who = tag("strong", finding.who, ". ") if finding.who else ""
        cells = [tag("td", who, finding.measured), tag("td", _verdict(finding))]
        body.append(tag("tr", _said(finding.claim) if first else "", *cells))
    parts = (tag("thead", head), tag("tbody", *body))
    return tag("div", tag("table", *parts, klass="claims"), klass="scroll")


def _said(claim: Claim) -> Markup:
    notes = [claim.place, f"Met if: {claim.rule}", claim.remark]
    small = (tag("small", note) for note in notes if note)
    return tag("td", tag("q", claim.text), *small, rowspan=str(len(claim.who)))


def _verdict(finding: Finding) -> Markup:
    mark, klass = MARKS[finding.verdict.word]
    word = tag("span", f"{mark} {finding.verdict.word}", klass=f"verdict {klass}")
    condition = tag("small", finding.verdict.condition) if finding.verdict.condition else ""
    return tag("span", word, condition)


def summary(book: Book) -> Markup:
    """The tables that a README shows."""
    note = tag(
        "p",
        "Mean over seeds, with the 95 % interval where there are several. The best of a column is "
        f"bold. “{REFUSED}”: the method has no codes of that length there; the reasons are listed "
        "under “What is missing”. A dash: not part of the runs.",
    )
    return tag("div", note, *([_sheet(sheet) for sheet in summary_tables(book)] or [NOTHING]))


def how() -> Markup:
    """How it was measured."""
    return Markup(HOW.read_text(encoding="utf-8"))


def all_of(parts: Sequence[Markup]) -> Markup:
    """One after the other."""
    return tag("div", *(parts or [NOTHING]))


def beyond(book: Book) -> Markup:
    """What the paper does not have."""
    parts = {
        "More methods, more bits": figures.more_bits(book),
        "Online, at the end, frozen": figures.settings(book),
        "Real-valued queries": figures.real_queries(book),
        "What each part buys": _ablation(book),
        "Algorithm 1 to the letter": _letter(book),
        "What it costs": _costs(book),
    }
    return tag("div", *(tag("div", tag("h3", name), part) for name, part in parts.items()))


def _ablation(book: Book) -> Markup:
    note = tag("p", "Ours, and the difference that a change of one part makes.")
    return tag("div", note, _sheet(ablation(book)))


def _letter(book: Book) -> Markup:
    note = tag("p", "One row freed at a time, as in the paper, or as many as the sketch has.")
    names = ("ssbc-letter", "ssbc-paper", "ssbc")
    found = (by_method(book, names, k, f"MAP at sigma_30, {k} bits") for k in (20, 50))
    tables = [_sheet(sheet) for sheet in found if sheet is not None]
    return tag("div", note, *(tables or [NOTHING]))


def _costs(book: Book) -> Markup:
    note = tag(
        "p",
        "Seconds to learn a stream and to encode it. The paper says that it compared efficiency, "
        "and prints no figures. Other work ran on the same machine meanwhile.",
    )
    streams, known = figures.whole_streams(book), figures.measured(book, BEYOND)
    timed = [(c.stream, c.method, c.bits) for c in book if c.stream in streams]
    most = max(
        (k for *_, k in timed), key=lambda k: len({t for t in timed if t[2] == k}), default=0
    )
    return tag("div", note, _sheet(costs(book, known, streams, most)))


def _sheet(sheet: Sheet | None) -> Markup:
    if sheet is None:
        return NOTHING
    rows = [[row[0], *map(_bold, row[1:])] for row in sheet.rows]
    return table(sheet.head, rows, sheet.caption)


def _bold(text: str) -> Markup | str:
    return tag("strong", text.strip("*")) if text.startswith("**") else text


def absent(grid: Grid, book: Book) -> Markup:
    """What was not measured, and why."""
    items: list[Any] = [
        (title(stream), f"its data are not here.{_stand_in(stream, book)}")
        for stream in grid.absent
    ]
    items += [(CONTESTANTS[m].title, "its package is not installed.") for m in grid.unpacked]
    items += [(_named(cells), f"{reason}.") for reason, cells in reasons(book).items()]
    undone = len(grid.cells) - sum(map(len, book.values()))
    if undone:
        items.append((f"{undone:,} of {len(grid.cells):,} cells", "not run yet."))
    lines = (tag("li", tag("strong", name), f": {why}") for name, why in items)
    return tag("ul", *lines) if items else tag("p", "Nothing.")


def _named(cells: Sequence[Cell]) -> str:
    """Cells in few words: a method and a stream with all lengths."""
    lengths: dict[str, list[int]] = {}
    for cell in cells:
        name = f"{CONTESTANTS[cell.method].title} on {title(cell.stream)}"
        lengths.setdefault(name, []).append(cell.bits)
    parts = (f"{n}, {', '.join(map(str, sorted(set(k))))} bits" for n, k in lengths.items())
    return "; ".join(parts)


def _stand_in(stream: str, book: Book) -> str:
    other = INSTEAD.get(stream, "")
    here = any(cell.stream == other for cell in book)
    return f" {title(other)} stands in, under its own name." if here else ""


def made_with(grid: Grid, book: Book, made: Sequence[dict[str, str]]) -> Markup:
    """The machine and all versions that results were made with."""
    names = dict.fromkeys(name for one in made for name in one)
    rows = [(n, ", ".join(sorted({one[n] for one in made if n in one}))) for n in names]
    every = [one for seeds in book.values() for one in seeds.values()]
    minutes = sum(one["seconds"]["all"] for one in every) / 60
    spent = f"{minutes:.1f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
    note = f"{len(every):,} cells, {spent} of one core, {grid.queries:,} queries each."
    lines = (tag("tr", tag("th", n, scope="row"), tag("td", v)) for n, v in rows)
    return tag("div", tag("p", note), tag("table", tag("tbody", *lines)))
