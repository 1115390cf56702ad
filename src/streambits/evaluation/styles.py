"""How a method looks: the same colour, marker and dashes in every figure.

The colours are mostly Okabe and Ito's, which colour-blind readers tell apart; markers and dashes
tell the methods apart without any.
"""

from typing import Any, NamedTuple

Dash = str | tuple[int, tuple[float, ...]]
DASHED, DOTTED, MIXED = (0, (4.0, 2.0)), (0, (1.2, 1.2)), (0, (6.0, 1.5, 1.0, 1.5))


class Style(NamedTuple):
    """width: of the line; ours is the boldest. hollow: markers with white inside."""

    colour: str
    marker: str
    dash: Dash = "-"
    width: float = 1.2
    hollow: bool = False


STYLES: dict[str, Style] = {
    "ssbc": Style("#D55E00", "o", "-", 2.8),
    "ssbc-paper": Style("#000000", "o", DASHED, 1.8, hollow=True),
    "mdsh": Style("#0072B2", "s"),
    "lsh": Style("#009E73", "^", MIXED),
    "sh": Style("#CC79A7", "D", DOTTED),
    "exact_d": Style("#E69F00", "v"),
    "exact_r": Style("#7F7F7F", "v", DASHED, hollow=True),
    "itq": Style("#56B4E9", "P"),
    "lsbc": Style("#8C564B", "X", MIXED),
    "spherical": Style("#B8A000", "h", DOTTED),
    "osh": Style("#6A3D9A", ">", DASHED),
    "faiss-itq": Style("#56B4E9", "P", DASHED, hollow=True),
    "faiss-rabitq": Style("#7F7F7F", "*", DOTTED),
}
PLAIN = Style("#444444", "o")


def look(method: str) -> dict[str, Any]:
    """What matplotlib calls it; variants of ours that only tables show have a plain one."""
    found = STYLES.get(method, PLAIN)
    return {
        "color": found.colour,
        "marker": found.marker,
        "linestyle": found.dash,
        "linewidth": found.width,
        "markersize": 4 + found.width,
        "markerfacecolor": "white" if found.hollow else found.colour,
    }
