"""The three formats of official files: tables of text, idx and fvecs.

What does not fit is a `StorageError` that names the file and the line or vector.
"""

import itertools
import math
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from paper.datasets.archives import Member
from streambits.errors import StorageError


def numbers(
    file: Member, columns: int, separator: str | None = None, *, gaps: bool = False
) -> NDArray[np.float64]:
    """(n, columns) of a text file, a row a line; NaN only where gaps are allowed."""
    rows: NDArray[np.float64] = np.empty((0, 0))
    with file.open() as lines:
        try:
            first = lines.readline()
            if first.strip():  # NumPy warns of a file without rows
                every: Any = itertools.chain([first], lines)
                rows = np.loadtxt(every, delimiter=separator, comments=None, ndmin=2)
        except ValueError:
            rows = np.empty((0, 0))
    if rows.shape[1] != columns or not (gaps or np.isfinite(rows).all()):
        _complain(file, columns, separator, gaps)
    return rows


def _complain(file: Member, columns: int, separator: str | None, gaps: bool) -> NoReturn:
    with file.open() as lines:
        for number, line in enumerate(lines, start=1):
            values = line.decode("latin-1").strip().split(separator)
            if len(values) != columns:
                raise StorageError(
                    f"{file.name}, line {number}: {len(values)} values, where {columns} belong"
                )
            for value in values:
                if not _is_number(value, gaps):
                    raise StorageError(f"{file.name}, line {number}: {value!r} is no number")
    raise StorageError(f"{file.name} holds no rows of {columns} numbers")


def _is_number(text: str, gaps: bool) -> bool:
    try:
        return math.isfinite(float(text)) or gaps
    except ValueError:
        return False


def idx(file: Member, axes: int) -> NDArray[np.uint8]:
    """Bytes: two zeros, 8 for the type, the number of axes, their lengths, the values."""
    with file.open() as stream:
        data = stream.read()
    head = 4 + 4 * axes
    if data[:4] != bytes([0, 0, 8, axes]) or len(data) < head:
        raise StorageError(f"{file.name} is no idx file of bytes with {axes} axes")
    lengths = np.frombuffer(data, ">u4", axes, offset=4).astype(np.int64)
    if len(data) != head + lengths.prod():
        raise StorageError(
            f"{file.name} is cut off: {len(data)} bytes, where {head + lengths.prod()} belong"
        )
    return np.frombuffer(data, np.uint8, offset=head).reshape(lengths)


def fvecs(file: Member, columns: int) -> NDArray[np.float32]:
    """(n, columns) vectors in single precision; before each stands how many numbers it has."""
    with file.open() as stream:
        data = stream.read()
    if not data or len(data) % (4 + 4 * columns):
        raise StorageError(f"{file.name} is cut off, or its vectors have not {columns} numbers")
    rows = np.frombuffer(data, "<f4").reshape(-1, 1 + columns)
    wrong = np.flatnonzero(rows[:, 0].view("<i4") != columns)
    if len(wrong):
        raise StorageError(f"{file.name}, vector {wrong[0] + 1}: it has not {columns} numbers")
    return rows[:, 1:].astype(np.float32)
