"""Checks of sketches: what `sketches.base.Sketch` promises, one named check per promise.

Every check takes a function that makes an empty sketch, and feature rows (n, width), n >= 10; it
raises an AssertionError that says what was expected. "Up to rounding" is 64 units of the rows'
precision, relative to the squared length of all rows.

The checks of certificates and energies compare the attribute `matrix` (B, or A'A itself in a
`Gram`) with A'A of the rows. They do not apply to a sketch without `matrix`, or whose certificate
is infinite: `UNCERTIFIED` has their names.
"""

import math

import numpy as np
import pytest

from conformance.compare import InapplicableError, checks_in, equal
from streambits._arrays import array_namespace, double, to_numpy
from streambits.errors import MergeError, RankError
from streambits.sketches import Gram

UNITS = 64


def check_sketch_fresh(factory, rows):
    """`fresh` is empty, learns like a new sketch, and has nothing in common with its origin."""
    origin = _of(factory, rows)
    before, fresh = origin.state(), origin.fresh()
    assert fresh.seen == 0
    assert fresh.certificate == 0
    fresh.update(rows)
    assert equal(fresh.state(), before)
    assert equal(origin.state(), before)


def check_sketch_counts(factory, rows):
    """Every row is counted immediately."""
    for count in (1, 2, 5, len(rows)):
        _expect_seen(_of(factory, rows[:count, :]), count)


def check_sketch_mean(factory, rows):
    """The mean of a centred sketch is that of the rows; a raw sketch has zeros."""
    _expect_mean(_of(factory, rows[:3, :], rows[3:, :]), rows)


def check_sketch_certificate(factory, rows):
    """0 <= A'A - B'B <= certificate, up to rounding, at any moment: no rows wait out of sight."""
    sketch, start = factory(), 0
    for stop in (1, 2, 5, rows.shape[0] // 2, rows.shape[0]):
        sketch.update(rows[start:stop, :])
        expect_certified(sketch, rows[:stop, :])
        expect_certified(_of(factory, rows[:stop, :]), rows[:stop, :])
        start = stop


def check_sketch_split(factory, rows):
    """Any split of the rows gives the same count and mean."""
    for split in _splits(factory, rows):
        _expect_seen(split, len(rows))
        _expect_mean(split, rows)


def check_sketch_certificate_of_split(factory, rows):
    """Any split of the rows gives the same B'B, up to rounding and the certificates."""
    whole = _of(factory, rows)
    for split in _splits(factory, rows):
        expect_certified(split, rows)
        expect_certified(whole, rows)
        apart = float(np.abs(np.linalg.eigvalsh(_summary(whole) - _summary(split))).max())
        allowed = max(whole.certificate, split.certificate) + _rounding(rows)
        assert apart <= allowed


def check_sketch_prepare(factory, rows):
    """`prepare` changes nothing, and `absorb` of its result is an update."""
    sketch, whole = factory(), _of(factory, rows)
    before = sketch.state()
    contribution = sketch.prepare(rows)
    assert equal(sketch.state(), before)
    sketch.absorb(contribution)
    assert equal(sketch.state(), whole.state())


def check_sketch_merge(factory, rows):
    """A merged sketch has counted all rows, and their mean; the other stays as it was."""
    left, right = _halves(factory, rows)
    before = right.state()
    left.merge(right)
    _expect_seen(left, len(rows))
    _expect_mean(left, rows)
    assert equal(right.state(), before)


def check_sketch_merge_with_empty(factory, rows):
    """Merging an empty sketch, or into one, adds nothing."""
    for merged in _merged_with_empty(factory, rows):
        _expect_seen(merged, len(rows))
        _expect_mean(merged, rows)


def check_sketch_certificate_of_merge(factory, rows):
    """Merging keeps to the certificates of one pass over all rows, also with an empty sketch."""
    left, right = _halves(factory, rows)
    left.merge(right)
    for merged in (left, *_merged_with_empty(factory, rows)):
        expect_certified(merged, rows)


def check_sketch_merge_refusal(factory, rows):
    """Merging something else is a MergeError and changes nothing."""
    sketch = _of(factory, rows)
    before, other = sketch.state(), Gram(sketch.width + 1)
    with pytest.raises(MergeError):
        sketch.merge(other)
    assert equal(sketch.state(), before)


def check_sketch_copy(factory, rows):
    """A copy is equal, and what happens to one leaves the other as it was."""
    sketch = _of(factory, rows)
    before, copy = sketch.state(), sketch.copy()
    assert equal(copy.state(), before)
    copy.update(rows)
    assert equal(sketch.state(), before)
    grown = copy.state()
    sketch.update(rows[:3, :])
    assert equal(copy.state(), grown)


def check_sketch_state(factory, rows):
    """`from_state(state())` goes on as the original does, to the last bit."""
    sketch = _of(factory, rows[:7, :])
    again = type(sketch).from_state(sketch.state())
    for one in (sketch, again):
        one.update(rows[7:, :])
    _expect_seen(again, sketch.seen)
    assert again.certificate == sketch.certificate
    assert equal(again.state(), sketch.state())
    mine, theirs = sketch.directions(1), again.directions(1)
    assert equal(mine.vectors, theirs.vectors)


def check_sketch_memory(factory, rows):
    """`nbytes` is constant from construction."""
    sketch = factory()
    before = sketch.nbytes
    for start in range(0, len(rows), 10):
        sketch.update(rows[start : start + 10, :])
        assert sketch.nbytes == before


def check_sketch_directions(factory, rows):
    """Directions are orthonormal, strongest first, and reading them changes nothing."""
    sketch = _of(factory, rows)
    before = sketch.state()
    vectors, energies = map(to_numpy, sketch.directions(1, extra=sketch.width))
    assert equal(sketch.state(), before)
    assert vectors.shape == (sketch.width, len(energies))
    away = float(np.abs(vectors.T @ vectors - np.eye(len(energies))).max())
    assert away < 1e-6
    assert (energies[:-1] >= energies[1:]).all()


def check_sketch_energies(factory, rows):
    """An energy is the mean squared length of a row along its direction, by the certificate."""
    sketch = _of(factory, rows)
    _require_certificate(sketch)
    vectors, energies = map(to_numpy, sketch.directions(1, extra=sketch.width))
    true = np.vecdot(vectors.T, vectors.T @ _scatter(sketch, rows))
    apart = float(np.abs(energies * sketch.seen - true).max())
    allowed = sketch.certificate + _rounding(rows)
    assert apart <= allowed


def check_sketch_learns(factory, rows):
    """Rows change the directions of a sketch that learns, and never those of one that does not."""
    different = 2 * array_namespace(rows).flip(rows, axis=1)  # of one column, only energies differ
    sketch, changed = _of(factory, rows), _of(factory, different)
    one, other = (each.directions(1, extra=each.width) for each in (sketch, changed))
    same = equal(one.vectors, other.vectors) and equal(one.energies, other.energies)
    if sketch.learns:
        assert not same
        return
    assert same
    empty, capacity = factory(), sketch.capacity
    assert equal(empty.directions(capacity).vectors, sketch.directions(capacity).vectors)


def check_sketch_rank_error(factory, rows):
    """More directions than the capacity are a RankError."""
    sketch = _of(factory, rows)
    with pytest.raises(RankError):
        sketch.directions(sketch.capacity + 1)


CHECKS = checks_in(globals())
UNCERTIFIED = (
    "check_sketch_certificate",
    "check_sketch_certificate_of_split",
    "check_sketch_certificate_of_merge",
    "check_sketch_energies",
)


def expect_certified(sketch, rows):
    """Expect 0 <= A'A - B'B <= certificate; inapplicable without a bound."""
    _require_certificate(sketch)
    missing = np.linalg.eigvalsh(_scatter(sketch, rows) - _summary(sketch))
    slack = _rounding(rows)
    low, high, most = float(missing[0]), float(missing[-1]), sketch.certificate
    assert low >= -slack
    assert high <= most + slack


def _require_certificate(sketch):
    if not hasattr(sketch, "matrix"):
        raise InapplicableError("the sketch has no matrix to compare with the rows")
    if sketch.certificate == math.inf:
        raise InapplicableError("the certificate is infinite and bounds nothing")


def _expect_seen(sketch, count):
    assert sketch.seen == count


def _expect_mean(sketch, rows):
    mean, wanted = to_numpy(sketch.mean), to_numpy(double(rows)).mean(axis=0)
    fine = not mean.any() or np.allclose(mean, wanted, rtol=1e-4, atol=1e-6)
    assert fine


def _of(factory, *batches):
    sketch = factory()
    for batch in batches:
        sketch.update(batch)
    return sketch


def _splits(factory, rows):
    one_by_one = _of(factory, *(rows[i : i + 1, :] for i in range(len(rows))))
    return _of(factory, rows[:1, :], rows[1:8, :], rows[8:, :]), one_by_one


def _halves(factory, rows):
    middle = rows.shape[0] // 3
    return _of(factory, rows[:middle, :]), _of(factory, rows[middle:, :])


def _merged_with_empty(factory, rows):
    left, right = _of(factory, rows), factory()
    left.merge(factory())
    right.merge(_of(factory, rows))
    return left, right


def _summary(sketch):
    """B'B."""
    matrix = to_numpy(double(sketch.matrix))
    return matrix if isinstance(sketch, Gram) else matrix.T @ matrix


def _scatter(sketch, rows):
    """A'A of the rows, around their mean if the sketch tracks one."""
    exact = to_numpy(double(rows))
    if to_numpy(sketch.mean).any():
        exact = exact - exact.mean(axis=0)
    return exact.T @ exact


def _rounding(rows):
    unit = float(array_namespace(rows).finfo(rows.dtype).eps)
    return UNITS * unit * float(np.sum(to_numpy(double(rows)) ** 2))
