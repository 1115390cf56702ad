"""The report: one page, a table and a picture from the results in a folder.

Nothing is measured here; what has no result is named with the reason.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paper import runs
from paper.claims import CLAIMS, Finding, judged
from paper.comparisons import Evidence
from paper.contestants import CONTESTANTS
from paper.grid import Grid
from paper.report import figures, plots, sections
from paper.report.html import Markup, page, tag
from paper.report.tables import BEYOND, markdown, summary_tables
from paper.report.theory import theory_section
from paper.summary import Book, collect, paper_streams, title
from paper.theory import runs as theory_runs
from paper.theory.claims import THEORY_CLAIMS
from paper.verdicts import FAILS, HOLDS, OPEN, PARTLY
from streambits._files import replacing

TITLE = "Binary Coding in Stream, measured"
LEAD = (
    "Ghashami & Abdullah, Binary Coding in Stream (2015), run again: every claim of its "
    "experiments with what we measured, its figures, and what goes beyond them. “As printed” is "
    "the paper's algorithm; “ours” is the default of streambits."
)
SEVERAL = {
    HOLDS: "hold",
    PARTLY: "hold with a condition",
    FAILS: "do not hold",
    OPEN: "could not be measured",
}


class Written(NamedTuple):
    """Where the page, the table and the picture are, and what the claims came to."""

    page: Path
    table: Path
    picture: Path
    findings: list[Finding]


def write(grid: Grid, folder: Path, out: Path) -> Written:
    """Write the report of a grid from its results in `folder` to `out`, which must exist."""
    results = list(runs.results(grid.cells, folder, grid.queries))
    book, proofs = collect(results), theory_runs.results(grid, folder)
    findings = judged((*CLAIMS, *THEORY_CLAIMS), Evidence(book, proofs))
    written = Written(out / "index.html", out / "summary.md", out / "figure.png", findings)
    made = [dict(r.made_with) for r in results] + [p.made_with for p in proofs]
    parts = [
        *_parts(grid, book, proofs, findings),
        ("made", "Machine and versions", sections.made_with(grid, book, made)),
    ]
    known = figures.measured(book, BEYOND)
    plots.write(plots.headline(book, figures.whole_streams(book), known), written.picture)
    _save(written.table, markdown(summary_tables(book)))
    _save(written.page, page(TITLE, _lead(book, findings), parts))
    return written


def _parts(
    grid: Grid, book: Book, proofs: Sequence[theory_runs.Proof], findings: list[Finding]
) -> list[tuple[str, str, Markup]]:
    cut = sum(len(claim.who) for claim in CLAIMS)
    theory = tag("div", sections.claims(findings[cut:]), theory_section(proofs))
    said = tag("div", _where(grid, book), sections.claims(findings[:cut]))
    return [
        ("claims", "What the paper says, and what we measured", said),
        ("summary", "All methods at 32 and 64 bits", sections.summary(book)),
        ("how", "How it was measured", sections.how()),
        ("figures", "The paper's figures", sections.all_of(figures.paper_figures(book))),
        ("diagonal", "The 45-degree line", sections.all_of(figures.diagonals(book))),
        ("exact", "Against the exact methods", sections.all_of(figures.exact_figures(book))),
        ("beyond", "Beyond the paper", sections.beyond(book)),
        ("theory", "The theory", theory),
        ("absent", "What is missing", sections.absent(grid, book)),
    ]


def _lead(book: Book, findings: Sequence[Finding]) -> list[Markup]:
    said = [LEAD]
    if all(len(seeds) == 1 for seeds in book.values()):
        said.append("There is one seed, so there are no intervals: read the verdicts as hints.")
    counts = [tag("li", _count(method, findings)) for method in ("ssbc-paper", "ssbc")]
    return [*(tag("p", text) for text in said), tag("ul", *counts)]


def _where(grid: Grid, book: Book) -> Markup:
    names = ", ".join(map(title, paper_streams(book))) or "none"
    absent = ", ".join(map(title, grid.absent))
    text = f"The claims about figures are checked on: {names}."
    return tag("p", text, f" Not here, and so not measured: {absent}." if absent else "")


def _count(method: str, findings: Sequence[Finding]) -> Markup:
    words = [finding.verdict.word for finding in findings if finding.method == method]
    counts = ", ".join(f"{words.count(w)} {name}" for w, name in SEVERAL.items() if w in words)
    of = f" Of {len(words)} claims about it, {counts}."
    return tag("span", tag("strong", CONTESTANTS[method].title, "."), of)


def _save(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
