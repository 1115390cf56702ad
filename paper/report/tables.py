"""Tables of results, as rows of text: for the page and for Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from paper.contestants import CONTESTANTS
from paper.measure import Cell
from paper.summary import (
    Book,
    Figures,
    mean_average_precision,
    place,
    streams_of,
    summarise,
    title,
)
from paper.verdicts import at, compare

SUMMARY_BITS = (32, 64)
BEYOND = (
    "ssbc",
    "ssbc-paper",
    "mdsh",
    "lsh",
    "sh",
    "itq",
    "lsbc",
    "spherical",
    "osh",
    "faiss-itq",
    "faiss-rabitq",
)
PARTS = (
    "ssbc",
    "no-centring",
    "no-whitening",
    "no-rotation",
    "random-rotation",
    "fd-1",
    "fd-8",
    "ssbc-paper",
    "ssbc-literal",
)
REFUSED, NOT_RUN = "refused", "\u2013"


class Sheet(NamedTuple):
    """A table: its caption, the head row and the others."""

    caption: str
    head: list[str]
    rows: list[list[str]]


def summary_tables(book: Book) -> list[Sheet]:
    """MAP by method and data set, one table per length."""
    return [
        found
        for bits in SUMMARY_BITS
        if (found := by_method(book, BEYOND, bits, f"MAP at sigma_30, {bits} bits")) is not None
    ]


def ablation(book: Book) -> Sheet | None:
    """MAP of ours, and the difference without each of its parts, seed by seed."""
    return by_method(book, PARTS, 32, "MAP at sigma_30, 32 bits", versus="ssbc")


def by_method(
    book: Book, methods: Sequence[str], bits: int, caption: str, *, versus: str = ""
) -> Sheet | None:
    """One line per method, one column per stream on which more than two of them were measured.

    versus: the method to which all others give their difference.
    """
    columns = {}
    for stream in streams_of(book):
        cells = {method: place(stream, method, bits) for method in methods}
        if sum(cell in book for cell in cells.values()) > 2:
            columns[stream] = _column(book, cells, versus)
    known = [m for m in methods if any(column[m] != NOT_RUN for column in columns.values())]
    rows = [[CONTESTANTS[m].title, *(column[m] for column in columns.values())] for m in known]
    return Sheet(caption, ["method", *map(title, columns)], rows) if rows else None


def _column(book: Book, cells: Mapping[str, Cell], versus: str) -> dict[str, str]:
    found = {m: summarise(book, cell, mean_average_precision) for m, cell in cells.items()}
    best = max((value.mean for value in found.values() if value is not None), default=0.0)
    texts = {}
    for method, value in found.items():
        if value is None:
            texts[method] = REFUSED if cells[method] in book else NOT_RUN
        elif versus and method != versus:
            texts[method] = _difference(book, cells[method], cells[versus])
        else:
            texts[method] = f"**{value}**" if value.mean == best and not versus else str(value)
    return texts


def _difference(book: Book, cell: Cell, base: Cell) -> str:
    sides = at(cell, mean_average_precision), at(base, mean_average_precision)
    found = compare(book, {}, *sides)
    return f"{found[0].lead:+}" if found else NOT_RUN


def markdown(tables: Iterable[Sheet]) -> str:
    """The tables for a README."""
    parts = []
    for caption, head, rows in tables:
        lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
        parts += [f"{caption}:", "", *(f"| {' | '.join(line)} |" for line in lines), ""]
    return "\n".join(parts)


def costs(book: Book, methods: Sequence[str], streams: Sequence[str], bits: int) -> Sheet:
    """Seconds to learn from a stream and to encode it, on one core."""
    timed: Callable[..., float] = lambda figures, _: (  # noqa: E731
        figures["seconds"]["learn"] + figures["seconds"]["encode"]
    )
    rows = []
    for method in methods:
        cells = [place(stream, method, bits) for stream in streams]
        found = [summarise(book, cell, timed) for cell in cells]
        texts = [NOT_RUN if value is None else f"{value.mean:.2f} s" for value in found]
        rows.append([CONTESTANTS[method].title, *texts])
    return Sheet(f"{bits} bits, one core", ["method", *map(title, streams)], rows)


HEADER = (
    f"{'data':12} {'bits':>4} {'method':36} {'MAP':>6} {'10@100':>6} {'asym.':>6} {'own':>6} "
    f"{'learn s':>8} {'encode s':>8} {'coder MB':>8}"
)


def line(cell: Cell, figures: Figures) -> str:
    """A cell as a line of text, below `HEADER`, that no other cell has.

    MAP at sigma_30 and recall of the 10 nearest in the first 100, both in expectation over ties;
    MAP with a real-valued query, and by the method's own distance where it has one; times and the
    megabytes of a coder; or the reason why there are no figures.
    """
    usual = Cell(cell.stream, cell.method, cell.bits)
    apart = [one for one, plain in zip(cell, usual, strict=True) if one != plain]
    more = [f"seed {one}" if isinstance(one, int) else str(one) for one in apart]
    head = f"{cell.stream:12} {cell.bits:4} {', '.join([cell.method, *more]):36}"
    if "reason" in figures:
        return f"{head} n/a: {figures['reason']}"
    maps = (figures.get(name, {}).get(cell.level) for name in ("map", "asymmetric", "own"))
    first, real, own = ("" if value is None else f"{value:.3f}" for value in maps)
    recall = f"{figures['recall']['100']:.3f}"
    seconds, size = figures["seconds"], figures.get("bytes", {}).get("coder")
    megabytes = "" if size is None else f"{size / 1e6:.2f}"
    return (
        f"{head} {first:>6} {recall:>6} {real:>6} {own:>6} "
        f"{seconds['learn']:8.2f} {seconds['encode']:8.2f} {megabytes:>8}"
    )
