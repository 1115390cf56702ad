"""Codes decoded where they lie, and their distances from queries."""

from typing import Any, NamedTuple


class Decoder(NamedTuple):
    """What codes stand for, in coordinates of few columns (`Refinement.decoder`).

    signs: (halves, 16, columns) what the bits of each half byte of a code add together;
    starts: (groups + 1,) int64, where the axes of each group begin, which are the first columns;
    centres: (256 * axes,) the centres of a group one after the other, those of group g from
    256 * starts[g] on, each of starts[g + 1] - starts[g] values.
    """

    signs: Any
    starts: Any
    centres: Any
