"""Why a row cannot be used, in words. Empty text: it can."""

import math
from typing import Any

from streambits._arrays import LARGEST


class BadRowError(Exception):
    """Raised inside a source for a row that becomes a reject; its text is the reason."""


def why_bad(values: Any, width: int | None = None, names: tuple[str, ...] | None = None) -> str:
    """Say what is wrong with the values of a row.

    Parameters
    ----------
    values
        What a file or message has where a list of numbers is expected.
    width
        How many values there should be; None for any number above 0.
    names
        Names of the columns, if they have names.

    Returns
    -------
    str
        The reason in words, or nothing if the row is good.

    Examples
    --------
    >>> why_bad([1.0, None], 2), why_bad([1.0], 2), why_bad([1.0])
    ('value 2 of 2 is missing', 'expected 2 values, got 1', '')
    """
    if not isinstance(values, list):
        missing = values is None
        return "the row is missing" if missing else f"{short(values)} is not a list of numbers"
    count = len(values)
    if not count or width not in (None, count):
        return f"expected {plural(width, 'value') if width else 'values'}, got {count or 'none'}"
    for place, value in enumerate(values):
        wrong = _why_not_a_number(value)
        if wrong:
            name = f"column {names[place]!r}" if names else f"value {place + 1} of {count}"
            return f"{name} is {wrong}"
    return ""


def why_bad_id(value: object, text: bool | None = None) -> str:
    """Say what is wrong with an id, or nothing. text: whether ids are texts; None: of any kind.

    Examples
    --------
    >>> why_bad_id(7), why_bad_id("a"), why_bad_id("a", text=False)
    ('', '', "the id 'a' is not a 64-bit integer")
    >>> why_bad_id(7, text=True)
    'the id 7 is not a text, as those before it are'
    """
    if value is None or value == "":
        return "the id is missing"
    if isinstance(value, str) and text is not False:
        broken = value.encode("utf-8", "replace").decode() != value
        return f"the id {short(value)} has half a character" if broken else ""
    if text:
        return f"the id {short(value)} is not a text, as those before it are"
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return ""
    return f"the id {short(value)} is not a 64-bit integer{' or a text' * (text is None)}"


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 value, 2 values."""
    return f"{count} {noun}{'s' * (count != 1)}"


def _why_not_a_number(value: object) -> str:
    if value is None or value == "":
        return "missing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{short(value)}, which is not a number"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        return "NaN" if number != number else str(number)
    return f"{number}, too large to square: scale the data" if abs(number) >= LARGEST else ""


def short(value: object) -> str:
    """What a message shows of a value."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
