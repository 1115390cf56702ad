"""The figures of the report with their captions: the paper's, and those that go beyond it."""

from collections.abc import Sequence
from typing import Any

from paper.comparisons import EXACT, RIVALS, paper_bits
from paper.contestants import CONTESTANTS, LEVELS
from paper.measure import Cell
from paper.report import plots
from paper.report.html import Markup, figure, image, tag
from paper.report.tables import BEYOND
from paper.summary import (
    Book,
    Estimate,
    Metric,
    asymmetric,
    exact_streams,
    mean_average_precision,
    paper_streams,
    place,
    precision,
    recall,
    series,
    streams_of,
    summarise,
    title,
)

PAPER = ("ssbc", "ssbc-paper", *RIVALS)
OWN = (
    "Methods with a distance of their own (MDSH, Spherical, RaBitQ) are ranked in MAP by it or by "
    "Hamming distance, whichever is better for them; precision and recall are by Hamming distance."
)
SETTINGS = {
    "end": "end of the stream",
    "online": "given out at once",
    "frozen": "frozen after 2 l rows",
}
DRAWN = ("sigma_30 / 4", "sigma_30", "sigma_all")  # from the nearest to the farthest
REAL = ("ssbc", "itq", "osh")  # shown with real-valued queries
SHORT = 32  # bits: linear methods have at most as many as there are columns


def paper_figures(book: Book) -> list[Markup]:
    """Figures 1 to 4: precision, recall, MAP at three levels and precision-recall."""
    return [_paper_figure(book, stream, PAPER) for stream in _drawn(book, paper_streams(book))]


def exact_figures(book: Book) -> list[Markup]:
    """Figure 5: the same with the exact methods, on few rows."""
    streams = _drawn(book, exact_streams(book))
    return [_paper_figure(book, stream, (*PAPER, *EXACT)) for stream in streams]


def _drawn(book: Book, streams: Sequence[str]) -> list[str]:
    return [stream for stream in streams if paper_bits(book, stream)]


def _paper_figure(book: Book, stream: str, methods: Sequence[str]) -> Markup:
    levels = [level for level in DRAWN if any(c[0] == stream and c.level == level for c in book)]
    lengths = paper_bits(book, stream)
    middle = lengths[len(lengths) // 2]
    curves = plots.curves(book, stream, methods, middle)
    panels = [
        _lines(book, stream, methods, precision, "precision"),
        _lines(book, stream, methods, recall, "recall"),
        *(_lines(book, stream, methods, mean_average_precision, "MAP", level=k) for k in levels),
        _picture(curves, f"{title(stream)}: precision against recall at {middle} bits"),
    ]
    caption = (
        f": {facts(book, stream, methods, lengths)}. Bars: 95 % intervals over seeds, where there "
        "are several. Precision and recall of all queries together, within the matched radius. "
        f"{OWN}"
    )
    drawn = figure(panels, f"{title(stream)}{caption}", legend=legend(methods))
    return tag("div", tag("h3", title(stream)), drawn)


def _lines(
    book: Book,
    stream: str,
    methods: Sequence[str],
    metric: Metric,
    label: str,
    *,
    level: str = LEVELS[0],
) -> Markup:
    bits = paper_bits(book, stream)
    lines = {m: series(book, stream, m, metric, level=level, bits=bits) for m in methods}
    name = f"{label} at {level}" if label == "MAP" else label
    return _picture(plots.against_bits(lines, label, name), f"{title(stream)}: {name} against bits")


def diagonals(book: Book) -> list[Markup]:
    """Where the 45-degree line comes from."""
    drawn = {
        stream: plots.diagonal(book, stream, PAPER, paper_bits(book, stream))
        for stream in _drawn(book, paper_streams(book))
    }
    panels = [
        _picture(panel, f"{title(stream)}: precision against recall at the matched radius")
        for stream, panel in drawn.items()
    ]
    caption = (
        "Precision against recall at the matched radius, a point a length of codes. All methods "
        "lie near the diagonal, because the radius is chosen so."
    )
    return [figure(panels, caption, legend=legend(PAPER))] if panels else []


def more_bits(book: Book) -> Markup:
    """MAP against bits, all methods, on every stream of full length."""
    panels, streams = [], whole_streams(book)
    for stream in streams:
        lines = {m: series(book, stream, m, mean_average_precision) for m in BEYOND}
        drawn = plots.against_bits(lines, "MAP at sigma_30", title(stream), wide=True)
        panels.append(_picture(drawn, f"{title(stream)}: MAP against bits, all methods"))
    sizes = "; ".join(f"{title(s)}: {facts(book, s, BEYOND)}" for s in streams)
    notes = (
        "RaBitQ has exactly one bit a column, compares codes with the uncompressed query, and "
        "keeps two numbers a row beside them. Lengths that a method refuses are listed under "
        "“What is missing”."
    )
    return figure(panels, f"{sizes}. {OWN} {notes}", legend=legend(measured(book, BEYOND)))


def settings(book: Book) -> Markup:
    """End of stream, online and frozen, side by side."""
    panels = []
    for method in ("ssbc", "ssbc-paper"):
        cells = [c for c in book if (c.method, c.setting) == (method, "frozen")]
        if cells:
            drawn = plots.dots(
                [f"{title(c.stream)}, {c.order}" for c in cells],
                {name: _maps(book, cells, setting) for setting, name in SETTINGS.items()},
                f"{CONTESTANTS[method].title}, {cells[0].bits} bits",
            )
            panels.append(_picture(drawn, f"{method}: MAP at the end, online and frozen"))
    caption = (
        "MAP of codes made by the last coder, of codes given out at once by the coder of their "
        "moment, and of codes by a coder frozen after the first 2 l rows. A sorted stream is in "
        "the order of its first principal component; its landmarks are a sample of all of it."
    )
    return figure(panels, caption if panels else "No results for it here.", wide=True)


def _maps(book: Book, cells: Sequence[Cell], setting: str) -> list[Estimate | None]:
    cells = [cell._replace(setting=setting) for cell in cells]
    return [summarise(book, cell, mean_average_precision) for cell in cells]


def real_queries(book: Book) -> Markup:
    """Codes against a real-valued query and against a coded one."""
    cells = [place(s, m, SHORT) for s in whole_streams(book) for m in REAL]
    known = [c for c in cells if summarise(book, c, asymmetric) is not None]
    if not known:
        return figure([], "No results for it here.")
    marks = {
        "coded query": [summarise(book, c, mean_average_precision) for c in known],
        "real-valued query": [summarise(book, c, asymmetric) for c in known],
    }
    rows = [f"{title(c.stream)}, {CONTESTANTS[c.method].title}" for c in known]
    drawn = plots.dots(rows, marks, f"symmetric and asymmetric, {SHORT} bits")
    picture = _picture(drawn, "MAP with a coded and with a real-valued query")
    return figure([picture], "Codes ranked by a coded and by a real-valued query.", wide=True)


def legend(methods: Sequence[str]) -> Markup:
    """A piece of line and a name for each method."""
    keys = ((m, image(plots.as_svg(plots.key(m)), "")) for m in methods)
    items = (tag("li", picture, CONTESTANTS[m].title) for m, picture in keys)
    return tag("ul", *items, klass="legend")


def facts(
    book: Book, stream: str, methods: Sequence[str], bits: Sequence[int] | None = None
) -> str:
    """m, n, queries and seeds of a stream; bits: those that a figure shows, if not all."""
    mine = [
        by
        for c, by in book.items()
        if c.stream == stream and c.method in methods and (bits is None or c.bits in bits)
    ]
    if not mine:
        return "none of these methods"
    one = next(iter(mine[0].values()))
    seeds = sorted({len(by) for by in mine})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return (
        f"m = {one['landmarks']:,} landmarks, n = {one['rows']:,} rows, d = {one['columns']}, "
        f"{one['queries']:,} queries, {count} seed{'s' if seeds[-1] > 1 else ''}"
    )


def measured(book: Book, methods: Sequence[str]) -> list[str]:
    """Those methods that have results."""
    return [method for method in methods if any(cell.method == method for cell in book)]


def whole_streams(book: Book) -> list[str]:
    """The streams of full length; all if there are only short ones."""
    every = streams_of(book)
    return [stream for stream in every if not stream.endswith("small")] or every


def _picture(drawn: Any, alt: str) -> Markup:
    return image(plots.as_svg(drawn), alt)
