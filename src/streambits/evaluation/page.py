"""Plots as SVG, and the page of an evaluation: one HTML file that needs nothing else."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from streambits._files import replacing
from streambits.evaluation.result import (
    KIND_NAMES,
    Evaluation,
    best_by_bytes,
    bytes_rows,
    candidates_label,
    headings,
    table_rows,
)

WIDTH, HEIGHT = 316, 226  # inside the axes
LEFT, RIGHT, TOP, BOTTOM = 48, 24, 30, 44  # around them
LETTER = 7  # the width of one, about
STYLES = (  # Okabe and Ito's colours, which colour-blind readers can distinguish, and dashes
    ("#D55E00", ""),
    ("#0072B2", "7 3"),
    ("#009E73", "2 2"),
    ("#CC79A7", "9 3 2 3"),
    ("#000000", "4 4"),
)
Point = tuple[float, float]
CSS = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { padding: .2rem .7rem; text-align: right; }
th { border-bottom: 2px solid; } tr.own td { font-weight: bold; }
figure { display: inline-block; margin: 0 .5rem 1rem 0; } svg { max-width: 100%; height: auto; }
.advice { border-left: 4px solid #D55E00; padding: .2rem 1rem; font-size: 1.15rem; }
"""


def line_plot(title: str, x_label: str, lines: Mapping[str, Sequence[Point]]) -> str:
    """Lines with values from 0 to 1 over a logarithmic axis, each named at its right end.

    Parameters
    ----------
    title, x_label : str
        What the plot and its horizontal axis show.
    lines : dict of str to points
        For each name its points (x, y), x positive and ascending.

    Returns
    -------
    str
        An SVG element.
    """
    ticks = sorted({x for points in lines.values() for x, _ in points})
    low, high = np.log2([ticks[0], ticks[-1]])
    across = WIDTH / max(high - low, 1e-9)

    def place(x: float, y: float) -> Point:
        return LEFT + across * (float(np.log2(x)) - low), _height(y)

    marks = [_text(place(x, 0)[0], _height(0) + 16, f"{x:g}", "middle") for x in _few(ticks)]
    drawn = []
    ends = _apart([place(*points[-1])[1] for points in lines.values()])
    for number, ((name, points), end) in enumerate(zip(lines.items(), ends, strict=True)):
        colour, dash = STYLES[number % len(STYLES)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        drawn.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
        )
        radius = 3 if len(points) > 1 else 5  # a point without a line must be seen
        drawn += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>'
            for x, y in (place(*point) for point in points)
        ]
        drawn.append(_text(LEFT + WIDTH + 8, end + 4, name, fill=colour))
    return _frame(title, x_label, [*marks, *drawn], LETTER * max(map(len, lines)))


def bar_plot(title: str, x_label: str, heights: Sequence[float], ticks: Sequence[str]) -> str:
    """Bars from 0 to 1 side by side.

    Parameters
    ----------
    title, x_label : str
        What the plot and its horizontal axis show.
    heights : sequence of float
        One per bar, from 0 to 1.
    ticks : sequence of str
        Texts spread evenly below the bars.

    Returns
    -------
    str
        An SVG element.
    """
    step = WIDTH / len(heights)
    bars = [
        f'<rect x="{LEFT + step * n:.1f}" y="{_height(value):.1f}" '
        f'width="{max(step - 1, 0.5):.1f}" '
        f'height="{_height(0) - _height(value):.1f}" fill="#0072B2"/>'
        for n, value in enumerate(heights)
    ]
    spread = np.linspace(LEFT, LEFT + WIDTH, len(ticks))
    marks = [
        _text(float(x), _height(0) + 16, text, "middle")
        for x, text in zip(spread, ticks, strict=True)
    ]
    return _frame(title, x_label, [*bars, *marks])


def write_svg(path: Path, svg: str) -> None:
    """Write a plot, an SVG element, to a file; a crash leaves the old file whole."""
    with replacing(path) as file:
        file.write(svg.encode())


def write_page(found: Evaluation, path: Path, title: str) -> None:
    """Write the page of an evaluation to a file; a crash leaves the old file whole."""
    with replacing(path) as file:
        file.write(as_page(found, title).encode())


def as_page(found: Evaluation, title: str) -> str:
    """The page of an evaluation: advice, plots, the tables, and what was measured.

    Parameters
    ----------
    found : Evaluation
        What to show.
    title : str
        Heading of the page; any text.

    Returns
    -------
    str
        An HTML document that loads nothing else.
    """
    name = escape(title)
    sections = [
        f"<h1>{name}</h1>",
        f'<p class="advice">{escape(found.advice)}</p>',
        *(f"<figure>{svg}</figure>" for svg in plots(found)),
        _bytes_table(found),
        _table(found),
        *(f"<p>{one.bits} bits: {escape(one.reason)}.</p>" for one in found.lengths if one.reason),
        *(f"<p>{one.label}: {escape(one.reason)}.</p>" for one in found.sizes if one.reason),
        _notes(found),
    ]
    head = f'<meta charset="utf-8"><title>{name}</title><style>{CSS}</style>'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = "\n".join(sections)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def plots(found: Evaluation) -> list[str]:
    """Plot recall against bytes, recall and MAP against bits, and how bits are used, as SVG."""
    figures = [*_bytes_plot(found), *_lengths_plots(found)]
    if not found.model.bits:
        return figures
    last = str(found.model.bits)
    figures.append(bar_plot("Balance: share of ones", "bit", found.balance.tolist(), ("1", last)))
    pairs = np.abs(found.correlation[np.triu_indices(found.model.bits, 1)])
    pairs = pairs[~np.isnan(pairs)]
    if len(pairs):
        counts, _ = np.histogram(pairs, bins=20, range=(0, 1))
        shares = (counts / counts.sum()).tolist()
        label = "absolute correlation of two bits"
        figures.append(bar_plot("Share of all pairs of bits", label, shares, ("0", "0.5", "1")))
    return figures


def _bytes_plot(found: Evaluation) -> list[str]:
    """Recall in the first answers against bytes, where codes of several sizes were compared."""
    lines = {
        name: [(size, one.recall) for size, one in best_by_bytes(found, kind).items()]
        for kind, name in reversed(KIND_NAMES.items())
    }
    lines = {name: points for name, points in lines.items() if points}
    own = found.itself
    if own is None or len({x for points in lines.values() for x, _ in points}) < 2:
        return []
    lines["this model"] = [(own.n_bytes, own.recall)]
    title = f"Recall of the {found.k} nearest in the first {found.k}"
    return [line_plot(title, "bytes per vector", lines)]


def _lengths_plots(found: Evaluation) -> list[str]:
    scores, figures = [one for one in found.lengths if one.recall and one.bits], []
    if len(scores) > 1:
        lines = {
            candidates_label(n, found.k): [(one.bits, one.recall[n]) for one in scores]
            for n in reversed(found.candidates)
        }
        maps = {"MAP": [(one.bits, one.map) for one in scores]}
        figures.append(line_plot(f"Recall of the {found.k} nearest", "bits per vector", lines))
        figures.append(line_plot("Mean average precision", "bits per vector", maps))
    else:
        own = {_name(found): list(found.model.recall.items())}
        label = "candidates that are re-ranked"
        figures.append(line_plot(f"Recall of the {found.k} nearest", label, own))
    return figures


def _name(found: Evaluation) -> str:
    """The size of the model's codes."""
    return found.itself.label if found.itself is not None else f"{found.model.bits} bits"


def _bytes_table(found: Evaluation) -> str:
    rows = list(bytes_rows(found))
    if len(rows) < 2:
        return ""
    own = "" if found.itself is None else str(found.itself.n_bytes)
    title = f"<p>Recall of the {found.k} nearest in the first {found.k} answers, by bytes:</p>"
    return title + _html_table(("bytes", *KIND_NAMES.values()), rows, own)


def _table(found: Evaluation) -> str:
    title = f"<p>Recall of the {found.k} nearest, in the first answers and after re-ranking:</p>"
    return title + _html_table(headings(found), table_rows(found), str(found.model.bits))


def _html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], own: str) -> str:
    """A table; own: the first cell of the row in bold."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    lines = []
    for row in rows:
        cells = "".join(f"<td>{escape(text)}</td>" for text in row)
        lines.append(f'<tr class="{"own" if row[0] == own else ""}">{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _notes(found: Evaluation) -> str:
    use = found.use
    bits = (
        f"<p>Bits: mean imbalance {use.imbalance:.3f} (0 is best), {use.constant} constant, "
        f"mean correlation {use.correlation:.3f}, largest {use.most:.3f}.</p>"
    )
    return (
        f"<p>Rows in bold have the size of the model itself. {found.queries:,} queries among "
        f"{found.rows:,} rows of {found.columns} columns; raw rows take "
        f"{4 * found.columns:,} bytes each in single precision. Recall: the share of the "
        f"{found.k} nearest rows, found by exact search, that a search by codes returns, in its "
        f"first {found.k} answers or after its candidates were re-ranked by true distance. It "
        "falls as the database grows. Refined codes: sign bits find candidates, and the bytes "
        "beside them rank these; no rows are needed. Product codes have no sign bits, and every "
        "search reads all of them. MAP: mean average precision of the ranking of all rows. Other "
        "lengths and sizes were learned from the same rows with the same settings.</p>"
    ) + (bits if found.model.bits else "")


def _frame(title: str, x_label: str, content: Sequence[str], names: int = 0) -> str:
    """Axes with a scale from 0 to 1, a title, and what is drawn; names: room for texts beside."""
    width, height = LEFT + WIDTH + RIGHT + names, TOP + HEIGHT + BOTTOM
    grid = [
        f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{_height(y):.1f}" y2="{_height(y):.1f}" '
        f'stroke="#ddd"/>' + _text(LEFT - 6, _height(y) + 4, f"{y:g}", "end")
        for y in (0, 0.25, 0.5, 0.75, 1)
    ]
    labels = [
        _text(LEFT, 18, title, weight="bold"),
        _text(LEFT + WIDTH / 2, height - 8, x_label, "middle"),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'font-family="sans-serif" font-size="12"><rect width="{width}" height="{height}" '
        f'fill="white"/>{"".join([*grid, *labels, *content])}</svg>'
    )


def _text(
    x: float, y: float, text: str, anchor: str = "start", *, fill: str = "#222", weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{bold}>'
        f"{escape(text)}</text>"
    )


def _height(y: float) -> float:
    return TOP + HEIGHT * (1 - y)


def _few(ticks: Sequence[float]) -> list[float]:
    """Ticks at least a third of an octave apart, so that their texts do not overlap."""
    kept = [ticks[0]]
    for x in ticks[1:]:
        if x >= 1.25 * kept[-1]:
            kept.append(x)
    return kept


def _apart(heights: Sequence[float], gap: float = 14) -> list[float]:
    """The same heights, moved so that texts beside them do not overlap."""
    order = np.argsort(heights, kind="stable")
    moved = np.asarray(heights, np.float64)
    for before, here in itertools.pairwise(order):
        moved[here] = max(moved[here], moved[before] + gap)
    return [float(value) for value in moved]
