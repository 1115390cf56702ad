"""From comparisons to a verdict, by one rule for all claims.

A comparison is decided where the 95 % interval of its lead leaves out 0; with one seed there is
no interval, and the sign decides. A claim *holds* if it is ahead in every comparison. It *holds
with a condition* if that is so on a part that can be named (some data sets, rivals, code lengths,
...) and makes up at least half of the comparisons. Otherwise it *does not hold*.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from paper.contestants import LEVELS
from paper.measure import Cell
from paper.summary import Book, Estimate, Metric, estimate, values

HOLDS, PARTLY, FAILS, OPEN = (
    "holds",
    "holds with a condition",
    "does not hold",
    "not measured",
)
PART = 0.5  # of the comparisons, that a condition must leave
WHERE = {"data": "on", "rival": "against", "length": "at", "level": "at", "order": "on a"}
Labels = Mapping[str, str]
Lead = Callable[[float, float], float]


class Comparison(NamedTuple):
    """labels: where, as {axis: value}; ours, theirs: what is compared; lead: above 0 is ahead."""

    labels: Labels
    ours: float
    theirs: float
    lead: Estimate

    @property
    def outcome(self) -> int:
        """1 ahead, -1 behind, 0 undecided."""
        unsure = 0.0 if self.lead.seeds == 1 else self.lead.half
        return int(self.lead.mean > unsure) - int(self.lead.mean < -unsure)

    def __str__(self) -> str:
        where = ", ".join(self.labels.values())
        return f"{where}: {_number(self.ours)} against {_number(self.theirs)}"


def difference(ours: float, theirs: float) -> float:
    """The usual lead."""
    return ours - theirs


class Verdict(NamedTuple):
    """word: one of the four; condition: where it holds, if not everywhere."""

    word: str
    condition: str = ""


def compare(
    book: Book,
    labels: Labels,
    ours: tuple[Cell, Metric, str],
    theirs: tuple[Cell, Metric, str],
    *,
    lead: Lead = difference,
) -> list[Comparison]:
    """One comparison, seed by seed: both saw the same rows. Empty where a side is missing."""
    mine, other = values(book, *ours), values(book, *theirs)
    seeds = [seed for seed in mine if seed in other]
    if not seeds:
        return []
    mean, their_mean = (estimate([side[s] for s in seeds]).mean for side in (mine, other))
    leads = estimate([lead(mine[seed], other[seed]) for seed in seeds])
    return [Comparison(labels, mean, their_mean, leads)]


def at(cell: Cell, metric: Metric, level: str = LEVELS[0]) -> tuple[Cell, Metric, str]:
    """One side of a comparison."""
    return cell, metric, level


def judge(comparisons: Sequence[Comparison]) -> Verdict:
    """The verdict on a claim that says: ahead everywhere."""
    if not comparisons:
        return Verdict(OPEN)
    if all(one.outcome > 0 for one in comparisons):
        return Verdict(HOLDS)
    axis, part = max(
        ((axis, _where_ahead(comparisons, axis)) for axis in _axes(comparisons)),
        key=lambda found: _share(comparisons, *found),
    )
    if _share(comparisons, axis, part) >= PART:
        return Verdict(PARTLY, f"only {WHERE.get(axis, 'for')} {', '.join(part)}")
    return Verdict(FAILS)


def tell(comparisons: Sequence[Comparison]) -> str:
    """What was measured, in a few sentences."""
    ahead, level, behind = (sum(one.outcome == sign for one in comparisons) for sign in (1, 0, -1))
    undecided = f", undecided in {level}" if level else ""
    count = f"Met in {ahead} of {len(comparisons)}{undecided}, missed in {behind}."
    known = [_varied(comparisons, one) for one in comparisons]
    best = max(known, key=lambda one: one.lead.mean)
    worst = min(known, key=lambda one: one.lead.mean)
    return f"{count} Best: {best}. Worst: {worst}." if len(known) > 1 else f"{count} {best}."


def _varied(comparisons: Sequence[Comparison], one: Comparison) -> Comparison:
    """With the data, and those labels only that are not the same everywhere."""
    every = {axis: {c.labels.get(axis) for c in comparisons} for axis in one.labels}
    labels = {a: v for a, v in one.labels.items() if a == "data" or len(every[a]) > 1}
    return one._replace(labels=labels)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _axes(comparisons: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(axis for one in comparisons for axis in one.labels))


def _where_ahead(comparisons: Sequence[Comparison], axis: str) -> list[str]:
    """The values of an axis at which every comparison is ahead."""
    lost = {one.labels.get(axis) for one in comparisons if one.outcome <= 0}
    every = dict.fromkeys(one.labels[axis] for one in comparisons if axis in one.labels)
    return [value for value in every if value not in lost]


def _share(comparisons: Sequence[Comparison], axis: str, part: list[str]) -> float:
    return sum(one.labels.get(axis) in part for one in comparisons) / len(comparisons)
