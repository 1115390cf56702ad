"""Every method on every data set, in one table.

    python -m streambits.evaluation.methods [--data uniform sift] [--bits 32 64] [--methods ssbc]

MAP at sigma_30 of the landmarks and recall of the 10 nearest in the first 100, both in expectation
over ties; MAP with a real-valued query (asymmetric) and by the method's own distance where it has
one; times; bytes of a coder. What a method cannot do says why.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from streambits.errors import MissingExtraError, StreambitsError
from streambits.evaluation import datasets, truth
from streambits.evaluation.metrics import Quality, quality
from streambits.features import nearest
from streambits.methods import METHODS
from streambits.model.codes import Codes
from streambits.scoring import Asymmetric, scorer

FAISS = ("lsh", "itq", "rabitq", "pq")
FAISS_TRAIN = 5000  # rows of the stream that FAISS's own methods are trained on


class Board(NamedTuple):
    """A stream, its landmarks and what there is to find in it."""

    name: str
    train: Any
    rows: Any
    truth: truth.Truth


class Cell(NamedTuple):
    """One method on one data set; reason says why there are no figures."""

    data: str
    bits: int
    method: str
    map: float | None = None
    recall: float | None = None
    asymmetric: float | None = None
    own: float | None = None
    learn: float | None = None
    encode: float | None = None
    nbytes: int | None = None
    reason: str = ""


def board(name: str, *, queries: int = 1000, seed: int = 0) -> Board:
    """The data set with the paper's numbers of landmarks and rows."""
    train, rows = datasets.stream(name, *datasets.SIZES[name], seed=seed)
    places = truth.draw_queries(queries, len(rows), seed=seed)
    return Board(name, train, rows, truth.find(rows, places, nearest(30).distance(train)))


def measure(board: Board, method: str, bits: int, *, seed: int = 0) -> Cell:
    """One of our methods."""
    cell, declared = Cell(board.name, bits, method), METHODS[method]
    landmarks, columns = board.train.shape
    reason = declared.refusal(bits, landmarks=landmarks, columns=columns, rows=len(board.rows))
    if reason:
        return cell._replace(reason=reason)
    try:
        learner, learn = _timed(
            lambda: declared(board.train, bits, seed=seed).learn(board.rows).coder()
        )
    except StreambitsError as error:
        return cell._replace(reason=str(error))
    codes, encode = _timed(lambda: learner.encode(board.rows))
    found = quality(board.truth, lambda some: codes[some].hamming(codes))
    score = Asymmetric(learner, board.train)
    real = quality(board.truth, lambda some: score.distances(board.rows[some], codes))
    own = None
    if declared.distance != "hamming":
        own = _by(scorer(declared.distance, learner), board, codes).map
    return cell._replace(
        **found._asdict(),
        asymmetric=real.map,
        own=own,
        learn=learn,
        encode=encode,
        nbytes=learner.nbytes,
    )


def measure_faiss(board: Board, method: str, bits: int) -> Cell:
    """One of FAISS's own, by its own distances."""
    cell = Cell(board.name, bits, f"faiss {method}")
    try:
        from streambits.interop.faiss import Rival  # noqa: PLC0415 - an extra
    except MissingExtraError as error:
        return cell._replace(reason=str(error))
    some = board.rows[:FAISS_TRAIN]
    reason = Rival.refusal(method, bits, columns=some.shape[1], train=len(some))
    if reason:
        return cell._replace(reason=reason)
    rival, learn = _timed(lambda: Rival(method, some, bits))
    _, encode = _timed(lambda: rival.encode(board.rows))
    found = quality(board.truth, lambda q: rival.distances(board.rows[q], board.rows))
    return cell._replace(**found._asdict(), learn=learn, encode=encode)


def _by(distance: Callable[[Codes, Codes], Any], board: Board, codes: Codes) -> Quality:
    return quality(board.truth, lambda some: distance(codes[some], codes))


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def cells(
    data: list[str], bits: list[int], methods: list[str], *, queries: int, seed: int
) -> Iterator[Cell]:
    """The table, a cell at a time; `faiss ...` names FAISS's own."""
    for name in data:
        on = board(name, queries=queries, seed=seed)
        for length in bits:
            for method in methods:
                if method.startswith("faiss "):
                    yield measure_faiss(on, method.removeprefix("faiss "), length)
                else:
                    yield measure(on, method, length, seed=seed)


def line(cell: Cell) -> str:
    """A cell as a line of text."""
    head = f"{cell.data:8} {cell.bits:4} {cell.method:16}"
    if cell.reason:
        return f"{head} n/a: {cell.reason}"
    scores = (cell.map, cell.recall, cell.asymmetric, cell.own)
    shown = " ".join(f"{'' if s is None else format(s, '.3f'):>6}" for s in scores)
    size = "" if cell.nbytes is None else f"{cell.nbytes / 1e6:.2f}"
    return f"{head} {shown} {cell.learn:8.2f} {cell.encode:8.2f} {size:>8}"


HEADER = (
    f"{'data':8} {'bits':>4} {'method':16} {'MAP':>6} {'10@100':>6} {'asym.':>6} {'own':>6} "
    f"{'learn s':>8} {'encode s':>8} {'coder MB':>8}"
)
EVERY = (*METHODS, *(f"faiss {name}" for name in FAISS))


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or JSON lines."""
    parser = argparse.ArgumentParser(prog="streambits.evaluation.methods", description=__doc__)
    parser.add_argument(
        "--data", nargs="+", choices=list(datasets.SIZES), default=list(datasets.SIZES)
    )
    parser.add_argument("--bits", nargs="+", type=int, default=[32, 64])
    parser.add_argument("--methods", nargs="+", choices=EVERY, default=list(EVERY), metavar="NAME")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args(arguments)
    missing = [name for name in options.data if not datasets.available(name)]
    data = [name for name in options.data if name not in missing]
    write = sys.stdout.write
    if not options.json:
        write(HEADER + "\n")
    for name in missing:
        sys.stderr.write(f"{name}: its file is not in the folder that STREAMBITS_DATA names\n")
    for cell in cells(
        data, options.bits, options.methods, queries=options.queries, seed=options.seed
    ):
        write((json.dumps(cell._asdict()) if options.json else line(cell)) + "\n")
        sys.stdout.flush()
    return 0 if data else 1


if __name__ == "__main__":
    sys.exit(main())
