"""What is wrong with a bad row, in words. Empty text: nothing is."""

import math
from typing import Any

from streambits._arrays import LARGEST


def fault(values: Any, width: int | None = None, names: tuple[str, ...] | None = None) -> str:
    """What is wrong with the numbers of a row. width: how many there should be, None for any.

    >>> fault([1.0, None], 2), fault([1.0], 2), fault([1.0])
    ('number 2 of 2 is missing', '1 number, where 2 belong', '')
    """
    if not isinstance(values, list):
        return "the row is missing" if values is None else f"{_short(values)} is no list of numbers"
    count = len(values)
    if not count or width not in (None, count):
        return f"{count} number{'s' * (count != 1)}, where {width or 'some'} belong"
    for place, value in enumerate(values):
        wrong = _wrong(value)
        if wrong:
            name = f"column {names[place]!r}" if names else f"number {place + 1} of {count}"
            return f"{name} is {wrong}"
    return ""


def id_fault(value: object) -> str:
    """What is wrong with an id.

    >>> id_fault(7), id_fault(0.5)
    ('', 'the id 0.5 is no whole number of 64 bits')
    """
    if value is None or value == "":
        return "the id is missing"
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return ""
    return f"the id {_short(value)} is no whole number of 64 bits"


def _wrong(value: object) -> str:
    if value is None or value == "":
        return "missing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{_short(value)}, which is no number"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        return "NaN" if number != number else str(number)
    return f"{number}, too large to square: scale the data" if abs(number) >= LARGEST else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
