"""What streams and methods are called where people read, and which the paper's figures show."""

from collections.abc import Sequence

from streambits.evaluation.summary import Book, streams_of

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
