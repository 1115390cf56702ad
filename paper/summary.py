"""From results to numbers with an interval: the mean over seeds and its 95 % interval.

A `Book` has the figures of every cell by its seeds. Everything here reads a book and changes
nothing.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from paper.contestants import CONTESTANTS, LEVELS
from paper.measure import STREAMS, Cell
from paper.runs import Result

Figures = Mapping[str, Any]
Book = Mapping[Cell, Mapping[int, Figures]]  # by cell, its seed set to 0, and by seed
Metric = Callable[[Figures, str], float]
SURE = 0.95
TITLES = {
    "uniform": "Uniform",
    "covtype": "Covtype",
    "cbm": "CBM",
    "pamap2": "PAMAP2",
    "dsads": "DSADS",
    "sift": "SIFT",
    "mnist": "MNIST",
    "digits": "Digits",
}
FIGURES = ("pamap2", "cbm", "uniform", "covtype")  # the paper's Figures 1 to 4, in its order
EXACT = ("cbm small", "pamap2 small")  # its Figure 5
INSTEAD = {"pamap2": "dsads", "pamap2 small": "dsads small"}  # where PAMAP2 is not here


class Estimate(NamedTuple):
    """half: half the width of the 95 % interval of the mean, NaN from one seed."""

    mean: float
    half: float
    seeds: int

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def __format__(self, spec: str) -> str:
        """With three decimals; '+' shows the sign."""
        return f"{self.mean:{spec}.3f}" + (f" ± {self.half:.3f}" if self.seeds > 1 else "")

    def __str__(self) -> str:
        return format(self, "")


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of values, one a seed, and its interval by Student's t.

    >>> str(estimate([0.5, 0.6, 0.7]))
    '0.600 ± 0.248'
    """
    count = len(values)
    if count < 2:
        return Estimate(float(values[0]), math.nan, 1)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    return Estimate(
        float(np.mean(values)), float(stdtrit(count - 1, (1 + SURE) / 2)) * error, count
    )


def collect(results: Iterable[Result]) -> Book:
    """The figures of all results by cell and seed."""
    book: dict[Cell, dict[int, Figures]] = {}
    for cell, figures, _ in results:
        book.setdefault(cell._replace(seed=0), {})[cell.seed] = figures
    return book


def place(
    stream: str,
    method: str,
    bits: int,
    *,
    level: str = LEVELS[0],
    setting: str = "end",
    order: str = "shuffled",
) -> Cell:
    """The cell in which a method is measured at a level: one for all levels without a kernel."""
    kernel = CONTESTANTS[method].kernel
    return Cell(stream, method, bits, 0, order, level if kernel else LEVELS[0], setting)


def precision(figures: Figures, level: str) -> float:
    """True rows among those within the matched radius, of all queries together."""
    return float(figures["matched"][level]["pooled_precision"])


def recall(figures: Figures, level: str) -> float:
    """Those within the matched radius among all true rows, of all queries together."""
    return float(figures["matched"][level]["pooled_recall"])


def false_positives(figures: Figures, level: str) -> float:
    """Rows within the matched radius that are not true, a query."""
    found = figures["matched"][level]
    return float(found["returned"] * (1 - found["pooled_precision"]))


def mean_average_precision(figures: Figures, level: str) -> float:
    """By Hamming distance, or by the method's own distance where that ranks better."""
    return float(max(figures["map"][level], figures.get("own", {}).get(level, 0.0)))


def asymmetric(figures: Figures, level: str) -> float:
    """MAP with a real-valued query."""
    return float(figures["asymmetric"][level])


def values(book: Book, cell: Cell, metric: Metric, level: str = LEVELS[0]) -> dict[int, float]:
    """A figure of a cell by seed, without the seeds that do not have it."""
    found = {}
    for seed, figures in sorted(book.get(cell, {}).items()):
        try:
            value = metric(figures, level)
        except KeyError:
            continue
        if not math.isnan(value):
            found[seed] = value
    return found


def summarise(book: Book, cell: Cell, metric: Metric, level: str = LEVELS[0]) -> Estimate | None:
    """Mean and interval of a figure of a cell; None if there is none."""
    found = values(book, cell, metric, level)
    return estimate(list(found.values())) if found else None


def series(
    book: Book,
    stream: str,
    method: str,
    metric: Metric,
    *,
    level: str = LEVELS[0],
    bits: Sequence[int] | None = None,
) -> list[tuple[int, Estimate]]:
    """A figure against bits, where it was measured; bits: all lengths unless some are named."""
    lengths = bits_of(book, stream) if bits is None else bits
    cells = {k: place(stream, method, k, level=level) for k in lengths}
    found = ((k, summarise(book, cell, metric, level)) for k, cell in cells.items())
    return [(k, value) for k, value in found if value is not None]


def bits_of(book: Book, stream: str, *, setting: str = "end") -> list[int]:
    """All code lengths that were measured on a stream."""
    return sorted({c.bits for c in book if c.stream == stream and c.setting == setting})


def streams_of(book: Book) -> list[str]:
    """All streams that were measured."""
    here = {cell.stream for cell in book}
    return [stream for stream in STREAMS if stream in here]


def reasons(book: Book) -> dict[str, list[Cell]]:
    """Why cells have no figures, and which."""
    found: dict[str, list[Cell]] = {}
    for cell, by_seed in book.items():
        for figures in by_seed.values():
            if "reason" in figures:
                found.setdefault(str(figures["reason"]), []).append(cell)
                break
    return found


def title(stream: str) -> str:
    """A stream's name for people."""
    name, _, small = stream.partition(" ")
    return TITLES[name] + (" (few rows)" if small else "")


def paper_streams(book: Book) -> list[str]:
    """The streams of Figures 1 to 4 that were measured, DSADS where PAMAP2 was not."""
    return _with_stand_ins(book, FIGURES)


def exact_streams(book: Book) -> list[str]:
    """The streams of Figure 5, likewise."""
    return _with_stand_ins(book, EXACT)


def _with_stand_ins(book: Book, wanted: Sequence[str]) -> list[str]:
    here = streams_of(book)
    found = (name if name in here else INSTEAD.get(name, "") for name in wanted)
    return [name for name in found if name in here]
