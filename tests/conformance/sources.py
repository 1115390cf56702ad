"""Checks of sources: what `io.protocols.Source` promises, one named check per promise.

Every check takes a function that makes the source anew, always of the same rows: enough for three
batches or more, and with bad rows, if there can be any. It raises an AssertionError that says what
was expected.
"""

import json

import numpy as np

from conformance.compare import InapplicableError, expect, expect_error
from streambits.errors import StreambitsError
from streambits.io.protocols import Verifiable
from streambits.model.batches import Reject, Removals

LARGEST_OFFSET = 4096  # characters of JSON


def check_shape(factory):
    """Ids are int64 or texts, one per row; rows are floating, in the order of C, of one width."""
    widths, kinds = set(), set()
    for batch in _batches(factory):
        ids, rows = batch.ids, batch.rows
        expect(_are_ids(ids), "expected ids in int64, or as texts")
        kinds |= {ids.dtype.kind} if len(ids) else set()
        expect(isinstance(rows, np.ndarray) and rows.ndim == 2, "expected rows of two dimensions")
        expect(
            ids.shape == rows.shape[:1],
            f"expected an id per row, got {ids.shape} for {rows.shape}",
        )
        expect(rows.dtype in (np.float32, np.float64), f"expected floating rows, got {rows.dtype}")
        expect(rows.flags.c_contiguous, "expected rows in the order of C")
        widths |= {rows.shape[1]} if len(rows) else set()
    expect(len(widths) == 1, f"expected rows of one width, got {sorted(widths)}")
    expect(len(kinds) == 1, "expected ids of one kind, got whole numbers and texts")


def check_removals(factory):
    """Removals are ids of the kind of the rows, each with its place among the rows, in order."""
    for batch in _batches(factory):
        if batch.removals is None:
            continue
        ids, at = batch.removals
        wanted = isinstance(batch.removals, Removals) and _are_ids(ids) and at.dtype == np.int64
        expect(wanted and ids.shape == at.shape, "expected Removals of ids, and places in int64")
        expect(ids.dtype == batch.ids.dtype, "expected removals and rows with ids of one kind")
        inside = not len(at) or (at[0] >= 0 and at[-1] <= len(batch.rows))
        expect(inside and (np.diff(at) >= 0).all(), f"expected places in order, got {at}")


def check_payload(factory):
    """The payload has a line per row, of as many texts (or None) in every batch; or none has it."""
    widths = set()
    for batch in _batches(factory):
        kept = batch.payload
        widths |= {None if kept is None else kept.shape[1:]}
        if kept is None:
            continue
        fits = kept.ndim == 2 and len(kept) == len(batch.rows) and kept.dtype == np.object_
        expect(fits, f"expected a payload of {len(batch.rows)} lines, got {kept.shape}")
        wrong = [value for value in kept.ravel().tolist() if not isinstance(value, str | None)]
        expect(not wrong, f"expected texts or None in the payload, got {wrong[:1]}")
    expect(len(widths) == 1, f"expected a payload of one width, got {widths}")


def check_rows_finite(factory):
    """What is not finite is a reject, not a row."""
    bad = [batch.offset for batch in _batches(factory) if not np.isfinite(batch.rows).all()]
    expect(not bad, f"expected finite rows; some are not before offset {bad[:1]}")


def check_rejects(factory):
    """A reject says where it was and why, in words that are not empty."""
    for batch in _batches(factory):
        for reject in batch.rejects:
            complete = isinstance(reject, Reject) and reject.where and reject.reason
            expect(complete, f"expected a Reject with where and reason, got {reject!r}")


def check_length(factory):
    """`length` is the number of rows, removals and rejects, or None."""
    wanted, batches = factory().length, _batches(factory)
    found = sum(len(batch.rows) + len(batch.rejects) + len(_removed(batch)) for batch in batches)
    expect(wanted in (None, found), f"expected length {found} or None, got {wanted}")


def check_identity(factory):
    """`identity` is a JSON value, the same for the same source, before and after reading."""
    source = factory()
    before = _round_trip(source.identity(), "identity")
    next(iter(source.read()))
    for found in (source.identity(), factory().identity()):
        expect(found == before, f"expected the same identity, {before}, got {found}")


def check_repeats(factory):
    """Read again, the source gives the same."""
    _expect_same(_batches(factory), _batches(factory), "at the second reading")


def check_batches_stay(factory):
    """A batch is not written over by those that follow."""
    copies = [(batch, batch.ids.copy(), batch.rows.copy()) for batch in factory().read()]
    for batch, ids, rows in copies:
        same = np.array_equal(batch.ids, ids) and np.array_equal(batch.rows, rows)
        expect(same, f"expected the batch before offset {batch.offset} to stay as it was")


def check_offsets(factory):
    """From the offset of any batch, by way of JSON, the rest follows: rows, ids and rejects.

    What all batches leave behind is the same too: rows replace and removals take out, in order.
    """
    batches = _batches(factory)
    expect(len(batches) > 2, f"expected three batches or more to check with, got {len(batches)}")
    for place, batch in enumerate(batches):
        offset = _round_trip(batch.offset, "offset")
        size = len(json.dumps(offset))
        expect(size <= LARGEST_OFFSET, f"expected a small offset, got {size} characters")
        rest = list(factory().read(offset))
        _expect_same(rest, batches[place + 1 :], f"from offset {offset}")
        left, right = (
            _table([*batches[: place + 1], *some]) for some in (rest, batches[place + 1 :])
        )
        expect(left == right, f"expected the same ids to be left from offset {offset}")


def check_bad_offset(factory):
    """What is not an offset of this source is an error of this package."""
    for offset in ("no offset", {"no": "offset"}, [1, 2]):
        expect_error(
            StreambitsError,
            lambda offset=offset: list(factory().read(offset)),
            f"reading from {offset!r}",
        )


def check_evidence(factory):
    """A source that can tell whether it was exchanged says of itself that it was not.

    `evidence(offset)` is a JSON value; `changes(evidence)` of the same source lists nothing.
    """
    source = factory()
    if not isinstance(source, Verifiable):
        raise InapplicableError("the source has no `evidence` and `changes`")
    for batch in source.read():
        earlier = _round_trip(source.evidence(batch.offset), "evidence")
        fresh = factory()
        assert isinstance(fresh, Verifiable), "expected the same kind of source every time"
        found = fresh.changes(earlier)
        expect(not found, f"expected no changes at offset {batch.offset}, got {found}")
        again = fresh.evidence(batch.offset)
        expect(again == earlier, f"expected the same evidence once it is checked, got {again}")


CHECKS = (
    check_shape,
    check_removals,
    check_payload,
    check_rows_finite,
    check_rejects,
    check_length,
    check_identity,
    check_repeats,
    check_batches_stay,
    check_offsets,
    check_bad_offset,
    check_evidence,
)


def _batches(factory):
    return list(factory().read())


def _round_trip(value, name):
    try:
        back = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"expected {name} to be a JSON value, got {value!r}") from error
    expect(back == value, f"expected {name} to be the same after JSON, {value!r}, got {back!r}")
    return back


def _expect_same(found, wanted, where):
    for name in ("ids", "rows"):
        left, right = (_together(batches, name) for batches in (found, wanted))
        expect(np.array_equal(left, right), f"expected the same {name} {where}")
    for name, of in (("rejects", _rejects), ("removals", _removed), ("payload", _kept)):
        left, right = ([r for batch in batches for r in of(batch)] for batches in (found, wanted))
        told = f"{right[:1]}..., got {left[:1]}..."
        expect(left == right, f"expected the same {name} {where}, {told}")


def _together(batches, name):
    arrays = [getattr(batch, name) for batch in batches if len(batch.rows)]
    return np.concatenate(arrays) if arrays else np.empty(0)


def _are_ids(ids):
    return isinstance(ids, np.ndarray) and (ids.dtype == np.int64 or ids.dtype.kind == "T")


def _rejects(batch):
    return list(batch.rejects)


def _removed(batch):
    return [] if batch.removals is None else list(batch.removals.ids.tolist())


def _kept(batch):
    return [] if batch.payload is None else list(batch.payload.tolist())


def _table(batches):
    """What is there after all batches: every id with its last row, if it was not removed since."""
    found = {}
    for batch in batches:
        gone, at = _removed(batch), [] if batch.removals is None else batch.removals.at.tolist()
        for place, (name, row) in enumerate(zip(batch.ids.tolist(), batch.rows, strict=True)):
            while at and at[0] <= place:
                at.pop(0)
                found.pop(gone.pop(0), None)
            found[name] = row.tobytes()
        for name in gone:
            found.pop(name, None)
    return found
