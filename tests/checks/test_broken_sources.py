"""The kit passes a plain source, and says what is wrong with broken ones."""

import numpy as np
import pytest

from streambits._arrays import as_ids
from streambits.checks._compare import run_checks
from streambits.checks.sources import CHECKS
from streambits.errors import InputError
from streambits.model.batches import Reject, Removals, RowBatch

ROWS = np.arange(40.0).reshape(20, 2)


class Plain:
    """Rows of an array, 6 per batch; row 3 is bad, row 8 removes the id 7."""

    name = "plain"
    length = 20

    def identity(self):
        return {"rows": 20}

    def read(self, offset=None):
        if offset is not None and not isinstance(offset, int):
            raise InputError(f"{offset!r} is not an offset")
        for start in range(offset or 0, 20, 6):
            end = min(start + 6, 20)
            places = np.array([i for i in range(start, end) if i not in (3, 8)])
            rejects = (Reject("row 3", "it is bad"),) if start <= 3 < end else ()
            gone = Removals(np.array([7]), np.array([8 - start])) if start <= 8 < end else None
            kept = np.array([[str(place)] for place in places], object)
            yield RowBatch(places, ROWS[places], end, rejects, gone, kept)


class Changes(Plain):
    """Changes every batch in some way."""

    def read(self, offset=None):
        for number, batch in enumerate(super().read(offset)):
            yield self.change(batch, number)


class SmallIds(Changes):
    def change(self, batch, _):
        return batch._replace(ids=batch.ids.astype(np.int32))


class TwoKinds(Changes):
    def change(self, batch, number):
        return batch._replace(ids=as_ids([str(i) for i in batch.ids]) if number else batch.ids)


class RemovesOutside(Changes):
    def change(self, batch, _):
        gone = batch.removals
        return batch._replace(removals=gone and gone._replace(at=gone.at + 9))


class RemovesOtherKind(Changes):
    def change(self, batch, _):
        gone = batch.removals
        return batch._replace(removals=gone and gone._replace(ids=as_ids(["7"])))


class KeepsNumbers(Changes):
    def change(self, batch, _):
        return batch._replace(payload=batch.ids[:, None].astype(object))


class LosesPayload(Changes):
    def change(self, batch, number):
        return batch._replace(payload=None if number else batch.payload)


class ForgetsRemovals(Plain):
    def read(self, offset=None):
        for batch in super().read(offset):
            yield batch._replace(removals=None if offset else batch.removals)


class ForgetsPayload(Plain):
    def read(self, offset=None):
        for batch in super().read(offset):
            kept = np.full_like(batch.payload, None) if offset else batch.payload
            yield batch._replace(payload=kept)


class RemovesLater(Plain):
    """From an offset, the removal comes after a row that it came before."""

    def read(self, offset=None):
        for batch in super().read(offset):
            ids = np.where(batch.ids == 9, 7, batch.ids)
            gone = batch.removals
            gone = gone and (gone._replace(at=gone.at + 1) if offset else gone)
            yield batch._replace(ids=ids, removals=gone)


class Wider(Changes):
    def change(self, batch, number):
        return batch._replace(rows=np.tile(batch.rows, (1, 1 + number % 2)))


class Sideways(Changes):
    def change(self, batch, _):
        return batch._replace(rows=np.asfortranarray(batch.rows))


class Whole(Changes):
    def change(self, batch, _):
        return batch._replace(rows=batch.rows.astype(int))


class LosesAnId(Changes):
    def change(self, batch, _):
        return batch._replace(ids=batch.ids[1:])


class Infinite(Changes):
    def change(self, batch, _):
        return batch._replace(rows=batch.rows / (batch.rows - 8))


class Silent(Changes):
    def change(self, batch, _):
        return batch._replace(rejects=tuple(Reject(r.where, "") for r in batch.rejects))


class CountsGoodRows(Plain):
    length = 19


class NewEveryTime(Plain):
    made = 0

    def __init__(self):
        NewEveryTime.made += 1

    def identity(self):
        return NewEveryTime.made


class Unstorable(Plain):
    def identity(self):
        return {"files": {"a", "b"}}


class Shuffles(Changes):
    seed = 0

    def change(self, batch, _):
        Shuffles.seed += 1
        order = np.random.default_rng(Shuffles.seed).permutation(len(batch.rows))
        changed = {name: getattr(batch, name)[order] for name in ("ids", "rows", "payload")}
        return batch._replace(**changed)


class OneBuffer(Plain):
    def read(self, offset=None):
        buffer = np.empty((6, 2))
        for batch in super().read(offset):
            rows = buffer[: len(batch.rows)]
            rows[:] = batch.rows
            yield batch._replace(rows=rows)


class StartsAgain(Plain):
    def read(self, offset=None):
        list(super().read(offset))
        return super().read()


class OneTooFar(Changes):
    def change(self, batch, _):
        return batch._replace(offset=batch.offset + 1)


class ForgetsRejects(Plain):
    def read(self, offset=None):
        for batch in super().read(offset):
            yield batch._replace(rejects=() if offset else batch.rejects, offset=batch.offset - 6)


class Tuples(Changes):
    def change(self, batch, _):
        return batch._replace(offset=(batch.offset,))


class Hoards(Changes):
    def change(self, batch, _):
        return batch._replace(offset=[batch.offset] * 10**4)


class OneBatch(Plain):
    def read(self, offset=None):
        list(super().read(offset))
        gone = Removals(np.array([7]), np.array([8]))
        yield RowBatch(np.arange(19), ROWS[:19], 20, (), gone)


class TakesAnything(Plain):
    def read(self, offset=None):
        return super().read(offset if isinstance(offset, int) else None)


class AlwaysAnother(Plain):
    """Takes itself for another source."""

    def evidence(self, offset):
        return {"offset": offset}

    def changes(self, _):
        return ["it has changed"]


class Forgets(Plain):
    """Does not take over what it has checked."""

    known = None

    def read(self, offset=None):
        self.known = 1
        return super().read(offset)

    def evidence(self, _):
        return self.known

    def changes(self, _):
        return []


BROKEN = {
    SmallIds: "check_shape: expected ids in int64",
    TwoKinds: "check_shape: expected ids of one kind",
    RemovesOutside: "check_removals: expected places in order",
    RemovesOtherKind: "check_removals: expected removals and rows with ids of one kind",
    KeepsNumbers: "check_payload: expected texts or None",
    LosesPayload: "check_payload: expected a payload of one width",
    ForgetsRemovals: "check_offsets: expected the same removals",
    ForgetsPayload: "check_offsets: expected the same payload",
    RemovesLater: "check_offsets: expected the same ids to be left",
    Wider: "check_shape: expected rows of one width",
    Sideways: "check_shape: expected rows in the order of C",
    Whole: "check_shape: expected floating rows",
    LosesAnId: "check_shape: expected an id per row",
    Infinite: "check_rows_finite",
    Silent: "check_rejects",
    CountsGoodRows: "check_length: expected length 20 or None, got 19",
    NewEveryTime: "check_identity",
    Unstorable: "check_identity: expected identity to be a JSON value",
    Shuffles: "check_repeats",
    OneBuffer: "check_batches_stay",
    StartsAgain: "check_offsets",
    OneTooFar: "check_offsets",
    ForgetsRejects: "check_offsets",
    Tuples: "check_offsets: expected offset to be the same after JSON",
    Hoards: "check_offsets: expected a small offset",
    OneBatch: "check_offsets: expected three batches",
    TakesAnything: "check_bad_offset",
    AlwaysAnother: "check_evidence: expected no changes",
    Forgets: "check_evidence: expected the same evidence",
}


def test_a_plain_source_passes_if_it_says_what_it_cannot_do():
    assert run_checks(CHECKS, Plain, skip=["check_evidence"]).skipped == ("check_evidence",)
    with pytest.raises(AssertionError, match="check_evidence: was not tested, since the source"):
        run_checks(CHECKS, Plain)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_caught(kind):
    with np.errstate(all="ignore"), pytest.raises(AssertionError, match=f"^{BROKEN[kind]}"):
        run_checks(CHECKS, kind)


def test_every_check_has_something_that_it_catches():
    caught = {message.split(":")[0] for message in BROKEN.values()}
    assert caught == {check.__name__ for check in CHECKS}
