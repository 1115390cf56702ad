"""Checks of sources: what `io.protocols.Source` promises, one named check per promise.

Every check takes a function that makes the source anew, always of the same rows: enough for three
batches or more, and with bad rows, if there can be any. It raises an AssertionError that says what
was expected.
"""

import json

import numpy as np
import pytest

from conformance.compare import InapplicableError, checks_in
from streambits.errors import StreambitsError
from streambits.io.protocols import Verifiable
from streambits.model.batches import Reject, Removals

LARGEST_OFFSET = 4096  # characters of JSON


def check_shape(factory):
    """Ids are int64 or texts, one per row; rows are floating, in the order of C, of one width."""
    widths, kinds = set(), set()
    for batch in _batches(factory):
        ids, rows = batch.ids, batch.rows
        assert _are_ids(ids)
        kinds |= {ids.dtype.kind} if len(ids) else set()
        assert isinstance(rows, np.ndarray)
        assert rows.ndim == 2
        assert ids.shape == rows.shape[:1]
        assert rows.dtype in (np.float32, np.float64)
        assert rows.flags.c_contiguous
        widths |= {rows.shape[1]} if len(rows) else set()
    assert len(widths) == 1
    assert len(kinds) == 1


def check_removals(factory):
    """Removals are ids of the kind of the rows, each with its place among the rows, in order."""
    for batch in _batches(factory):
        if batch.removals is None:
            continue
        ids, at = batch.removals
        wanted = isinstance(batch.removals, Removals) and _are_ids(ids) and at.dtype == np.int64
        assert wanted
        assert ids.shape == at.shape
        assert ids.dtype == batch.ids.dtype
        inside = not len(at) or (at[0] >= 0 and at[-1] <= len(batch.rows))
        assert inside
        assert (np.diff(at) >= 0).all()


def check_payload(factory):
    """The payload has a line per row, of as many texts (or None) in every batch; or none has it."""
    widths = set()
    for batch in _batches(factory):
        kept = batch.payload
        widths |= {None if kept is None else kept.shape[1:]}
        if kept is None:
            continue
        fits = kept.ndim == 2 and len(kept) == len(batch.rows) and kept.dtype == np.object_
        assert fits
        wrong = [value for value in kept.ravel().tolist() if not isinstance(value, str | None)]
        assert not wrong
    assert len(widths) == 1


def check_rows_finite(factory):
    """What is not finite is a reject, not a row."""
    bad = [batch.offset for batch in _batches(factory) if not np.isfinite(batch.rows).all()]
    assert not bad


def check_rejects(factory):
    """A reject says where it was and why, in words that are not empty."""
    for batch in _batches(factory):
        for reject in batch.rejects:
            complete = isinstance(reject, Reject) and reject.where and reject.reason
            assert complete


def check_length(factory):
    """`length` is the number of rows, removals and rejects, or None."""
    wanted, batches = factory().length, _batches(factory)
    found = sum(len(batch.rows) + len(batch.rejects) + len(_removed(batch)) for batch in batches)
    assert wanted in (None, found)


def check_identity(factory):
    """`identity` is a JSON value, the same for the same source, before and after reading."""
    source = factory()
    before = _round_trip(source.identity(), "identity")
    next(iter(source.read()))
    for found in (source.identity(), factory().identity()):
        assert found == before


def check_repeats(factory):
    """Read again, the source gives the same."""
    _expect_same(_batches(factory), _batches(factory))


def check_batches_stay(factory):
    """A batch is not written over by those that follow."""
    copies = [(batch, batch.ids.copy(), batch.rows.copy()) for batch in factory().read()]
    for batch, ids, rows in copies:
        same = np.array_equal(batch.ids, ids) and np.array_equal(batch.rows, rows)
        assert same


def check_offsets(factory):
    """From the offset of any batch, by way of JSON, the rest follows: rows, ids and rejects.

    What all batches leave behind is the same too: rows replace and removals take out, in order.
    """
    batches = _batches(factory)
    assert len(batches) > 2
    for place, batch in enumerate(batches):
        offset = _round_trip(batch.offset, "offset")
        size = len(json.dumps(offset))
        assert size <= LARGEST_OFFSET
        rest = list(factory().read(offset))
        _expect_same(rest, batches[place + 1 :])
        left, right = (
            _table([*batches[: place + 1], *some]) for some in (rest, batches[place + 1 :])
        )
        assert left == right


def check_bad_offset(factory):
    """What is not an offset of this source is an error of this package."""
    for offset in ("no offset", {"no": "offset"}, [1, 2]):
        with pytest.raises(StreambitsError):
            list(factory().read(offset))


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
        assert not found
        again = fresh.evidence(batch.offset)
        assert again == earlier


CHECKS = checks_in(globals())


def _batches(factory):
    return list(factory().read())


def _round_trip(value, name):
    try:
        back = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"expected {name} to be a JSON value, got {value!r}") from error
    assert back == value
    return back


def _expect_same(found, wanted):
    for name in ("ids", "rows"):
        left, right = (_together(batches, name) for batches in (found, wanted))
        assert np.array_equal(left, right)
    for of in (_rejects, _removed, _kept):
        left, right = ([r for batch in batches for r in of(batch)] for batches in (found, wanted))
        assert left == right


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
