"""The result of an evaluation: figures by size of code, advice in words, and the tables."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits.evaluation.bits import BitUse

PLAIN, REFINED, PRODUCT = "plain", "refined", "product"
KIND_NAMES = {PLAIN: "sign bits", REFINED: "refined", PRODUCT: "product codes"}
MORE = 0.005  # recall by which codes must be better for advice to name them
MOST_ALONE = 0.5  # share of rows without a landmark near, above which a bandwidth is too small
ALL_NEAR = 0.5  # mean squared affinity above which a bandwidth is too large
USUAL = 10  # candidates per answer that advice prefers: 100 for 10 answers


@dataclass(frozen=True)
class LengthScore:
    """What codes of one length reach.

    Attributes
    ----------
    bits : int
        Number of sign bits; 0 for product codes.
    recall : dict of int to float
        For each number of candidates, the share of the true nearest rows that a search returns if
        it re-ranks that many candidates by true distance. The smallest number is `k`, where
        re-ranking changes nothing.
    map : float
        Mean average precision of ranking all rows by Hamming distance, or without sign bits by
        what codes decode to; the true neighbours of a query are its `k` nearest rows.
    reason : str
        Why there are no codes of this length; empty if there are.
    """

    bits: int
    recall: dict[int, float]
    map: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class BytesScore:
    """What codes of one size reach by themselves, without the rows.

    Attributes
    ----------
    kind : {"plain", "refined", "product"}
        Sign bits alone, searched by Hamming distance; sign bits by which candidates are found, and
        a refinement by which they are ranked; or a product code, by which all rows are ranked.
    bits, refine : int
        Sign bits, and bytes beside them.
    recall : float
        The share of the true `k` nearest rows among the first `k` answers; NaN if there are no
        codes of this size.
    reason : str
        Why there are no such codes; empty if there are.
    """

    kind: str
    bits: int
    refine: int
    recall: float = math.nan
    reason: str = ""

    @property
    def n_bytes(self) -> int:
        """Bytes per row, all that is stored but the id."""
        return -(-self.bits // 8) + self.refine

    @property
    def label(self) -> str:
        """The size in words, such as "64 bits + 8 bytes"."""
        signs = [f"{self.bits} bits"] if self.bits else []
        more = [f"{self.refine} byte{'s' if self.refine > 1 else ''}"] if self.refine else []
        return " + ".join(signs + more)


class Affinities(NamedTuple):
    """Affinities of rows to the landmarks of a kernel.

    Attributes
    ----------
    bandwidth : float
        The denominator b in exp(-distance^2 / b).
    alone : float
        Share of rows without a landmark near.
    mean_square : float
        Mean of the squared affinities, from 0 to 1.
    """

    bandwidth: float
    alone: float
    mean_square: float

    @property
    def advice(self) -> str:
        """What is wrong with the bandwidth, if anything is."""
        if self.alone > MOST_ALONE:
            return (
                f"At bandwidth {self.bandwidth:.4g} most rows have no landmark near them, so codes "
                f"cannot tell what is near: learn with a larger bandwidth."
            )
        if self.mean_square > ALL_NEAR:
            return (
                f"At bandwidth {self.bandwidth:.4g} nearly all affinities are close to 1, so codes "
                f"cannot tell near from far: learn with a smaller bandwidth."
            )
        return ""


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
    itself : BytesScore, optional
        The codes of the model in the first answers: by their refinement where they have one.
    sizes : tuple of BytesScore
        The same for other kinds and sizes of codes that learned the same rows, and the model
        itself: recall against bytes per row.
    affinities : Affinities, optional
        Of a model with a Gaussian kernel: whether its bandwidth suits the rows.
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
    itself: BytesScore | None = None
    sizes: tuple[BytesScore, ...] = ()
    affinities: Affinities | None = None

    @property
    def candidates(self) -> tuple[int, ...]:
        """The numbers of candidates that recall was measured with; `k` is the first."""
        return tuple(self.model.recall)

    @property
    def advice(self) -> str:
        """What the figures mean, in a few sentences."""
        parts = self._on_model(), self._on_length(), self._on_bytes(), self._on_bits()
        bandwidth = "" if self.affinities is None else self.affinities.advice
        return " ".join(filter(None, (*parts, bandwidth)))

    def _on_model(self) -> str:
        found = self._enough(self.model)
        name = f"{self.model.bits} bits"
        if not self.model.bits and self.itself is not None:
            name = f"Product codes of {self.itself.label}"
        if found is None:
            most, reached = list(self.model.recall.items())[-1]
            return (
                f"{name} reach a recall of {reached:.2f} after re-ranking {most} "
                f"candidates, less than {self.target:g}."
            )
        how = "without re-ranking" if found == self.k else f"after re-ranking {found}"
        return f"{name} reach {self.target:g} {how}."

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

    def _on_bytes(self) -> str:
        """The best codes of as many bytes as those of the model."""
        own = self.itself
        if own is None:
            return ""
        rivals = [one for one in self.sizes if one.n_bytes == own.n_bytes and not one.reason]
        said = f"Without the rows, {own.label} find {own.recall:.2f} of the {self.k} nearest"
        signs = max((one for one in rivals if one.bits), key=lambda one: one.recall, default=own)
        scans = max((one.recall for one in rivals if one.kind == PRODUCT), default=0.0)
        others = []
        if signs.recall > own.recall + MORE and own.bits:
            others.append(f"{signs.label} would find {signs.recall:.2f}")
        elif len(rivals) > 1 and own.kind == REFINED:
            said += f", the best split of {own.n_bytes} bytes that was tried"
        if scans > max(own.recall, signs.recall) + MORE:
            others.append(f"product codes, by a scan of all of them, {scans:.2f}")
        if not others:
            return f"{said}."
        return f"{said}; in the same {own.n_bytes} bytes {', and '.join(others)}."

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
            "itself": None if self.itself is None else _sized(self.itself),
            "sizes": [_sized(one) for one in self.sizes],
            "bits": {**_numbers(self.use._asdict()), "balance": self.balance.tolist()},
            "affinities": self.affinities and self.affinities._asdict(),
            "advice": self.advice,
        }


def _plain(score: LengthScore) -> dict[str, Any]:
    recall = {str(n): reached for n, reached in score.recall.items()}
    if score.reason:
        return {"bits": score.bits, "reason": score.reason}
    return {"bits": score.bits, "map": score.map, "recall": recall}


def _sized(score: BytesScore) -> dict[str, Any]:
    size = {"kind": score.kind, "bytes": score.n_bytes, "bits": score.bits, "refine": score.refine}
    return size | ({"reason": score.reason} if score.reason else {"recall": score.recall})


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
        size = f"{_sign_bytes(found, one)}"
        if one.reason:
            yield (str(one.bits), size, *["-"] * (1 + len(found.candidates)))
        else:
            figures = (one.map, *one.recall.values())
            yield (str(one.bits), size, *(f"{value:.3f}" for value in figures))


def _sign_bytes(found: Evaluation, one: LengthScore) -> int:
    """Bytes of the bits that were compared; of codes without bits, all bytes."""
    if one.bits or found.itself is None:
        return -(-one.bits // 8)
    return found.itself.n_bytes


def best_by_bytes(found: Evaluation, kind: str) -> dict[int, BytesScore]:
    """The best codes of a kind for each number of bytes, ascending."""
    scores = [one for one in found.sizes if one.kind == kind and not one.reason]
    ascending = sorted(scores, key=lambda one: (one.n_bytes, one.recall))
    return {one.n_bytes: one for one in ascending}


def bytes_rows(found: Evaluation) -> Iterator[tuple[str, ...]]:
    """The table of recall against bytes as text; its headings are `KIND_NAMES`.

    Parameters
    ----------
    found : Evaluation
        What to show.

    Yields
    ------
    tuple of str
        Bytes per row, and the recall of each kind of codes in the first answers, of refined ones
        with the best split; dashes where there are no such codes.
    """
    best = {kind: best_by_bytes(found, kind) for kind in KIND_NAMES}
    for size in sorted(set().union(*best.values())):
        cells = [best[kind].get(size) for kind in KIND_NAMES]
        yield (str(size), *("-" if one is None else _recall(one) for one in cells))


def _recall(one: BytesScore) -> str:
    return f"{one.recall:.3f}" + (f" ({one.label})" if one.kind == REFINED else "")


def headings(found: Evaluation) -> list[str]:
    """The headings of the columns of `table_rows`."""
    return ["bits", "bytes", "MAP", *(candidates_label(n, found.k) for n in found.candidates)]


def candidates_label(count: int, k: int) -> str:
    """A short name of recall with that many candidates for k answers."""
    return f"first {k}" if count == k else f"re-rank {count}"
