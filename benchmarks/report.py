"""The table and the figure of `python -m benchmarks`, drawn from results that are plain JSON.

python -m benchmarks --json results.json    # measure
python -m benchmarks --from results.json    # draw again, without measuring
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.timer import Ratio, Timing, figures

COLOURS = {  # of Okabe and Ito, which colour-blind readers can tell apart
    "scikit-learn": "#0072B2",
    "FAISS": "#D55E00",
    "NumPy": "#999999",
    "streambits": "#009E73",
    "host": "#CC79A7",
    "torch": "#E69F00",
}


@dataclass(frozen=True)
class Line:
    """One work of ours beside one of a rival, in the same rounds.

    Attributes
    ----------
    what : str
        The work, with its shape.
    rival : str
        What it is compared with; its first word is in COLOURS.
    ours, theirs : list of float
        Seconds of a unit in each round. Of a coder, "theirs" is the time of learning one row.
    unit : {"row", "query", "coder"}
    bar : float, optional
        What the ratio must reach: times as fast or, for coders, at most so many rows of learning.
    rate : float, optional
        Units per second that ours must reach.
    note : str
        What else was measured.
    """

    what: str
    rival: str
    ours: list[float]
    theirs: list[float]
    unit: str = "row"
    bar: float | None = None
    rate: float | None = None
    note: str = ""

    @classmethod
    def of(cls, what: str, rival: str, ours: Timing, theirs: Timing, **more: Any) -> Self:
        """The line of two timings per unit."""
        return cls(what, rival, ours.rounds.tolist(), theirs.rounds.tolist(), **more)

    @property
    def is_cost(self) -> bool:
        """Whether less is better."""
        return self.unit == "coder"

    @property
    def ratio(self) -> Ratio:
        """Times as fast as the rival; of a coder, rows that are learned in its time."""
        ours, theirs = Timing(np.array(self.ours)), Timing(np.array(self.theirs))
        return ours.over(theirs) if self.is_cost else theirs.over(ours)

    @property
    def measured(self) -> str:
        """Our own speed."""
        best = min(self.ours)
        if self.unit == "row":
            fast = f"{figures(1 / best / 1e6)} million" if best <= 1e-6 else figures(1 / best)
            return f"{fast} rows/s"
        return f"{figures(best * 1e3)} ms"

    @property
    def wanted(self) -> str:
        """The bar, as the table shows it."""
        if self.rate is not None:
            return f">= {figures(self.rate / 1e6)} million rows/s"
        if self.bar is None:
            return ""
        return f"<= {self.bar:,.0f} rows" if self.is_cost else f">= {self.bar:.3g}"

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None without one."""
        if self.rate is not None:
            return 1 / min(self.ours) >= self.rate
        if self.bar is None:
            return None
        return self.ratio.median <= self.bar if self.is_cost else self.ratio.median >= self.bar


def rows_of(lines: Sequence[Line]) -> list[list[str]]:
    """The cells of the table, the heading first."""
    heading = ["what", "measured", "against", "ratio (quartiles)", "bar", "met"]
    met = {True: "yes", False: "no", None: ""}
    cells = [
        [
            line.what + (f"; {line.note}" if line.note else ""),
            line.measured,
            line.rival,
            f"{line.ratio}{' rows' if line.is_cost else ''}",
            line.wanted,
            met[line.met],
        ]
        for line in lines
    ]
    return [heading, *cells]


def plain(table: list[list[str]]) -> str:
    """A table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in table]
    return "\n".join(line.rstrip() for line in lines)


def markdown(table: list[list[str]]) -> str:
    """A table for a page."""
    heading, *rows = ("| " + " | ".join(row) + " |" for row in table)
    return "\n".join([heading, "|" + "---|" * len(table[0]), *rows])


def placed(page: str, name: str, text: str) -> str:
    """The page with `text` between its marks `<!-- name -->` and `<!-- end -->`."""
    marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    found, count = marks.subn(lambda match: f"{match[1]}{text}\n{match[2]}", page)
    if count != 1:
        raise ValueError(f"the page has {count} places <!-- {name} -->: it must have one")
    return found


def draw(lines: Sequence[Line], path: Path) -> None:
    """The figure: times as fast as each rival, and what coders cost in rows of learning."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - measuring does not need it

    told = {
        "times as fast as the rival (right of 1: streambits is faster)": [
            line for line in lines if not line.is_cost
        ],
        "time of coder(), in rows that are learned in that time (less is better)": [
            line for line in lines if line.is_cost
        ],
    }
    panels = {label: those for label, those in told.items() if those}
    figure = Figure(figsize=(10, 1.8 + 0.31 * len(lines)), layout="constrained")
    heights = [len(those) + 2 for those in panels.values()]
    axes = figure.subplots(len(panels), squeeze=False, height_ratios=heights).ravel()
    for one, (label, those) in zip(axes, panels.items(), strict=True):
        _bars(one, those, label)
    _legend(figure, {line.rival.split()[0] for line in lines})
    figure.savefig(path, dpi=110)


def _bars(axes: Any, lines: Sequence[Line], label: str) -> None:
    """A bar for each line, from 1 or, for costs, from the left; quartiles, and what to reach."""
    places = np.arange(len(lines))
    ratios = np.array([line.ratio for line in lines]).reshape(-1, 3)
    costs = lines[0].is_cost
    least = min([ratios.min(), *(line.bar for line in lines if line.bar is not None)])
    start = 0.7 * least if costs else 1.0
    axes.barh(
        places,
        ratios[:, 0] - start,
        left=start,
        color=[COLOURS[line.rival.split()[0]] for line in lines],
        height=0.7,
    )
    axes.hlines(places, ratios[:, 1], ratios[:, 2], color="black", linewidth=1.2)
    for place, line in zip(places, lines, strict=True):
        if line.bar is not None:
            axes.plot([line.bar] * 2, [place - 0.42, place + 0.42], color="black", linewidth=2.5)
        axes.annotate(
            figures(line.ratio.median),
            (1.01, place),
            xycoords=axes.get_yaxis_transform(),  # a column of figures right of the panel
            va="center",
            fontsize=8,
        )
    axes.set_yticks(places, [f"{line.what}  /  {line.rival}" for line in lines], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.margins(x=0.05)
    if costs:
        axes.set_xlim(left=start)
    else:
        axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel(label, fontsize=9)


def _legend(figure: Any, families: set[str]) -> None:
    """Above all panels: the colours of the rivals, and the mark of a bar."""
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    keys = [Patch(color=COLOURS[name], label=name) for name in COLOURS if name in families]
    bar = Line2D([], [], color="black", linewidth=2.5, label="to be reached")
    figure.legend(handles=[*keys, bar], loc="outside upper center", ncols=6, fontsize=8)


def as_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Raw results."""
    return [asdict(line) for line in lines]


def from_json(found: list[dict[str, Any]]) -> list[Line]:
    """Lines of raw results."""
    return [Line(**each) for each in found]
