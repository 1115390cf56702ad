"""The theory's part of the report: tables and a figure of what was measured."""

from collections.abc import Iterator, Sequence

from paper.report import plots
from paper.report.html import Markup, figure, image, table, tag
from paper.summary import TITLES
from paper.theory.runs import Proof


def theory_section(proofs: Sequence[Proof]) -> Markup:
    """All tables; W are the affinities of n rows, Ŵ m of its columns, B a sketch of l rows."""
    if not proofs:
        return tag("p", "No results for it here.")
    errors = {
        TITLES[p.data]: [(at["m"], at["error"]) for at in p.figures["sampling"]] for p in proofs
    }
    drawn = image(plots.as_svg(plots.decay(errors)), "Error of a sample of m columns of W")
    caption = (
        "||W² - Ŵ Ŵ'|| for m columns of W drawn uniformly, the mean of 5 draws, against that for "
        "the smallest m. The "
        "grey bands fall as 1 / m, which Lemma 2 needs, and as 1 / √m."
    )
    return tag(
        "div",
        tag(
            "p",
            "W holds the Gaussian affinities of n rows of a stream, with the bandwidth of its "
            "landmarks; Ŵ are m of its columns, B the sketch of l rows.",
        ),
        _columns(proofs),
        figure([drawn], caption),
        _sampling(proofs),
        _sketching(proofs),
        _theorem(proofs),
    )


def _columns(proofs: Sequence[Proof]) -> Markup:
    head = ["data", "n", "C_max / C_min", "C_max / mean", "too close", "alone", "rank of W"]
    rows = (
        [
            TITLES[proof.data],
            f"{at['n']:,}",
            f"{at['ratio']:,.1f}",
            f"{at['coherence']:.2f}",
            f"{at['duplicates']:.1%}",
            f"{at['alone']:.1%}",
            f"{at['rank']:.1f}",
        ]
        for proof in proofs
        for at in proof.figures["columns"]
    )
    caption = (
        "Lemma 1: squared norms C of the columns of W; the share of rows with another one below "
        "the sparsity distance, and without any near; n² / ||W||_F²."
    )
    return table(head, rows, caption)


def _sampling(proofs: Sequence[Proof]) -> Markup:
    head = ["data", "m", "error", "worst of 5", "bound", "of no columns"]
    rows = _rows(proofs, "sampling", ("m", "error", "worst", "bound", "nothing"))
    caption = (
        "Lemma 2: ||W² - Ŵ Ŵ'|| / ||W||_F²; the bound by Bernstein's inequality (95 %); an error "
        "near that of no columns at all says nothing."
    )
    return table(head, rows, caption)


def _sketching(proofs: Sequence[Proof]) -> Markup:
    head = ["data", "l", "error", "certificate", "bound by the tail", "1 / l"]
    rows = _rows(proofs, "sketching", ("size", "error", "certificate", "tail", "flat"))
    caption = (
        "Frequent Directions: ||Ŵ'Ŵ - B'B|| / ||Ŵ||_F², the certificate known while running, and "
        "the two bounds of theory."
    )
    return table(head, rows, caption)


def _theorem(proofs: Sequence[Proof]) -> Markup:
    head = ["data", "m", "l", "condition", "factor", "as printed", "mended", "its bound", "2 / l"]
    names = ("m", "size", "condition", "factor", "printed", "mended", "bound")
    rows = [[*row, f"{2 / int(row[2]):.3g}"] for row in _rows(proofs, "theorem", names)]
    caption = (
        "Lemma 3 and Theorem 1: ||Ŵ|| ||Ŵ⁺||, which the proof takes for 1; ||Ŵ D Ŵ⁺|| / ||D||; "
        "||W² - Ŵ B'B Ŵ⁺|| / ||W||_F² as printed; with the orthogonal factor of Ŵ in place of Ŵ, "
        "for which the proof holds, and its bound; the theorem's epsilon. No factor where l ≥ m."
    )
    return table(head, rows, caption)


def _rows(proofs: Sequence[Proof], name: str, keys: Sequence[str]) -> Iterator[list[str]]:
    for proof in proofs:
        for at in proof.figures[name]:
            lost = name == "theorem" and at["size"] >= at["m"]
            yield [
                TITLES[proof.data],
                *("\u2013" if lost and key == "factor" else _number(at[key]) for key in keys),
            ]


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3g}"
