"""From rows to affinities to packed signs: all that lies between the matrix products.

The products of many rows are left to BLAS, which reaches 97 % of the peak of a core; what is left
is done in one pass each here. For a handful of rows, calling NumPy takes longer than the work does,
so a few rows go from their values to their bits by one call. Each row is computed by itself and in
one order, so its results do not depend on the rows beside it.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from streambits.kernels import compiled

SINGLE = np.float32
LOWEST, LOWEST_DOUBLE = -87.0, -708.0  # exponents below give 0
MAGIC, MAGIC_DOUBLE = 1.5 * 2.0**23, 1.5 * 2.0**52  # added, they leave a number's whole part
LOG2E = 1.4426950408889634
LN2, REST = 0.693359375, -2.12194440e-4  # their sum is log(2); products with the first are exact
LN2_DOUBLE, REST_DOUBLE = 0.693145751953125, 1.42860682030941723212e-6
FINER = 2.0**-29  # double precision, against single
SERIES = tuple(1 / float(np.prod(np.arange(1.0, k + 1))) for k in range(13, -1, -1))


class Landmarks(NamedTuple):
    """Landmarks as compiled code reads them, all in one precision.

    centre: (d,) and scale: rows are taken as row * scale - centre; operand: (d, m), landmarks times
    2 / bandwidth; offsets: (m,), minus their squared lengths / bandwidth; rate: -1 / bandwidth.
    """

    centre: Any
    scale: Any
    operand: Any
    offsets: Any
    rate: Any


class Signs(NamedTuple):
    """What turns features into bits; directions have length one.

    matrix: (m, bits) and thresholds: (bits,) float32; directions: (bits, m) and levels: (bits,),
    the same in double precision; a value errs by at most |features| min(1, flat + steep |x|^2) +
    |features| products + least. A row without an affinity of `reach` is out of reach.
    """

    matrix: Any
    thresholds: Any
    directions: Any
    levels: Any
    flat: float
    steep: float
    products: float
    least: float
    reach: float


class Measured(NamedTuple):
    """values: (n, bits), before thresholds; squared lengths (n,) of relative rows and features."""

    values: Any
    squares: Any
    lengths: Any


class Doubts(NamedTuple):
    """Rows (n, d) with their values (n, bits), errors (n,) of these and packed signs."""

    rows: Any
    values: Any
    errors: Any
    packed: Any


@intrinsic  # type: ignore[untyped-decorator]
def fma(_: Any, left: Any, _right: Any, _more: Any) -> Any:
    """left * right + more, by one instruction where the processor has it."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        product = builder.fmul(*arguments[:2], flags=["contract"])
        return builder.fadd(product, arguments[2], flags=["contract"])

    return left(left, left, left), generate


@intrinsic  # type: ignore[untyped-decorator]
def _plus(_: Any, left: Any, _right: Any) -> Any:
    """left + right, in any order with other such sums: a loop of them becomes one of vectors."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments, flags=["reassoc"])

    return left(left, left), generate


@intrinsic  # type: ignore[untyped-decorator]
def maximum(_: Any, left: Any, _right: Any) -> Any:
    """The larger of two numbers that are not NaN, in a loop of vectors."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        flags = ["nnan", "nsz"]
        larger = builder.fcmp_ordered(">", *arguments, flags=flags)
        return builder.select(larger, *arguments, flags=flags)

    return left(left, left), generate


@intrinsic  # type: ignore[untyped-decorator]
def _times_power(_: Any, value: Any, _shifted: Any) -> Any:
    """value * 2^n for a value near 1 and `shifted` = n + MAGIC: n is added to its exponent."""
    single = value == types.float32
    kind, places = (types.int32, 23) if single else (types.int64, 52)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        whole = context.get_value_type(kind)
        number, shifted = (builder.bitcast(argument, whole) for argument in arguments)
        power = builder.shl(shifted, context.get_constant(kind, places))
        return builder.bitcast(builder.add(number, power), arguments[0].type)

    return value(value, value), generate


@compiled
def _exp(x: Any) -> Any:
    """e^x for x <= 0 in single precision, within 2 units (polynomial of Cephes); 0 below -87."""
    shifted = fma(x, SINGLE(LOG2E), SINGLE(MAGIC))
    n = shifted - SINGLE(MAGIC)
    r = fma(n, SINGLE(-REST), fma(n, SINGLE(-LN2), x))
    p = fma(SINGLE(1.9875691500e-4), r, SINGLE(1.3981999507e-3))
    p = fma(p, r, SINGLE(8.3334519073e-3))
    p = fma(p, r, SINGLE(4.1665795894e-2))
    p = fma(p, r, SINGLE(1.6666665459e-1))
    p = fma(p, r, SINGLE(5.0000001201e-1))
    p = fma(fma(p, r, SINGLE(1)), r, SINGLE(1))
    return _times_power(p, shifted) if x >= SINGLE(LOWEST) else SINGLE(0)


@compiled
def _exp_double(x: Any) -> Any:
    """The same in double precision, by the power series."""
    shifted = fma(x, LOG2E, MAGIC_DOUBLE)
    n = shifted - MAGIC_DOUBLE
    r = fma(n, -REST_DOUBLE, fma(n, -LN2_DOUBLE, x))
    p = SERIES[0]
    for k in range(1, 14):
        p = fma(p, r, SERIES[k])
    return _times_power(p, shifted) if x >= LOWEST_DOUBLE else 0.0


@compiled
def relate(rows: Any, marks: Any, relative: Any, squares: Any) -> None:
    """Write rows relative to the centre, (n, d), and their squared lengths, (n,)."""
    for i in range(rows.shape[0]):
        squares[i] = _relate(rows[i], marks, relative[i])


@compiled
def _relate(row: Any, marks: Any, relative: Any) -> Any:
    for k in range(len(row)):
        relative[k] = row[k] * marks.scale - marks.centre[k]
    square = relative[0] * relative[0]
    for k in range(1, len(row)):
        square = _plus(square, relative[k] * relative[k])
    return square


@compiled
def exponentials(products: Any, squares: Any, marks: Any, lengths: Any) -> None:
    """Make affinities of products (n, m), in place; lengths: (n,), their sums of squares."""
    for i in range(products.shape[0]):
        lengths[i] = _exponentials(products[i], squares[i] * marks.rate, marks.offsets)


@compiled
def _exponentials(row: Any, own: Any, offsets: Any) -> Any:
    total = SINGLE(0)
    for j in range(len(row)):
        value = _exp(min(row[j] + (offsets[j] + own), SINGLE(0)))
        row[j] = value
        total = _plus(total, value * value)
    return total


@compiled
def closest(products: Any, squares: Any, marks: Any, largest: Any) -> None:
    """Write the largest affinity of each row, (n,)."""
    for i in range(products.shape[0]):
        row = products[i]
        exponent = row[0] + marks.offsets[0]
        for j in range(1, products.shape[1]):
            exponent = maximum(exponent, row[j] + marks.offsets[j])
        largest[i] = _exp(min(exponent + squares[i] * marks.rate, SINGLE(0)))


@compiled
def sign(measured: Any, signs: Any, packed: Any, errors: Any) -> None:
    """Pack the signs of values; packed: (n, ceil(bits / 8)) uint8, written.

    errors: (n,) float32, written: bounds of the values where a sign is in doubt, 0 elsewhere.
    """
    flags = np.zeros(8 * packed.shape[1], np.uint8)
    for i in range(packed.shape[0]):
        error = _error(measured.squares[i], measured.lengths[i], signs)
        doubt = _pack(measured.values[i], signs.thresholds, error, flags, packed[i])
        errors[i] = error if doubt else SINGLE(0)


@compiled
def decide_among(doubts: Any, products: Any, squares: Any, signs: Any, exact: Any) -> None:
    """Decide signs in doubt in double precision, and what is in doubt even there row by row.

    products: (n, m) in double precision, of which features are made in place; squares: (n,).
    """
    packed, features = doubts.packed, np.empty(products.shape[1])
    flags = np.zeros(8 * packed.shape[1], np.uint8)
    for i in range(packed.shape[0]):
        error = doubts.errors[i]
        _flag(doubts.values[i], signs.thresholds, error, flags)
        _exponentials_double(products[i], squares[i] * exact.rate, exact.offsets)
        if not _set(products[i], flags, signs, error * FINER, packed[i]):
            _features(doubts.rows[i], exact, features)
            _set(features, flags, signs, -1.0, packed[i])


@compiled
def _error(square: Any, length: Any, signs: Any) -> Any:
    relative = min(1.0, signs.flat + signs.steep * square) + signs.products
    return SINGLE(np.sqrt(length) * relative + signs.least)


@compiled
def _pack(values: Any, thresholds: Any, error: Any, flags: Any, packed: Any) -> bool:
    """Pack signs; returns whether one of them is in doubt.

    flags: uint8, zeros, as many as the packed bits; written.
    """
    doubts = np.int32(0)
    for b in range(len(values)):
        value = values[b] - thresholds[b]
        flags[b] = value > 0
        doubts += np.int32(not abs(value) > error)
    words = flags.view(np.uint64)  # the product moves bit 0 of its byte b to bit b of the last one
    for byte in range(len(packed)):
        packed[byte] = np.uint8((words[byte] * np.uint64(0x0102040810204080)) >> np.uint64(56))
    return bool(doubts)


@compiled
def _flag(values: Any, thresholds: Any, error: Any, flags: Any) -> None:
    """Mark the signs in doubt."""
    for b in range(len(values)):
        flags[b] = not abs(values[b] - thresholds[b]) > error


@compiled
def _set(features: Any, flags: Any, signs: Any, error: Any, packed: Any) -> bool:
    """Set the bits that are marked; returns whether all exceed the error."""
    sure = True
    for b in range(len(signs.levels)):
        if flags[b]:
            value, mask = _value(features, signs, b), np.uint8(1) << np.uint8(b % 8)
            sure &= abs(value) > error
            if value > 0:
                packed[b // 8] |= mask
            else:
                packed[b // 8] &= ~mask
    return sure


@compiled
def decide(rows: Any, signs: Any, exact: Any, bits: Any) -> None:
    """Write all bits (n, bits) of rows, each by itself, in double precision."""
    features = np.empty(len(exact.offsets))
    for i in range(rows.shape[0]):
        _features(rows[i], exact, features)
        for b in range(bits.shape[1]):
            bits[i, b] = _value(features, signs, b) > 0


@compiled
def _value(features: Any, signs: Any, bit: Any) -> Any:
    direction, value = signs.directions[bit], 0.0
    for j in range(len(features)):
        value = _plus(value, features[j] * direction[j])
    return value - signs.levels[bit]


@compiled
def _features(row: Any, exact: Any, features: Any) -> None:
    relative = np.empty(len(row))
    own = _relate(row, exact, relative) * exact.rate
    _multiply(relative, exact.operand, features)
    _exponentials_double(features, own, exact.offsets)


@compiled
def _exponentials_double(row: Any, own: Any, offsets: Any) -> None:
    for j in range(len(row)):
        row[j] = _exp_double(min(row[j] + (offsets[j] + own), 0.0))


@compiled
def _multiply(row: Any, matrix: Any, product: Any) -> None:
    """row @ matrix, four rows of the matrix at a time."""
    product[:] = 0
    whole = len(row) - len(row) % 4
    for k in range(0, whole, 4):
        a, b, c, d = row[k], row[k + 1], row[k + 2], row[k + 3]
        one, two, three, four = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
        for j in range(len(product)):
            more = fma(b, two[j], fma(a, one[j], product[j]))
            product[j] = fma(d, four[j], fma(c, three[j], more))
    for k in range(whole, len(row)):
        a, one = row[k], matrix[k]
        for j in range(len(product)):
            product[j] = fma(a, one[j], product[j])


@compiled
def _largest(features: Any) -> Any:
    largest = features[0]
    for j in range(1, len(features)):
        largest = maximum(largest, features[j])
    return largest


@compiled
def encode(rows: Any, marks: Any, signs: Any, exact: Any, packed: Any) -> bool:
    """Encode a few rows, one by one; False where one is not finite, too long or out of reach."""
    features, relative = np.empty(len(marks.offsets), SINGLE), np.empty(rows.shape[1], SINGLE)
    values, flags = np.empty(len(signs.levels), SINGLE), np.zeros(8 * packed.shape[1], np.uint8)
    doubtful = np.empty(len(exact.offsets))
    for i in range(rows.shape[0]):
        square = _relate(rows[i], marks, relative)
        if not square < np.inf:
            return False
        _multiply(relative, marks.operand, features)
        length = _exponentials(features, square * marks.rate, marks.offsets)
        if _largest(features) < signs.reach:
            return False
        _multiply(features, signs.matrix, values)
        error = _error(square, length, signs)
        if _pack(values, signs.thresholds, error, flags, packed[i]):
            _flag(values, signs.thresholds, error, flags)
            _features(rows[i], exact, doubtful)
            _set(doubtful, flags, signs, -1.0, packed[i])
    return True
