"""Rows beyond the reach of a codebook, by some components at a scale of their own.

Such a code begins with the byte 255; the second byte is the scale, and the bits of the others, from
the lowest of the third on, are the components, each in as many bits as it has. All sums are in one
order, row by row, so a row does not depend on the others of its batch.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from streambits.kernels import compiled
from streambits.kernels.bits import add_halves

FAR, FIRST = 255, 16  # the first byte of such a code, and where the bits of components begin
ZERO, STEPS = 128, 8  # the byte of scale 1, and scales per doubling


class FarBooks(NamedTuple):
    """Components that far rows are encoded by.

    centre: (d,); axes: (components, d), orthonormal; reach: (components,) how large each may be, as
    a multiple of the scale; widths: (components,) int64, bits of each; unit: scale of the byte 128.
    """

    centre: Any
    axes: Any
    reach: Any
    widths: Any
    unit: Any


class DecodedParts(NamedTuple):
    """What codes say of rows.

    residuals: (n, d), what bits left over; axes: (d, a); values: (n, a), what bytes say of that.
    """

    residuals: Any
    axes: Any
    values: Any


@compiled
def subtract(rows: Any, origin: Any, packed: Any, tables: Any, out: Any) -> Any:
    """Write rows less the origin and less what their half bytes say; gives their lengths.

    rows, out: (n, d) float64; packed: (n, bytes) uint8; tables: (2 * bytes, 16, d).
    """
    out[:] = 0.0
    add_halves(packed, tables, out)
    lengths = np.empty(len(rows))
    for i in range(len(rows)):
        total = 0.0
        for j in range(rows.shape[1]):
            out[i, j] = (rows[i, j] - origin[j]) - out[i, j]
            total += out[i, j] * out[i, j]
        lengths[i] = math.sqrt(total)
    return lengths


@compiled
def _scale(byte: int, unit: float) -> Any:
    return unit * 2.0 ** ((byte - ZERO) / STEPS)


@compiled
def far_components(code: Any, books: Any, out: Any) -> None:
    """Write the components (components,) that a far code stands for."""
    scale, at = _scale(code[1], books.unit), FIRST
    for c in range(len(books.widths)):
        level, most = np.int64(0), (1 << (books.widths[c] - 1)) - 1
        for bit in range(books.widths[c]):
            level |= np.int64(code[at >> 3] >> np.uint8(at & 7) & np.uint8(1)) << bit
            at += 1
        out[c] = scale * books.reach[c] * (level - most) / most


@compiled
def _write(components: Any, byte: int, books: Any, code: Any) -> None:
    """Write the far code that comes nearest to components, at the scale of a byte."""
    scale, at = _scale(byte, books.unit), FIRST
    code[:] = 0
    code[0], code[1] = FAR, byte
    for c in range(len(books.widths)):
        most = (1 << (books.widths[c] - 1)) - 1
        value = np.rint(components[c] / (scale * books.reach[c]) * most)
        level = np.int64(min(max(value, -float(most)), float(most))) + most
        for bit in range(books.widths[c]):
            code[at >> 3] |= np.uint8((level >> bit & 1) << (at & 7))
            at += 1


@compiled
def _project(row: Any, books: Any, out: Any) -> Any:
    """Components of a row; gives the byte of the smallest scale that holds them."""
    most = 0.0
    for c in range(len(books.axes)):
        out[c] = 0.0
        for j in range(len(row)):
            out[c] += (row[j] - books.centre[j]) * books.axes[c, j]
        most = max(most, abs(out[c]) / books.reach[c])
    if most <= 0.0:
        return 0
    return min(max(ZERO + math.ceil(STEPS * math.log2(most / books.unit)), 0), FAR)


@compiled
def encode_far(rows: Any, told: Any, books: Any, codes: Any) -> None:
    """Replace codes whose rows are nearer to what components of theirs stand for.

    rows: (n, d) float64; told: DecodedParts; books: FarBooks; codes: (n, bytes) uint8.
    """
    found, code = np.empty(len(books.axes)), np.empty(codes.shape[1], np.uint8)
    for i in range(len(rows)):
        _write(found, _project(rows[i], books, found), books, code)
        far_components(code, books, found)
        near, far = 0.0, 0.0
        for j in range(rows.shape[1]):
            left, there = told.residuals[i, j], books.centre[j]
            for a in range(told.values.shape[1]):
                left -= told.axes[j, a] * told.values[i, a]
            for c in range(len(found)):
                there += found[c] * books.axes[c, j]
            near += left * left
            far += (rows[i, j] - there) * (rows[i, j] - there)
        if far < near:
            codes[i] = code


@compiled
def decode_far(codes: Any, books: Any, out: Any) -> None:
    """Write the rows (n, d) that far codes (n, bytes) stand for."""
    found = np.empty(len(books.axes))
    for i in range(len(codes)):
        far_components(codes[i], books, found)
        for j in range(out.shape[1]):
            out[i, j] = books.centre[j]
        for c in range(len(found)):
            for j in range(out.shape[1]):
                out[i, j] += found[c] * books.axes[c, j]
