"""The report's plots: small panels, each a matplotlib figure; all can be read without colour.

The only file that imports matplotlib. A method has the same colour, marker and dashes in every
plot: the colours are mostly Okabe and Ito's, which colour-blind readers can distinguish; markers
and dashes distinguish the methods without any.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paper.contestants import CONTESTANTS, LEVELS
from paper.radii import RECALLS
from paper.summary import (
    Book,
    Estimate,
    mean_average_precision,
    place,
    precision,
    recall,
    series,
    title,
)
from streambits._files import check_writable, replacing
from streambits.errors import MissingExtraError

DPI = 160
Dash = str | tuple[int, tuple[float, ...]]
DASHED, DOTTED, MIXED = (0, (4.0, 2.0)), (0, (1.2, 1.2)), (0, (6.0, 1.5, 1.0, 1.5))


class Style(NamedTuple):
    """width: of the line; ours is the boldest. hollow: markers with white inside."""

    colour: str
    marker: str
    dash: Dash = "-"
    width: float = 1.2
    hollow: bool = False


STYLES: dict[str, Style] = {
    "ssbc": Style("#D55E00", "o", "-", 2.8),
    "ssbc-paper": Style("#000000", "o", DASHED, 1.8, hollow=True),
    "mdsh": Style("#0072B2", "s"),
    "lsh": Style("#009E73", "^", MIXED),
    "sh": Style("#CC79A7", "D", DOTTED),
    "exact_d": Style("#E69F00", "v"),
    "exact_r": Style("#7F7F7F", "v", DASHED, hollow=True),
    "itq": Style("#56B4E9", "P"),
    "lsbc": Style("#8C564B", "X", MIXED),
    "spherical": Style("#B8A000", "h", DOTTED),
    "osh": Style("#6A3D9A", ">", DASHED),
    "faiss-itq": Style("#56B4E9", "P", DASHED, hollow=True),
    "faiss-rabitq": Style("#7F7F7F", "*", DOTTED),
}
PLAIN = Style("#444444", "o")


def look(method: str) -> dict[str, Any]:
    """What matplotlib calls it; variants of ours that only tables show have a plain one."""
    found = STYLES.get(method, PLAIN)
    return {
        "color": found.colour,
        "marker": found.marker,
        "linestyle": found.dash,
        "linewidth": found.width,
        "markersize": 4 + found.width,
        "markerfacecolor": "white" if found.hollow else found.colour,
    }


SIZE = (3.9, 3.0)  # inches of a panel
DASHES: tuple[Dash, ...] = ("-", DASHED, DOTTED, MIXED)
DOTS = (("o", "#000000", "#000000"), ("D", "#0072B2", "white"), ("^", "#D55E00", "#D55E00"))
Line = Sequence[tuple[float, Estimate]]


def key(method: str) -> Any:
    """A short piece of a method's line, for a legend."""
    figure = new(0.55, 0.2)
    axes = figure.add_subplot()
    axes.plot([0, 1, 2], [0, 0, 0], markevery=[1], **look(method))
    axes.set_axis_off()
    return figure


def against_bits(lines: Mapping[str, Line], label: str, name: str, *, wide: bool = False) -> Any:
    """Lines by method; wide: bits on a logarithmic axis."""
    figure, axes = _panel(name)
    draw_lines(axes, lines, wide=wide)
    axes.set_xlabel("length of the codes (bits)")
    axes.set_ylabel(label)
    return figure


def draw_lines(axes: Any, lines: Mapping[str, Line], *, wide: bool = False) -> None:
    """Intervals as bars where there are several seeds. Ours is thick, and under the others."""
    for method, points in lines.items():
        if not points:
            continue
        bits, values = [k for k, _ in points], [value.mean for _, value in points]
        bars = [value.half if value.seeds > 1 else 0.0 for _, value in points]
        axes.errorbar(bits, values, bars, capsize=2, elinewidth=0.9, **look(method))
    axes.set_ylim(0, 1.02)
    ticks = sorted({int(k) for points in lines.values() for k, _ in points})
    if wide and ticks:
        axes.set_xscale("log", base=2)
        some = [k for k in ticks if k & (k - 1) == 0 or k in (ticks[0], ticks[-1])]
        axes.set_xticks(some, [str(k) for k in some], minor=False)
        axes.minorticks_off()


def curves(book: Book, stream: str, methods: Sequence[str], bits: int) -> Any:
    """Precision where each recall is reached, the mean over queries and seeds."""
    figure, axes = _panel(f"precision-recall, {bits} bits")
    for method in methods:
        by_seed = book.get(place(stream, method, bits), {}).values()
        found = [one["curve"][LEVELS[0]] for one in by_seed if "curve" in one]
        if found:
            mean = [sum(values) / len(values) for values in zip(*found, strict=True)]
            axes.plot(RECALLS, mean, markevery=4, **look(method))
    axes.set_xlabel("recall")
    axes.set_ylabel("precision")
    axes.set_xlim(0, 1.02)
    axes.set_ylim(0, 1.02)
    return figure


def diagonal(book: Book, stream: str, methods: Sequence[str], bits: Sequence[int]) -> Any:
    """Precision against recall at the matched radius, one point per length."""
    figure, axes = _panel(title(stream))
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
    for method in methods:
        sides = [dict(series(book, stream, method, m, bits=bits)) for m in (recall, precision)]
        shared = [k for k in sides[0] if k in sides[1]]
        xs, ys = ([side[k].mean for k in shared] for side in sides)
        axes.plot(xs, ys, **{**look(method), "linestyle": ""})
    axes.set_xlabel("recall at the matched radius")
    axes.set_ylabel("precision there")
    axes.set_xlim(0, 1.02)
    axes.set_ylim(0, 1.02)
    return figure


def decay(errors: Mapping[str, Sequence[tuple[float, float]]]) -> Any:
    """Errors against the number of sampled columns, relative to the first, with two guides."""
    figure, axes = _panel("error against sampled columns")
    sizes = [m for m, _ in max(errors.values(), key=len)]
    for power, name in ((1.0, "1 / m"), (0.5, "1 / \u221am")):
        guide = [(sizes[0] / m) ** power for m in sizes]
        axes.plot(sizes, guide, color="#BBBBBB", linewidth=4, zorder=1)
        right = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "size": 9}
        axes.annotate(name, (sizes[-1], guide[-1]), annotation_clip=False, **right)
    for number, (name, points) in enumerate(errors.items()):
        form = {"marker": "osDv^<>"[number % 7], "linestyle": DASHES[number % 4], "markersize": 4}
        relative = [error / points[0][1] for _, error in points]
        xs = [m for m, _ in points]
        axes.plot(xs, relative, color="#222222", linewidth=1, label=name, **form)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(m) for m in sizes])
    axes.set_yticks([1, 0.3, 0.1, 0.03], ["1", "0.3", "0.1", "0.03"])
    axes.minorticks_off()
    axes.set_xlabel("m (columns of W)")
    axes.set_ylabel(f"error, 1 at m = {sizes[0]}")
    axes.legend(fontsize=8, frameon=False, loc="lower left")
    return figure


def dots(rows: Sequence[str], marks: Mapping[str, Sequence[Estimate | None]], name: str) -> Any:
    """One line per row, one marker per name: what one thing changes, side by side."""
    figure = new(SIZE[0] * 1.5, 1.3 + 0.32 * len(rows))
    axes = figure.add_subplot()
    for number, (label, values) in enumerate(marks.items()):
        marker, colour, inside = DOTS[number]
        apart = 0.18 * (number - (len(marks) - 1) / 2)  # so that bars do not hide each other
        known = [(value, row + apart) for row, value in enumerate(values) if value is not None]
        bars = [value.half if value.seeds > 1 else 0.0 for value, _ in known]
        form = {"marker": marker, "color": colour, "mfc": inside, "markersize": 7}
        at = [[value.mean for value, _ in known], [row for _, row in known]]
        axes.errorbar(*at, xerr=bars, label=label, linestyle="", **form)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    means = [value.mean for values in marks.values() for value in values if value is not None]
    axes.set_xlim(max(0.0, min(means, default=0.1) - 0.1), 1.01)
    axes.set_xlabel("MAP at sigma_30")
    axes.set_title(name, loc="left", size=10.5, weight="bold")
    _bare(axes)
    figure.legend(loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return figure


def headline(book: Book, streams: Sequence[str], methods: Sequence[str]) -> Any:
    """One picture for a README: MAP against bits, one panel per data set."""
    columns = min(3, len(streams))
    rows = -(-len(streams) // columns)
    figure = new(4.0 * columns, 3.0 * rows + 0.5)
    for number, stream in enumerate(streams):
        axes = figure.add_subplot(rows, columns, number + 1)
        lines = {m: series(book, stream, m, mean_average_precision) for m in methods}
        draw_lines(axes, lines, wide=True)
        axes.set_title(title(stream), loc="left", size=11, weight="bold")
        axes.set_xlabel("length of the codes (bits)")
        axes.set_ylabel("MAP at sigma_30")
        _bare(axes)
    keys = {CONTESTANTS[m].title: figure.axes[0].plot([], [], **look(m))[0] for m in methods}
    figure.legend(
        keys.values(), keys.keys(), loc="outside lower center", ncols=6, fontsize=9, frameon=False
    )
    return figure


def _panel(name: str) -> tuple[Any, Any]:
    figure = new(*SIZE)
    axes = figure.add_subplot()
    axes.set_title(name, loc="left", size=10.5, weight="bold")
    _bare(axes)
    return figure, axes


def _bare(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E6E6E6", linewidth=0.7)
    axes.set_axisbelow(True)


def check(path: Path) -> None:
    """Raise now what writing a picture to `path` would raise later."""
    _figure_class()
    check_writable(path)


def new(width: float, height: float) -> Any:
    """An empty figure, in inches."""
    return _figure_class()(figsize=(width, height), facecolor="white", layout="constrained")


def as_svg(figure: Any) -> bytes:
    """The same bytes every time: no date, no random names."""
    from matplotlib import rc_context  # noqa: PLC0415 - an extra

    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "streambits", "svg.fonttype": "path"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def write(figure: Any, path: Path) -> None:
    """As PNG, under another name first: a crash leaves an old picture whole."""
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=DPI)


def _figure_class() -> Any:
    """Figures that draw to files only, and leave the user's matplotlib settings alone."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("matplotlib", "paper") from None
    return Figure
