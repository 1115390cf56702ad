"""Checks of sources: what `streams.connect.Source` promises, one named check a promise.

Every check takes a function that makes the source anew, always of the same rows: enough for three
chunks or more, and with bad rows, if there can be any. It raises an AssertionError that says what
was expected.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from streambits.checks._compare import expect, expect_error
from streambits.errors import StreambitsError
from streambits.io.protocols import Source
from streambits.model.batches import Reject, RowBatch

Factory = Callable[[], Source]
LARGEST_OFFSET = 4096  # characters of JSON


def check_shape(factory: Factory) -> None:
    """Ids are int64, one a row; rows are floating, in the order of C, and of one width."""
    widths = set()
    for chunk in _chunks(factory):
        ids, rows = chunk.ids, chunk.rows
        expect(isinstance(ids, np.ndarray) and ids.dtype == np.int64, "expected ids in int64")
        expect(isinstance(rows, np.ndarray) and rows.ndim == 2, "expected rows of two dimensions")
        expect(
            ids.shape == rows.shape[:1],
            f"expected an id a row, got {ids.shape} for {rows.shape}",
        )
        expect(rows.dtype in (np.float32, np.float64), f"expected floating rows, got {rows.dtype}")
        expect(rows.flags.c_contiguous, "expected rows in the order of C")
        widths |= {rows.shape[1]} if len(rows) else set()
    expect(len(widths) == 1, f"expected rows of one width, got {sorted(widths)}")


def check_finite(factory: Factory) -> None:
    """What is not finite is a reject, not a row."""
    bad = [chunk.offset for chunk in _chunks(factory) if not np.isfinite(chunk.rows).all()]
    expect(not bad, f"expected finite rows; some are not before offset {bad[:1]}")


def check_rejects(factory: Factory) -> None:
    """A reject says where it was and why; it is no empty word."""
    for chunk in _chunks(factory):
        for reject in chunk.rejects:
            told = isinstance(reject, Reject) and reject.where and reject.reason
            expect(told, f"expected a Reject with where and reason, got {reject!r}")


def check_length(factory: Factory) -> None:
    """`length` is the number of rows and rejects, or None."""
    wanted, chunks = factory().length, _chunks(factory)
    found = sum(len(chunk.rows) + len(chunk.rejects) for chunk in chunks)
    expect(wanted in (None, found), f"expected length {found} or None, got {wanted}")


def check_identity(factory: Factory) -> None:
    """`identity` is a JSON value, the same for the same source, before and after reading."""
    source = factory()
    before = _round_trip(source.identity(), "identity")
    next(iter(source.read()))
    for found in (source.identity(), factory().identity()):
        expect(found == before, f"expected the same identity, {before}, got {found}")


def check_repeats(factory: Factory) -> None:
    """Read again, the source gives the same."""
    _expect_same(_chunks(factory), _chunks(factory), "at the second reading")


def check_chunks_stay(factory: Factory) -> None:
    """A chunk is not written over by those that follow."""
    kept = [(chunk, chunk.ids.copy(), chunk.rows.copy()) for chunk in factory().read()]
    for chunk, ids, rows in kept:
        same = np.array_equal(chunk.ids, ids) and np.array_equal(chunk.rows, rows)
        expect(same, f"expected the chunk before offset {chunk.offset} to stay as it was")


def check_offsets(factory: Factory) -> None:
    """From the offset of any chunk, by way of JSON, the rest follows: rows, ids and rejects."""
    chunks = _chunks(factory)
    expect(len(chunks) > 2, f"expected three chunks or more to check with, got {len(chunks)}")
    for place, chunk in enumerate(chunks):
        offset = _round_trip(chunk.offset, "offset")
        size = len(json.dumps(offset))
        expect(size <= LARGEST_OFFSET, f"expected a small offset, got {size} characters")
        rest = list(factory().read(offset))
        _expect_same(rest, chunks[place + 1 :], f"from offset {offset}")


def check_bad_offset(factory: Factory) -> None:
    """What is no offset of this source is an error of this package."""
    for offset in ("no offset", {"no": "offset"}, [1, 2]):
        expect_error(
            StreambitsError,
            lambda offset=offset: list(factory().read(offset)),  # type: ignore[misc]
            f"reading from {offset!r}",
        )


def check_evidence(factory: Factory) -> None:
    """A source that can tell whether it was exchanged says of itself that it was not.

    `evidence(offset)` is a JSON value; `changes(evidence)` of the same source lists nothing. Those
    without them have no evidence, and list nothing.
    """
    source = factory()
    evidence, changes = _evidence(source)
    for chunk in source.read():
        known = _round_trip(evidence(chunk.offset), "evidence")
        fresh, changes = _evidence(factory())
        found = changes(known)
        expect(not found, f"expected no changes at offset {chunk.offset}, got {found}")
        again = fresh(chunk.offset)
        expect(again == known, f"expected the same evidence once it is checked, got {again}")


CHECKS = (
    check_shape,
    check_finite,
    check_rejects,
    check_length,
    check_identity,
    check_repeats,
    check_chunks_stay,
    check_offsets,
    check_bad_offset,
    check_evidence,
)


def _evidence(source: Source) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    evidence = getattr(source, "evidence", lambda _: None)
    return evidence, getattr(source, "changes", lambda _: [])


def _chunks(factory: Factory) -> list[RowBatch]:
    return list(factory().read())


def _round_trip(value: Any, name: str) -> Any:
    try:
        back = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"expected {name} to be a JSON value, got {value!r}") from error
    expect(back == value, f"expected {name} to be the same after JSON, {value!r}, got {back!r}")
    return back


def _expect_same(found: list[RowBatch], wanted: list[RowBatch], where: str) -> None:
    for name in ("ids", "rows"):
        left, right = (_together(chunks, name) for chunks in (found, wanted))
        expect(np.array_equal(left, right), f"expected the same {name} {where}")
    left, right = ([r for chunk in chunks for r in chunk.rejects] for chunks in (found, wanted))
    expect(left == right, f"expected the same rejects {where}, {right[:1]}..., got {left[:1]}...")


def _together(chunks: list[RowBatch], name: str) -> Any:
    parts = [getattr(chunk, name) for chunk in chunks if len(chunk.rows)]
    return np.concatenate(parts) if parts else np.empty(0)
