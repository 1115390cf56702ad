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

from conformance.compare import InapplicableError, equal, expect, expect_error
from streambits._arrays import array_namespace, double, to_numpy
from streambits.errors import MergeError, RankError
from streambits.sketches import Gram

UNITS = 64


def check_sketch_fresh(factory, rows):
    """`fresh` is empty, learns like a new sketch, and has nothing in common with its origin."""
    origin = _of(factory, rows)
    before, fresh = origin.state(), origin.fresh()
    expect(fresh.seen == 0, f"expected an empty sketch, and it has seen {fresh.seen} rows")
    expect(fresh.certificate == 0, f"expected certificate 0, got {fresh.certificate}")
    fresh.update(rows)
    expect(equal(fresh.state(), before), "expected a fresh sketch to learn like a new one")
    expect(equal(origin.state(), before), "expected the origin to stay as it was")


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
        expect(apart <= allowed, f"splits differ by {apart:.3g}; expected {allowed:.3g}")


def check_sketch_prepare(factory, rows):
    """`prepare` changes nothing, and `absorb` of its result is an update."""
    sketch, whole = factory(), _of(factory, rows)
    before = sketch.state()
    contribution = sketch.prepare(rows)
    expect(equal(sketch.state(), before), "expected prepare to change nothing")
    sketch.absorb(contribution)
    expect(equal(sketch.state(), whole.state()), "expected prepare and absorb to be an update")


def check_sketch_merge(factory, rows):
    """A merged sketch has counted all rows, and their mean; the other stays as it was."""
    left, right = _halves(factory, rows)
    before = right.state()
    left.merge(right)
    _expect_seen(left, len(rows))
    _expect_mean(left, rows)
    expect(equal(right.state(), before), "expected the merged-in sketch to stay as it was")


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
    expect_error(MergeError, lambda: sketch.merge(other), "merging a sketch of another width")
    expect(equal(sketch.state(), before), "expected a refused merge to change nothing")


def check_sketch_copy(factory, rows):
    """A copy is equal, and what happens to one leaves the other as it was."""
    sketch = _of(factory, rows)
    before, copy = sketch.state(), sketch.copy()
    expect(equal(copy.state(), before), "expected an equal copy")
    copy.update(rows)
    expect(equal(sketch.state(), before), "expected the sketch to stay as it was")
    grown = copy.state()
    sketch.update(rows[:3, :])
    expect(equal(copy.state(), grown), "expected the copy to stay as it was")


def check_sketch_state(factory, rows):
    """`from_state(state())` goes on as the original does, to the last bit."""
    sketch = _of(factory, rows[:7, :])
    again = type(sketch).from_state(sketch.state())
    for one in (sketch, again):
        one.update(rows[7:, :])
    _expect_seen(again, sketch.seen)
    expect(again.certificate == sketch.certificate, "expected the same certificate")
    expect(equal(again.state(), sketch.state()), "expected the restored sketch to go on equal")
    mine, theirs = sketch.directions(1), again.directions(1)
    expect(equal(mine.vectors, theirs.vectors), "expected the same directions")


def check_sketch_memory(factory, rows):
    """`nbytes` is constant from construction."""
    sketch = factory()
    before = sketch.nbytes
    for start in range(0, len(rows), 10):
        sketch.update(rows[start : start + 10, :])
        expect(sketch.nbytes == before, f"expected {before} bytes, found {sketch.nbytes}")


def check_sketch_directions(factory, rows):
    """Directions are orthonormal, strongest first, and reading them changes nothing."""
    sketch = _of(factory, rows)
    before = sketch.state()
    vectors, energies = map(to_numpy, sketch.directions(1, extra=sketch.width))
    expect(equal(sketch.state(), before), "expected reading to change nothing")
    expect(vectors.shape == (sketch.width, len(energies)), f"vectors have shape {vectors.shape}")
    away = float(np.abs(vectors.T @ vectors - np.eye(len(energies))).max())
    expect(away < 1e-6, f"expected orthonormal directions; they are off by {away:.3g}")
    expect((energies[:-1] >= energies[1:]).all(), "expected the strongest direction first")


def check_sketch_energies(factory, rows):
    """An energy is the mean squared length of a row along its direction, by the certificate."""
    sketch = _of(factory, rows)
    _require_certificate(sketch)
    vectors, energies = map(to_numpy, sketch.directions(1, extra=sketch.width))
    true = np.vecdot(vectors.T, vectors.T @ _scatter(sketch, rows))
    apart = float(np.abs(energies * sketch.seen - true).max())
    allowed = sketch.certificate + _rounding(rows)
    expect(apart <= allowed, f"energies are off by {apart:.3g}; expected {allowed:.3g} at most")


def check_sketch_learns(factory, rows):
    """Rows change the directions of a sketch that learns, and never those of one that does not."""
    different = 2 * array_namespace(rows).flip(rows, axis=1)  # of one column, only energies differ
    sketch, changed = _of(factory, rows), _of(factory, different)
    one, other = (each.directions(1, extra=each.width) for each in (sketch, changed))
    same = equal(one.vectors, other.vectors) and equal(one.energies, other.energies)
    if sketch.learns:
        expect(not same, "expected other rows to give other directions, since the sketch learns")
        return
    expect(same, "expected the same directions from all rows, since the sketch does not learn")
    empty, capacity = factory(), sketch.capacity
    expect(
        equal(empty.directions(capacity).vectors, sketch.directions(capacity).vectors),
        "expected the directions of a sketch that does not learn to stay",
    )


def check_sketch_rank_error(factory, rows):
    """More directions than the capacity are a RankError."""
    sketch = _of(factory, rows)
    count = sketch.capacity + 1
    expect_error(RankError, lambda: sketch.directions(count), f"{count} directions")


CHECKS = (
    check_sketch_fresh,
    check_sketch_counts,
    check_sketch_mean,
    check_sketch_certificate,
    check_sketch_split,
    check_sketch_certificate_of_split,
    check_sketch_prepare,
    check_sketch_merge,
    check_sketch_merge_with_empty,
    check_sketch_certificate_of_merge,
    check_sketch_merge_refusal,
    check_sketch_copy,
    check_sketch_state,
    check_sketch_memory,
    check_sketch_directions,
    check_sketch_energies,
    check_sketch_learns,
    check_sketch_rank_error,
)
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
    expect(low >= -slack, f"expected A'A - B'B >= 0; its smallest eigenvalue is {low:.3g}")
    expect(high <= most + slack, f"||A'A - B'B|| is {high:.3g}, beyond the certificate {most:.3g}")


def _require_certificate(sketch):
    if not hasattr(sketch, "matrix"):
        raise InapplicableError("the sketch has no matrix to compare with the rows")
    if sketch.certificate == math.inf:
        raise InapplicableError("the certificate is infinite and bounds nothing")


def _expect_seen(sketch, count):
    expect(sketch.seen == count, f"expected seen {count}, got {sketch.seen}")


def _expect_mean(sketch, rows):
    mean, wanted = to_numpy(sketch.mean), to_numpy(double(rows)).mean(axis=0)
    fine = not mean.any() or np.allclose(mean, wanted, rtol=1e-4, atol=1e-6)
    expect(fine, f"expected the mean of the rows or zeros, {wanted[:3]}..., got {mean[:3]}...")


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
