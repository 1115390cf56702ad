"""Every check catches a part that breaks its promise, and says its name: one broken part each."""

from copy import deepcopy

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import conformance
import streambits as sb
from streambits import Coder, Codes, Learner
from streambits._arrays import as_ids
from streambits.errors import InputError
from streambits.features import Linear
from streambits.model.batches import CodeBatch, Reject, Removals, RowBatch
from streambits.model.projection import Projection
from streambits.sketches import Directions, FrequentDirections, Gram

ROWS = np.random.default_rng(0).random((4200, 5)).astype(np.float32)


def broken(kind, **attributes):
    """A subclass with something else in place of these attributes."""
    return type("Broken", (kind,), attributes)


def caught(message, check, *arguments, **options):
    with pytest.raises(AssertionError, match=f"^{message}"):
        check(*arguments, **options)


# Features


class HandsOutItsCache(Linear):
    def __init__(self, centre):
        super().__init__(centre)
        self.cache = {}

    def __call__(self, rows):
        return self.cache.setdefault(rows.tobytes(), super().__call__(rows))


class CountsCalls(Linear):
    nbytes = 0

    def __call__(self, rows):
        self.nbytes += 1
        return super().__call__(rows)


call = Linear.__call__
FEATURES = {
    "width": broken(Linear, __call__=lambda self, rows: np.repeat(call(self, rows), 2, axis=1)),
    "finite": broken(
        Linear, __call__=lambda self, rows: np.where(rows > 0.95, np.inf, call(self, rows))
    ),
    "precision": broken(Linear, __call__=lambda self, rows: call(self, rows).astype(np.float16)),
    "noise_shape": broken(Linear, noise=lambda _, rows, __: np.zeros_like(rows[:1, 0])),
    "row_wise": broken(Linear, __call__=lambda _, rows: rows - rows.mean(axis=0)),
    "noise": broken(
        Linear,
        __call__=lambda _, rows: rows / rows.dtype.type(3),
        noise=lambda _, rows, __: np.zeros_like(rows[:, 0]),
    ),
    "frozen": HandsOutItsCache,
    "state": broken(Linear, from_state=classmethod(lambda kind, state: kind(0 * state["centre"]))),
    "on": broken(Linear, on=lambda self, _: type(self)(self.centre + 1)),
    "memory": CountsCalls,
}


@pytest.mark.parametrize("name", FEATURES)
def test_features(name):
    caught(
        f"check_features_{name}: ", conformance.check_features, FEATURES[name](ROWS[0]), ROWS[:30]
    )


def test_a_check_that_cannot_test_a_part_fails_unless_it_is_skipped():
    features, check = Linear(ROWS[0].astype(np.float64)), conformance.check_features
    caught("check_features_noise: was not tested, since ", check, features, ROWS[:30])
    check(features, ROWS[:30], skip=["check_features_noise"])
    caught("skip names {'check_nois'}", check, features, ROWS[:30], skip=["check_nois"])


# Sketches: a Gram matrix, or Frequent Directions that must shrink


def holds_back_small_batches(self, rows):
    if len(rows) >= 8:
        Gram.update(self, rows)


def trips_over_seven(self, rows):
    Gram.update(self, np.repeat(rows[:1], 7, axis=0) if len(rows) == 7 else rows)


def flattens_seven(self, contribution, correction):
    """Counts and mean are right, and the scatter of some batches is lost."""
    body = contribution.body * (contribution.rows != 7)
    Gram._accumulate(self, contribution._replace(body=body), correction)


def prepare_counts(self, rows):
    self._rounding += 1
    return Gram.prepare(self, rows)


def merge_empties_the_other(self, other):
    Gram.merge(self, other)
    other._sum *= 0


def empty_resets(self, other):
    Gram.merge(self, other)
    self._running.seen *= other.seen > 0


def empty_wipes(self, other):
    Gram.merge(self, other)
    self._sum *= other.seen > 0


def merges_anything(self, other):
    if type(other) is type(self):
        Gram.merge(self, other)


def weakest_first(self, count, *, extra=0):
    vectors, energies = Gram.directions(self, count, extra=extra)
    return Directions(vectors[:, ::-1], energies[::-1])


def total_energies(self, count, *, extra=0):
    vectors, energies = Gram.directions(self, count, extra=extra)
    return Directions(vectors, energies * self.seen)


def gives_fewer(self, count, *, extra=0):
    return Gram.directions(self, min(count, self.width), extra=extra)


def state_forgets_shrinkage(kind, state):
    return FrequentDirections.from_state.__func__(kind, {**state, "shrinkage": 0.0})


SKETCHES = {
    "fresh": broken(Gram, fresh=Gram.copy),
    "counts": broken(Gram, update=holds_back_small_batches),
    "mean": broken(Gram, mean=property(lambda self: Gram.mean.fget(self) / 2)),
    # as in the reference code of Frequent Directions: rows of a half-full buffer are not read
    "certificate": broken(
        FrequentDirections,
        matrix=property(lambda self: FrequentDirections.matrix.fget(self)[: self.size - 1]),
    ),
    "split": broken(Gram, update=trips_over_seven),
    "certificate_of_split": broken(Gram, _accumulate=flattens_seven),
    "prepare": broken(Gram, prepare=prepare_counts),
    "merge": broken(Gram, merge=merge_empties_the_other),
    "merge_with_empty": broken(Gram, merge=empty_resets),
    "certificate_of_merge": broken(Gram, merge=empty_wipes),
    "merge_refusal": broken(Gram, merge=merges_anything),
    "copy": broken(Gram, copy=lambda self: self),
    "state": broken(
        FrequentDirections, copy=deepcopy, from_state=classmethod(state_forgets_shrinkage)
    ),
    "memory": broken(Gram, nbytes=property(lambda self: 8 * self.seen)),
    "directions": broken(Gram, directions=weakest_first),
    "energies": broken(Gram, directions=total_energies),
    "learns": broken(Gram, learns=False),
    "rank_error": broken(Gram, directions=gives_fewer),
}


@pytest.mark.parametrize("name", SKETCHES)
def test_sketches(name):
    kind, rows = SKETCHES[name], ROWS[:100].astype(np.float64)
    sizes = (5, 4) if issubclass(kind, FrequentDirections) else (5,)
    caught(f"check_sketch_{name}: ", conformance.check_sketch, lambda: kind(*sizes), rows)


# Learners: broken by one method that is replaced for the length of a test

learn, merge, coder, state = Learner.learn, Learner.merge, Learner.coder, Learner.state
checked, encode, project = Learner._checked, Coder.encode, Coder.project


def next_epoch(self, rows):
    codes = encode(self, rows)
    return Codes(codes.packed, codes.bits, codes.epoch + 1)


def learn_batch_by_batch(self, rows):
    rows = self._checked(rows)
    self._sketch.update(self.features(rows))
    self._sample.update(rows)
    self._stale = True
    return self


def coder_by_threads(self):
    given = coder(self)
    if any(pool["num_threads"] == 3 for pool in threadpool_info()):
        flipped = Projection(-given.projection.matrix, -given.projection.thresholds)
        return Coder(given.features, flipped, given.epoch)
    return given


def bits_by_batch(self, rows, _features=None):
    values = self._values(rows)
    return np.packbits(values > values.max(axis=0) / 4, axis=1, bitorder="little")


def coder_that_learns(self):
    learn(self, self.sample[:1])
    return coder(self)


def live_coder(self):
    before, now = self._coder, coder(self)
    if before is None:
        return now
    before.__dict__ = dict(now.__dict__)
    return before


def state_without_waiting_rows(self):
    whole = state(self)
    return {**whole, "waiting": whole["waiting"][:0]}


def merge_without_waiting_rows(self, other):
    other = deepcopy(other)
    other._blocks.waiting = 0
    return merge(self, other)


def merge_that_boasts(self, other):
    merge(self, other)
    self._sketch._shrinkage = self._sketch._rounding = 0.0
    return self


def learn_then_refuse_huge(self, rows):
    if np.asarray(rows).dtype == np.float64 and np.abs(rows).max() > 1e100:
        learn(self, rows[:5])
        raise InputError("too large")
    return learn(self, rows)


LEARNERS = {
    "seen": (Learner, "seen", property(lambda self: self._sketch.seen)),
    "codes": (Coder, "encode", next_epoch),
    "decode": (Coder, "decode", lambda _, codes: np.zeros((len(codes), 5))),
    "split": (Learner, "learn", learn_batch_by_batch),
    "threads": (Learner, "coder", coder_by_threads),
    "isolated_rows": (Coder, "_packed", bits_by_batch),
    "project": (Coder, "project", lambda self, rows: -project(self, rows)),
    "coder_changes_nothing": (Learner, "coder", coder_that_learns),
    "coder_frozen": (Learner, "coder", live_coder),
    "memory": (Learner, "nbytes", property(lambda self: 8 * self.seen)),
    "save": (Learner, "state", state_without_waiting_rows),
    "fresh": (Learner, "fresh", deepcopy),
    "merge": (Learner, "merge", merge_without_waiting_rows),
    "certificate": (Learner, "merge", merge_that_boasts),
    "merge_refusal": (Learner, "_check_mergeable", lambda *_: None),
    "bad_rows": (Learner, "_checked", lambda self, rows: checked(self, np.nan_to_num(rows))),
    "huge_rows": (Learner, "learn", learn_then_refuse_huge),
}


def shrinking():
    features, sketch = sb.features.GaussianAffinity(ROWS[:20]), FrequentDirections(20, 8)
    return Learner(features, sketch, bits=6, rotation="none", prior=ROWS[:20])


@pytest.mark.parametrize("name", LEARNERS)
def test_learners(name, monkeypatch):
    monkeypatch.setattr(*LEARNERS[name])
    caught(f"check_learner_{name}: ", conformance.check_learner, shrinking, ROWS)


# Sources

TABLE = np.arange(40.0).reshape(20, 2)


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
            yield RowBatch(places, TABLE[places], end, rejects, gone, kept)


def changed(change):
    """A source of batches that are changed in some way: (batch, whether it is the first)."""

    def read(self, offset=None):
        for batch in Plain.read(self, offset):
            yield batch._replace(**change(batch, batch.offset <= 6))

    return broken(Plain, read=read)


BUFFER, COUNT = np.empty((6, 2)), np.zeros(1, int)


def in_one_buffer(batch, _):
    BUFFER[: len(batch.rows)] = batch.rows
    return {"rows": BUFFER[: len(batch.rows)]}


def shuffled(batch, _):
    COUNT[:] += 1
    order = np.random.default_rng(COUNT).permutation(len(batch.rows))
    return {name: getattr(batch, name)[order] for name in ("ids", "rows", "payload")}


def removed_outside(batch, _):
    gone = batch.removals
    return {"removals": gone and gone._replace(at=gone.at + 9)}


def starts_again(self, offset=None):
    list(Plain.read(self, offset))
    return Plain.read(self)


def counted(_):
    COUNT[:] += 1
    return int(COUNT[0])


SOURCES = {
    "shape: expected ids of one kind": changed(
        lambda batch, first: {} if first else {"ids": as_ids([str(i) for i in batch.ids])}
    ),
    "removals: expected places in order": changed(removed_outside),
    "payload: expected a payload of one width": changed(
        lambda _, first: {} if first else {"payload": None}
    ),
    "rows_finite": changed(
        lambda batch, _: {"rows": np.where(batch.rows == 8, np.inf, batch.rows)}
    ),
    "rejects": changed(
        lambda batch, _: {"rejects": tuple(Reject(r.where, "") for r in batch.rejects)}
    ),
    "length: expected length 20 or None, got 19": broken(Plain, length=19),
    "identity": broken(Plain, identity=counted),
    "repeats": changed(shuffled),
    "batches_stay": changed(in_one_buffer),
    "offsets": broken(Plain, read=starts_again),
    "bad_offset": broken(
        Plain, read=lambda self, at=None: Plain.read(self, at if isinstance(at, int) else None)
    ),
    "evidence: expected no changes": broken(
        Plain, evidence=lambda _, offset: {"at": offset}, changes=lambda *_: ["it has changed"]
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources(name):
    caught(f"check_{name}", conformance.check_source, SOURCES[name])


def test_a_plain_source_passes():
    conformance.check_source(Plain, skip=["check_evidence"])


# Sinks

NUMBERS = np.random.default_rng(0).permutation(2**12)[:80]
PLAIN = Codes.from_bits((NUMBERS[:, None] >> np.arange(12)) & 1)


class Sink:
    """Codes in a dict that outlives the sink, as a table outlives a connection."""

    name = "mine"

    def __init__(self, table):
        self.table, self.waiting = table, []

    def write(self, ids, codes, _payload=None):
        ids = np.asarray(ids)
        if len(ids) != len(codes) or (codes.bits, codes.refine) != (12, 0) or ids.dtype.kind != "i":
            raise InputError("that does not fit")
        self.waiting += list(zip(ids.tolist(), codes))

    def remove(self, ids):
        self.waiting += [(key, None) for key in np.asarray(ids).tolist()]

    def commit(self):
        for key, code in self.waiting:
            self.table[key] = code
            if code is None:
                del self.table[key]
        self.waiting = []

    def close(self):
        self.commit()


def keeps_the_first(self):
    self.waiting = [(key, code and self.table.get(key, code)) for key, code in self.waiting]
    Sink.commit(self)


def without_epochs(self):
    self.waiting = [(key, code and Codes(code.packed, 12)) for key, code in self.waiting]
    Sink.commit(self)


def begins_anew(self, table):
    table.clear()
    Sink.__init__(self, table)


def takes_any_codes(self, ids, codes, _payload=None):
    if codes.bits == 12:
        count = min(len(ids), len(codes))
        Sink.write(self, np.asarray(ids).astype(int)[:count], codes[:count])


SINKS = {
    "protocol: expected a name, got ''": broken(Sink, name=""),
    "history: after commit: expected 8 ids, got 0": broken(
        Sink, commit=lambda _: None, close=Sink.commit
    ),
    "history: after a history: expected 11 ids, got 9": broken(Sink, close=lambda _: None),
    "history: after commit: expected id 3 to have": broken(Sink, commit=keeps_the_first),
    "history: after commit: expected id -1 to have": broken(Sink, commit=without_epochs),
    "history: after end: expected 9 ids, got 0": broken(Sink, __init__=begins_anew),
    "history: after commit: expected 10 ids, got 11": broken(Sink, remove=lambda *_: None),
    "sink_refusals: codes of another length: expected InputError": broken(
        Sink, write=takes_any_codes
    ),
}


def place_of(kind):
    def place():
        table = {}
        return lambda: kind(table), lambda: (CodeBatch([key], code) for key, code in table.items())

    return place


@pytest.mark.parametrize("name", SINKS)
def test_sinks(name):
    caught(f"check_{name}", conformance.check_sink, place_of(SINKS[name]), PLAIN)


def test_a_plain_sink_passes():
    conformance.check_sink(place_of(Sink), PLAIN)


@pytest.mark.parametrize(
    ("kind", "prefix", "parts"),
    [
        ("features", "features_", FEATURES),
        ("sketches", "sketch_", SKETCHES),
        ("learners", "learner_", LEARNERS),
        ("sources", "", SOURCES),
        ("sinks", "", SINKS),
    ],
)
def test_every_check_has_something_that_it_catches(kind, prefix, parts):
    checks = {check.__name__ for check in getattr(conformance, kind).CHECKS}
    assert {f"check_{prefix}{name.split(':')[0]}" for name in parts} == checks
