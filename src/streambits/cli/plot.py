"""A small plot in text."""

import math
from collections.abc import Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
LEAST = 1e-12  # of the largest: what is below is rounding


def plot(energies: Sequence[float], bits: int, *, width: int = 60, height: int = 5) -> list[str]:
    r"""Energies on a scale of powers of ten, the strongest first, and where the bits end.

    >>> print("\n".join(plot([1.0, 0.1, 0.01, 0.001], 2, height=2)))
        1 |█▃
          |██▆▁
    0.001 +-^--
            2 bits of 4 directions
    """
    shown = [value for value in energies[: 2 * bits] if value > LEAST * energies[0]]
    if not shown:
        return []
    step = -(-len(shown) // width)
    levels = [math.log10(value) for value in shown[::step]]
    low, high = min(levels), max(levels)
    tall = [1 + (8 * height - 1) * (v - low) / ((high - low) or 1) for v in levels]
    labels = [f"{10**high:.3g}", *[""] * (height - 1), f"{10**low:.3g}"]
    wide = max(map(len, labels))
    lines = []
    for row in range(height):
        floor = 8 * (height - 1 - row)
        bars = "".join(BLOCKS[min(8, max(0, round(value - floor)))] for value in tall)
        lines.append(f"{labels[row]:>{wide}} |{bars.rstrip()}")
    place = min((bits - 1) // step, len(levels) - 1)
    axis = "-" * place + "^" + "-" * (len(levels) - place - 1)
    lines.append(f"{labels[-1]:>{wide}} +{axis}")
    lines.append(f"{'':{wide}}  {'':{place}}{bits} bits of {len(energies)} directions")
    return lines
