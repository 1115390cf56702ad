"""What the claims compare: each function gives the comparisons of one claim for one method."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from paper.contestants import CONTESTANTS, LEVELS
from paper.measure import Cell
from paper.radii import RECALLS
from paper.summary import (
    Book,
    Figures,
    Metric,
    bits_of,
    estimate,
    exact_streams,
    false_positives,
    mean_average_precision,
    paper_streams,
    place,
    precision,
    recall,
    title,
    values,
)
from paper.theory.runs import Proof
from paper.verdicts import Comparison, Lead, at, compare, difference

RIVALS = ("mdsh", "lsh", "sh")
EXACT = ("exact_d", "exact_r")
PAPER_BITS = range(20, 51, 5)
FEW = 0.5  # "very few" false positives: less than this part of a rival's
DROP = 0.05  # of precision, that still counts as "does not increase" of mistakes
NEAR = 0.1  # of precision and recall, that still counts as "almost 45 degrees"


class Evidence(NamedTuple):
    """book: all results; proofs: of the theory."""

    book: Book
    proofs: Sequence[Proof] = ()


Compare = Callable[[Evidence, str], list[Comparison]]


def paper_bits(book: Book, stream: str) -> list[int]:
    """The paper's code lengths, as far as they were measured."""
    return [bits for bits in bits_of(book, stream) if bits in PAPER_BITS]


def ahead(metric: Metric, lead: Lead = difference) -> Compare:
    """Of each rival on every stream of the paper's figures, at every length."""

    def found(evidence: Evidence, method: str) -> list[Comparison]:
        cells = _cells(evidence.book, paper_streams(evidence.book), method)
        return [c for cell in cells for c in _rivals(evidence.book, cell, RIVALS, metric, lead)]

    return found


few_mistakes = ahead(false_positives, lambda mine, other: FEW * other - mine)


def edge(evidence: Evidence, method: str) -> list[Comparison]:
    """For each data set and figure, the smallest lead over the best rival at any length."""
    found = []
    for metric, name in ((precision, "precision"), (recall, "recall")):
        for stream in paper_streams(evidence.book):
            cells = _cells(evidence.book, [stream], method)
            edges = [one for cell in cells for one in _ranked(evidence.book, cell, metric, 1)]
            if edges:
                worst = min(edges, key=lambda one: one.lead.mean)
                labels = {"data": title(stream), "figure": name}
                found.append(worst._replace(labels=labels))
    return found


def several(evidence: Evidence, method: str) -> list[Comparison]:
    """MAP above the second best rival, and so above two, at each level."""
    cells = _cells(evidence.book, paper_streams(evidence.book), method, LEVELS)
    metric = mean_average_precision
    return [one for cell in cells for one in _ranked(evidence.book, cell, metric, 2)]


def superior(evidence: Evidence, method: str) -> list[Comparison]:
    """MAP above the methods with eigenfunctions, at each level."""
    cells = _cells(evidence.book, paper_streams(evidence.book), method, LEVELS)
    rivals, metric = ("mdsh", "sh"), mean_average_precision
    return [c for cell in cells for c in _rivals(evidence.book, cell, rivals, metric)]


def above_exact(evidence: Evidence, method: str) -> list[Comparison]:
    """MAP and recall above both exact methods, on few rows."""
    cells = list(_cells(evidence.book, exact_streams(evidence.book), method))
    return [
        one._replace(labels={**one.labels, "figure": name})
        for metric, name in ((mean_average_precision, "MAP"), (recall, "recall"))
        for cell in cells
        for one in _rivals(evidence.book, cell, EXACT, metric)
    ]


def sample_helps(evidence: Evidence, method: str) -> list[Comparison]:
    """MAP above the exact method that rounds in the same way."""
    cells = _cells(evidence.book, exact_streams(evidence.book), method)
    metric = mean_average_precision
    return [c for cell in cells for c in _rivals(evidence.book, cell, EXACT[:1], metric)]


def suited(evidence: Evidence, method: str) -> list[Comparison]:
    """MAP on Uniform above that of random projections."""
    cells = _cells(evidence.book, ["uniform"], method)
    metric = mean_average_precision
    return [c for cell in cells for c in _rivals(evidence.book, cell, ("lsh",), metric)]


def diagonal(evidence: Evidence, method: str) -> list[Comparison]:
    """Precision and recall at the matched radius near each other."""
    return _within(evidence, method, precision, recall, lambda one, other: NEAR - abs(one - other))


def flat(evidence: Evidence, method: str) -> list[Comparison]:
    """Precision at a high recall hardly below that at a low one."""
    late, early = precision_at(0.9), precision_at(0.1)
    return _within(evidence, method, late, early, lambda late, early: late - early + DROP)


def _within(
    evidence: Evidence, method: str, one: Metric, other: Metric, lead: Lead
) -> list[Comparison]:
    """One metric of a method against another, on the paper's streams."""
    return [
        found
        for cell in _cells(evidence.book, paper_streams(evidence.book), method)
        for found in compare(
            evidence.book, _labels(cell), at(cell, one), at(cell, other), lead=lead
        )
    ]


def precision_at(share: float) -> Metric:
    """The precision where that recall is reached, as a metric."""

    def found(figures: Figures, level: str) -> float:
        return float(figures["curve"][level][RECALLS.index(share)])

    return found


def settings(one: str, other: str, lead: Lead = difference) -> Compare:
    """A method's MAP in one setting against that in another, wherever both were measured."""

    def found(evidence: Evidence, method: str) -> list[Comparison]:
        metric = mean_average_precision
        return [
            result
            for cell in evidence.book
            if (cell.method, cell.setting) == (method, one)
            for result in compare(
                evidence.book,
                _labels(cell, order=f"{cell.order} stream"),
                at(cell, metric),
                at(cell._replace(setting=other), metric),
                lead=lead,
            )
        ]

    return found


def _cells(
    book: Book, streams: Sequence[str], method: str, levels: Sequence[str] = LEVELS[:1]
) -> Iterator[Cell]:
    """Where a method is compared; without a kernel the same cell serves all levels."""
    for stream in streams:
        for bits in paper_bits(book, stream):
            for level in levels:
                yield Cell(stream, method, bits, level=level)


def _labels(cell: Cell, **more: str) -> dict[str, str]:
    where = {"data": title(cell.stream), "length": f"{cell.bits} bits", "level": cell.level}
    return where | more


def _rivals(
    book: Book, cell: Cell, rivals: Sequence[str], metric: Metric, lead: Lead = difference
) -> list[Comparison]:
    """A method against each rival."""
    found = []
    for rival in rivals:
        mine, other = (
            at(place(cell.stream, name, cell.bits, level=cell.level), metric, cell.level)
            for name in (cell.method, rival)
        )
        labels = _labels(cell, rival=CONTESTANTS[rival].title)
        found += compare(book, labels, mine, other, lead=lead)
    return found


def _ranked(book: Book, cell: Cell, metric: Metric, rank: int) -> list[Comparison]:
    """A method against the rank-th best of the rivals, seed by seed."""
    sides = [
        values(book, place(cell.stream, n, cell.bits, level=cell.level), metric, cell.level)
        for n in (cell.method, *RIVALS)
    ]
    seeds = [seed for seed in sides[0] if all(seed in side for side in sides)]
    if not seeds:
        return []
    ours = [sides[0][seed] for seed in seeds]
    theirs = [sorted(side[seed] for side in sides[1:])[-rank] for seed in seeds]
    lead = estimate([mine - other for mine, other in zip(ours, theirs, strict=True)])
    return [Comparison(_labels(cell), estimate(ours).mean, estimate(theirs).mean, lead)]
