"""The result of an evaluation: figures by length of code, advice in words, and the table."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits.evaluation.bits import BitUse

USUAL = 10  # candidates per answer that advice prefers: 100 for 10 answers


@dataclass(frozen=True)
class LengthScore:
    """What codes of one length reach.

    Attributes
    ----------
    bits : int
        Length of the codes.
    recall : dict of int to float
        For each number of candidates, the share of the true nearest rows that a search returns if
        it re-ranks that many candidates by true distance. The smallest number is `k`, where
        re-ranking changes nothing.
    map : float
        Mean average precision of ranking all rows by Hamming distance; the true neighbours of a
        query are its `k` nearest rows.
    reason : str
        Why there are no codes of this length; empty if there are.
    """

    bits: int
    recall: dict[int, float]
    map: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`.

    Attributes
    ----------
    model : LengthScore
        What the codes of the model itself reach.
    lengths : tuple of LengthScore
        The same for other lengths, by models of the same method and settings that learned the
        same rows; the model itself stands at its own length.
    k : int
        Number of nearest rows that are sought.
    target : float
        The recall that `advice` aims at.
    rows, queries, columns : int
        Size of the database that was searched, number of queries, and their width.
    use : BitUse
        Balance and correlation of the model's bits in four numbers; zero is best.
    balance : ndarray of shape (bits,)
        Share of rows that have each bit set; one half carries most information.
    correlation : ndarray of shape (bits, bits)
        Correlation of each two bits; NaN for bits that are the same in all rows.
    """

    model: LengthScore
    lengths: tuple[LengthScore, ...]
    k: int
    target: float
    rows: int
    queries: int
    columns: int
    use: BitUse
    balance: NDArray[np.float64]
    correlation: NDArray[np.float64]

    @property
    def candidates(self) -> tuple[int, ...]:
        """The numbers of candidates that recall was measured with; `k` is the first."""
        return tuple(self.model.recall)

    @property
    def advice(self) -> str:
        """What the figures mean, in two or three sentences."""
        return " ".join(filter(None, (self._on_model(), self._on_length(), self._on_bits())))

    def _on_model(self) -> str:
        found = self._enough(self.model)
        if found is None:
            most, reached = list(self.model.recall.items())[-1]
            return (
                f"{self.model.bits} bits reach a recall of {reached:.2f} after re-ranking {most} "
                f"candidates, less than {self.target:g}."
            )
        how = "without re-ranking" if found == self.k else f"after re-ranking {found}"
        return f"{self.model.bits} bits reach {self.target:g} {how}."

    def _on_length(self) -> str:
        """The shortest other length that reaches the target with the usual number, or with any."""
        others = [one for one in self.lengths if one.recall and one.bits != self.model.bits]
        enough, usual = self._enough(self.model), self._usual
        for most in (usual, self.candidates[-1]):
            fit = [one for one in others if one.recall[most] >= self.target]
            if fit and (enough is None or enough > most or fit[0].bits < self.model.bits):
                return f"{fit[0].bits} bits would reach {self.target:g} after re-ranking {most}."
            if enough is not None and enough <= most:
                return ""
        if not others:
            return ""
        best = max(others, key=lambda one: one.recall[self.candidates[-1]])
        return (
            f"No other length up to {others[-1].bits} bits reaches it; the best is {best.bits} "
            f"bits with {best.recall[self.candidates[-1]]:.2f}. More landmarks or `tune` may help."
        )

    def _on_bits(self) -> str:
        if not self.use.constant:
            return ""
        return (
            f"{self.use.constant} of the {self.model.bits} bits are the same for all rows and "
            "carry nothing: a shorter code would do as well."
        )

    @property
    def _usual(self) -> int:
        return min(USUAL * self.k, self.candidates[-1])

    def _enough(self, score: LengthScore) -> int | None:
        """The smallest number of candidates with which the target is reached."""
        return next((n for n, reached in score.recall.items() if reached >= self.target), None)

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain values, for JSON."""
        return {
            "k": self.k,
            "rows": self.rows,
            "queries": self.queries,
            "columns": self.columns,
            "target": self.target,
            "model": _plain(self.model),
            "lengths": [_plain(one) for one in self.lengths],
            "bits": {**_numbers(self.use._asdict()), "balance": self.balance.tolist()},
            "advice": self.advice,
        }


def _plain(score: LengthScore) -> dict[str, Any]:
    recall = {str(n): reached for n, reached in score.recall.items()}
    if score.reason:
        return {"bits": score.bits, "reason": score.reason}
    return {"bits": score.bits, "map": score.map, "recall": recall}


def _numbers(values: dict[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def table_rows(found: Evaluation) -> Iterator[tuple[str, ...]]:
    """The table of lengths as text.

    Parameters
    ----------
    found : Evaluation
        What to show.

    Yields
    ------
    tuple of str
        Bits, bytes, MAP, and recall by number of candidates; dashes for a length without codes.
    """
    for one in found.lengths or (found.model,):
        size = f"{-(-one.bits // 8)}"
        if one.reason:
            yield (str(one.bits), size, *["-"] * (1 + len(found.candidates)))
        else:
            figures = (one.map, *one.recall.values())
            yield (str(one.bits), size, *(f"{value:.3f}" for value in figures))


def headings(found: Evaluation) -> list[str]:
    """The headings of the columns of `table_rows`."""
    return ["bits", "bytes", "MAP", *(candidates_label(n, found.k) for n in found.candidates)]


def candidates_label(count: int, k: int) -> str:
    """A short name of recall with that many candidates for k answers."""
    return f"first {k}" if count == k else f"re-rank {count}"
