"""Checks of sketches: what `sketches.base.Sketch` promises, one named check a promise.

Every check takes a function that makes an empty sketch, and feature rows (n, width), n >= 10; it
raises an AssertionError that says what was expected. A sketch that has a `matrix` is held against
A'A of the rows: `matrix` is B, or A'A itself in a Gram. "Up to rounding" is 64 units of the rows'
precision, relative to the squared length of all rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from streambits._arrays import Array, array_namespace, double, to_numpy
from streambits.checks._compare import equal, expect, expect_error
from streambits.errors import MergeError, RankError
from streambits.sketches import Gram, Sketch

Factory = Callable[[], Sketch]
UNITS = 64


def check_fresh(factory: Factory, rows: Array) -> None:
    """`fresh` is empty, learns like a new sketch, and has nothing in common with its origin."""
    origin = _of(factory, rows)
    before, fresh = origin.state(), origin.fresh()
    expect(fresh.seen == 0, f"expected an empty sketch, and it has seen {fresh.seen} rows")
    expect(fresh.certificate == 0, f"expected certificate 0, got {fresh.certificate}")
    fresh.update(rows)
    expect(equal(fresh.state(), before), "expected a fresh sketch to learn like a new one")
    expect(equal(origin.state(), before), "expected the origin to stay as it was")


def check_counts_all(factory: Factory, rows: Array) -> None:
    """Every row counts at once: no rows are pending out of sight."""
    for count in (1, 2, 5):
        some = rows[:count, :]
        sketch = _of(factory, some)
        expect(sketch.seen == count, f"expected seen {count}, got {sketch.seen}")
        expect_certified(sketch, some)


def check_mean(factory: Factory, rows: Array) -> None:
    """The mean of a centred sketch is that of the rows; a raw sketch has zeros."""
    sketch = _of(factory, rows[:3, :], rows[3:, :])
    mean, wanted = to_numpy(sketch.mean), to_numpy(double(rows)).mean(axis=0)
    fine = (
        not _has_matrix(sketch) or not mean.any() or np.allclose(mean, wanted, rtol=1e-4, atol=1e-6)
    )
    expect(fine, f"expected the mean of the rows or zeros, {wanted[:3]}..., got {mean[:3]}...")


def check_certificate(factory: Factory, rows: Array) -> None:
    """0 <= A'A - B'B <= certificate, up to rounding, at any moment."""
    middle = rows.shape[0] // 2
    sketch = _of(factory, rows[:middle, :])
    expect_certified(sketch, rows[:middle, :])
    sketch.update(rows[middle:, :])
    expect_certified(sketch, rows)


def check_split(factory: Factory, rows: Array) -> None:
    """Any split of the rows gives the same answer, up to rounding and the certificates."""
    whole = _of(factory, rows)
    for split in (_of(factory, rows[:1, :], rows[1:8, :], rows[8:, :]), _one_by_one(factory, rows)):
        expect(split.seen == whole.seen, f"expected seen {whole.seen}, got {split.seen}")
        expect_certified(split, rows)
        if _has_matrix(whole):
            apart = float(np.abs(np.linalg.eigvalsh(_summary(whole) - _summary(split))).max())
            allowed = max(whole.certificate, split.certificate) + _rounding(rows)
            expect(apart <= allowed, f"splits differ by {apart:.3g}; expected {allowed:.3g}")


def check_prepare(factory: Factory, rows: Array) -> None:
    """`prepare` changes nothing, and `absorb` of its result is an update."""
    sketch, whole = factory(), _of(factory, rows)
    before = sketch.state()
    part = sketch.prepare(rows)
    expect(equal(sketch.state(), before), "expected prepare to change nothing")
    sketch.absorb(part)
    expect(equal(sketch.state(), whole.state()), "expected prepare and absorb to be an update")


def check_merge(factory: Factory, rows: Array) -> None:
    """Merging is within the certificates of one pass over all rows; the other stays as it was."""
    middle = rows.shape[0] // 3
    left, right = _of(factory, rows[:middle, :]), _of(factory, rows[middle:, :])
    before = right.state()
    left.merge(right)
    expect(left.seen == len(rows), f"expected seen {len(rows)}, got {left.seen}")
    expect_certified(left, rows)
    expect(equal(right.state(), before), "expected the merged-in sketch to stay as it was")


def check_merge_with_empty(factory: Factory, rows: Array) -> None:
    """Merging an empty sketch, or into one, adds nothing."""
    left, right = _of(factory, rows), factory()
    left.merge(factory())
    right.merge(_of(factory, rows))
    for sketch in (left, right):
        expect(sketch.seen == len(rows), f"expected seen {len(rows)}, got {sketch.seen}")
        expect_certified(sketch, rows)


def check_merge_refuses(factory: Factory, rows: Array) -> None:
    """Merging something else is a MergeError and changes nothing."""
    sketch = _of(factory, rows)
    before, other = sketch.state(), Gram(sketch.width + 1)
    expect_error(MergeError, lambda: sketch.merge(other), "merging a sketch of another width")
    expect(equal(sketch.state(), before), "expected a refused merge to change nothing")


def check_copy(factory: Factory, rows: Array) -> None:
    """A copy is equal, and neither feels what happens to the other."""
    sketch = _of(factory, rows)
    before, copy = sketch.state(), sketch.copy()
    expect(equal(copy.state(), before), "expected an equal copy")
    copy.update(rows)
    expect(equal(sketch.state(), before), "expected the sketch to stay as it was")
    grown = copy.state()
    sketch.update(rows[:3, :])
    expect(equal(copy.state(), grown), "expected the copy to stay as it was")


def check_state(factory: Factory, rows: Array) -> None:
    """`from_state(state())` goes on as the original does, to the last bit."""
    sketch = _of(factory, rows[:7, :])
    again = type(sketch).from_state(sketch.state())
    for one in (sketch, again):
        one.update(rows[7:, :])
    expect(again.seen == sketch.seen, f"expected seen {sketch.seen}, got {again.seen}")
    expect(again.certificate == sketch.certificate, "expected the same certificate")
    expect(equal(again.state(), sketch.state()), "expected the restored sketch to go on equal")
    mine, theirs = sketch.directions(1), again.directions(1)
    expect(equal(mine.vectors, theirs.vectors), "expected the same directions")


def check_memory(factory: Factory, rows: Array) -> None:
    """`nbytes` is constant from construction."""
    sketch = factory()
    before = sketch.nbytes
    for start in range(0, len(rows), 10):
        sketch.update(rows[start : start + 10, :])
        expect(sketch.nbytes == before, f"expected {before} bytes, found {sketch.nbytes}")


def check_directions(factory: Factory, rows: Array) -> None:
    """Directions are orthonormal, strongest first, and reading them changes nothing."""
    sketch = _of(factory, rows)
    before = sketch.state()
    vectors, energies = map(to_numpy, sketch.directions(1, extra=sketch.width))
    expect(equal(sketch.state(), before), "expected reading to change nothing")
    expect(vectors.shape == (sketch.width, len(energies)), f"vectors have shape {vectors.shape}")
    away = float(np.abs(vectors.T @ vectors - np.eye(len(energies))).max())
    expect(away < 1e-6, f"expected orthonormal directions; they are off by {away:.3g}")
    expect((energies[:-1] >= energies[1:]).all(), "expected the strongest direction first")


def check_energies(factory: Factory, rows: Array) -> None:
    """An energy is the mean squared length of a row along its direction, by the certificate."""
    sketch = _of(factory, rows)
    if not _has_matrix(sketch):
        return
    vectors, energies = map(to_numpy, sketch.directions(1, extra=sketch.width))
    true = np.vecdot(vectors.T, vectors.T @ _scatter(sketch, rows))
    apart = float(np.abs(energies * sketch.seen - true).max())
    allowed = sketch.certificate + _rounding(rows)
    expect(apart <= allowed, f"energies are off by {apart:.3g}; expected {allowed:.3g} at most")


def check_learns(factory: Factory, rows: Array) -> None:
    """A sketch that does not learn gives the same directions whatever it saw."""
    sketch = factory()
    if sketch.learns:
        return
    before = sketch.directions(sketch.capacity)
    sketch.update(rows)
    after = sketch.directions(sketch.capacity)
    same = equal(before.vectors, after.vectors) and equal(before.energies, after.energies)
    expect(same, "expected the directions of a sketch that does not learn to stay")


def check_rank_error(factory: Factory, rows: Array) -> None:
    """More directions than the capacity are a RankError."""
    sketch = _of(factory, rows)
    count = sketch.capacity + 1
    expect_error(RankError, lambda: sketch.directions(count), f"{count} directions")


CHECKS: tuple[Callable[[Factory, Array], None], ...] = (
    check_fresh,
    check_counts_all,
    check_mean,
    check_certificate,
    check_split,
    check_prepare,
    check_merge,
    check_merge_with_empty,
    check_merge_refuses,
    check_copy,
    check_state,
    check_memory,
    check_directions,
    check_energies,
    check_learns,
    check_rank_error,
)


def expect_certified(sketch: Sketch, rows: Array) -> None:
    """Expect 0 <= A'A - B'B <= certificate, where the sketch has a `matrix`."""
    if not _has_matrix(sketch):
        return
    missing = np.linalg.eigvalsh(_scatter(sketch, rows) - _summary(sketch))
    slack = _rounding(rows)
    low, high, most = float(missing[0]), float(missing[-1]), sketch.certificate
    expect(low >= -slack, f"expected A'A - B'B >= 0; its smallest eigenvalue is {low:.3g}")
    expect(high <= most + slack, f"||A'A - B'B|| is {high:.3g}, beyond the certificate {most:.3g}")


def _of(factory: Factory, *batches: Array) -> Sketch:
    sketch = factory()
    for batch in batches:
        sketch.update(batch)
    return sketch


def _one_by_one(factory: Factory, rows: Array) -> Sketch:
    return _of(factory, *(rows[i : i + 1, :] for i in range(len(rows))))


def _has_matrix(sketch: Sketch) -> bool:
    return hasattr(sketch, "matrix")


def _summary(sketch: Any) -> Any:
    """B'B."""
    matrix = to_numpy(double(sketch.matrix))
    return matrix if isinstance(sketch, Gram) else matrix.T @ matrix


def _scatter(sketch: Sketch, rows: Array) -> Any:
    """A'A of the rows, around their mean if the sketch tracks one."""
    exact = to_numpy(double(rows))
    if to_numpy(sketch.mean).any():
        exact = exact - exact.mean(axis=0)
    return exact.T @ exact


def _rounding(rows: Array) -> float:
    unit = float(array_namespace(rows).finfo(rows.dtype).eps)
    return UNITS * unit * float(np.sum(to_numpy(double(rows)) ** 2))
