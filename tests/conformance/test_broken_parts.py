"""Every check catches a part that breaks its promise, and says its name: one broken part each."""

from copy import deepcopy

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import conformance
import streambits as sb
from streambits import Codes, HammingIndex, Hits
from streambits._arrays import as_ids
from streambits.errors import InputError
from streambits.model.batches import CodeBatch, Reject, Removals, RowBatch

ROWS = np.random.default_rng(0).random((4200, 5)).astype(np.float32)


# Features


class TooWide(sb.features.Linear):
    def __call__(self, rows):
        return np.repeat(super().__call__(rows), 2, axis=1)


class Infinite(sb.features.Linear):
    def __call__(self, rows):
        return np.where(rows > 0.95, np.inf, super().__call__(rows))


class Coarse(sb.features.Linear):
    def __call__(self, rows):
        return super().__call__(rows).astype(np.float16)


class OneNoiseForAll(sb.features.Linear):
    def noise(self, rows, features):
        return super().noise(rows, features)[:1]


class CentresTheBatch(sb.features.Linear):
    def __call__(self, rows):
        return rows - rows.mean(axis=0)


class Overconfident(sb.features.Linear):
    def __call__(self, rows):
        return rows / rows.dtype.type(3)

    def noise(self, rows, _features):
        return np.zeros_like(rows[:, 0])


class HandsOutItsCache(sb.features.Linear):
    def __init__(self, centre):
        super().__init__(centre)
        self.cache = {}

    def __call__(self, rows):
        return self.cache.setdefault(rows.tobytes(), super().__call__(rows))


class ForgetsItsCentre(sb.features.Linear):
    @classmethod
    def from_state(cls, state):
        return cls(0 * state["centre"])


class MovesWrongly(sb.features.Linear):
    def on(self, _):
        return type(self)(self.centre + 1)


class Hoards(sb.features.Linear):
    calls = 0

    def __call__(self, rows):
        self.calls += 1
        return super().__call__(rows)

    @property
    def nbytes(self):
        return self.calls


FEATURES = {
    TooWide: "check_features_width",
    Infinite: "check_features_finite",
    Coarse: "check_features_precision",
    OneNoiseForAll: "check_features_noise_shape",
    CentresTheBatch: "check_features_row_wise",
    Overconfident: "check_features_noise",
    HandsOutItsCache: "check_features_frozen",
    ForgetsItsCentre: "check_features_state",
    MovesWrongly: "check_features_on",
    Hoards: "check_features_memory",
}


@pytest.mark.parametrize("kind", FEATURES, ids=lambda kind: kind.__name__)
def test_features(kind):
    with pytest.raises(AssertionError, match=rf"^{FEATURES[kind]}: "):
        conformance.check_features(kind(ROWS[0]), ROWS[:30])


def test_a_check_that_cannot_test_a_part_fails_unless_it_is_skipped():
    features = sb.features.Linear(ROWS[0].astype(np.float64))
    with pytest.raises(AssertionError, match=r"^check_features_noise: was not tested, since "):
        conformance.check_features(features, ROWS[:30])
    conformance.check_features(features, ROWS[:30], skip=["check_features_noise"])
    with pytest.raises(AssertionError, match="check_nois"):
        conformance.check_features(features, ROWS[:30], skip=["check_nois"])


# Sketches: a Gram matrix, or Frequent Directions that must shrink


class FreshIsACopy(sb.sketches.Gram):
    def fresh(self):
        return self.copy()


class HoldsBackSmallBatches(sb.sketches.Gram):
    def update(self, rows):
        if len(rows) >= 8:
            super().update(rows)


class HalfMean(sb.sketches.Gram):
    @property
    def mean(self):
        return super().mean / 2


class LosesPendingRows(sb.sketches.FrequentDirections):
    """As in the reference code of Frequent Directions: rows of a half-full buffer are not read."""

    @property
    def matrix(self):
        return super().matrix[: self.size - 1]


class TripsOverSeven(sb.sketches.Gram):
    def update(self, rows):
        super().update(np.repeat(rows[:1], 7, axis=0) if len(rows) == 7 else rows)


class FlattensSeven(sb.sketches.Gram):
    """Counts and mean are right, and the scatter of some batches is lost."""

    def _accumulate(self, contribution, correction):
        body = contribution.body * (contribution.rows != 7)
        super()._accumulate(contribution._replace(body=body), correction)


class PrepareCounts(sb.sketches.Gram):
    def prepare(self, rows):
        self._rounding += 1
        return super().prepare(rows)


class MergeEmptiesTheOther(sb.sketches.Gram):
    def merge(self, other):
        super().merge(other)
        other._sum *= 0


class EmptyResets(sb.sketches.Gram):
    def merge(self, other):
        super().merge(other)
        self._running.seen *= other.seen > 0


class EmptyWipes(sb.sketches.Gram):
    def merge(self, other):
        super().merge(other)
        self._sum *= other.seen > 0


class MergesAnything(sb.sketches.Gram):
    def merge(self, other):
        if type(other) is type(self):
            super().merge(other)


class CopyIsItself(sb.sketches.Gram):
    def copy(self):
        return self


class StateForgetsShrinkage(sb.sketches.FrequentDirections):
    def copy(self):
        return deepcopy(self)

    @classmethod
    def from_state(cls, state):
        return super().from_state({**state, "shrinkage": 0.0})


class Grows(sb.sketches.Gram):
    @property
    def nbytes(self):
        return super().nbytes + 8 * self.seen


class WeakestFirst(sb.sketches.Gram):
    def directions(self, count, *, extra=0):
        vectors, energies = super().directions(count, extra=extra)
        return sb.sketches.Directions(vectors[:, ::-1], energies[::-1])


class TotalEnergies(sb.sketches.Gram):
    def directions(self, count, *, extra=0):
        vectors, energies = super().directions(count, extra=extra)
        return sb.sketches.Directions(vectors, energies * self.seen)


class ClaimsNotToLearn(sb.sketches.Gram):
    learns = False


class GivesFewer(sb.sketches.Gram):
    def directions(self, count, *, extra=0):
        return super().directions(min(count, self.width), extra=extra)


SKETCHES = {
    FreshIsACopy: "check_sketch_fresh",
    HoldsBackSmallBatches: "check_sketch_counts",
    HalfMean: "check_sketch_mean",
    LosesPendingRows: "check_sketch_certificate",
    TripsOverSeven: "check_sketch_split",
    FlattensSeven: "check_sketch_certificate_of_split",
    PrepareCounts: "check_sketch_prepare",
    MergeEmptiesTheOther: "check_sketch_merge",
    EmptyResets: "check_sketch_merge_with_empty",
    EmptyWipes: "check_sketch_certificate_of_merge",
    MergesAnything: "check_sketch_merge_refusal",
    CopyIsItself: "check_sketch_copy",
    StateForgetsShrinkage: "check_sketch_state",
    Grows: "check_sketch_memory",
    WeakestFirst: "check_sketch_directions",
    TotalEnergies: "check_sketch_energies",
    ClaimsNotToLearn: "check_sketch_learns",
    GivesFewer: "check_sketch_rank_error",
}


@pytest.mark.parametrize("kind", SKETCHES, ids=lambda kind: kind.__name__)
def test_sketches(kind):
    def factory():
        return kind(5, 4) if issubclass(kind, sb.sketches.FrequentDirections) else kind(5)

    with pytest.raises(AssertionError, match=rf"^{SKETCHES[kind]}: "):
        conformance.check_sketch(factory, ROWS[:100].astype(np.float64))


# Learners: broken by one method that is replaced for the length of a test

LEARNER, CODER = sb.Learner, sb.Coder
learn, merge, coder, state = LEARNER.learn, LEARNER.merge, LEARNER.coder, LEARNER.state
checked, encode, project = LEARNER._checked, CODER.encode, CODER.project


def learn_batch_by_batch(self, rows):
    rows = self._checked(rows)
    self._sketch.update(self.features(rows))
    self._sample.update(rows)
    self._stale = True
    return self


def learn_then_refuse_huge(self, rows):
    if np.asarray(rows).dtype == np.float64 and np.abs(rows).max() > 1e100:
        learn(self, rows[:5])
        raise InputError("too large")
    return learn(self, rows)


def coder_by_threads(self):
    given = coder(self)
    if any(pool["num_threads"] == 3 for pool in threadpool_info()):
        flipped = sb.model.projection.Projection(
            -given.projection.matrix, -given.projection.thresholds
        )
        return sb.Coder(given.features, flipped, given.epoch)
    return given


def coder_that_learns(self):
    learn(self, self.sample[:1])
    return coder(self)


def live_coder(self):
    before, now = self._coder, coder(self)
    if before is None:
        return now
    before.__dict__ = dict(now.__dict__)
    return before


def bits_by_batch(self, rows, _features=None):
    values = self._values(rows)
    return np.packbits(values > values.max(axis=0) / 4, axis=1, bitorder="little")


def state_without_waiting_rows(self):
    held = state(self)
    return {**held, "waiting": held["waiting"][:0]}


def merge_without_waiting_rows(self, other):
    other = deepcopy(other)
    other._blocks.waiting = 0
    return merge(self, other)


def merge_that_boasts(self, other):
    merge(self, other)
    self._sketch._shrinkage = self._sketch._rounding = 0.0
    return self


def next_epoch(self, rows):
    codes = encode(self, rows)
    return sb.Codes(codes.packed, codes.bits, codes.epoch + 1)


def takes_bad_rows(self, rows):
    return checked(self, np.nan_to_num(rows))


LEARNERS = [
    ("check_learner_seen", LEARNER, "seen", property(lambda self: self._sketch.seen)),
    ("check_learner_codes", CODER, "encode", next_epoch),
    ("check_learner_decode", CODER, "decode", lambda _, codes: np.zeros((len(codes), 5))),
    ("check_learner_split", LEARNER, "learn", learn_batch_by_batch),
    ("check_learner_threads", LEARNER, "coder", coder_by_threads),
    ("check_learner_isolated_rows", CODER, "_packed", bits_by_batch),
    ("check_learner_project", CODER, "project", lambda self, rows: -project(self, rows)),
    ("check_learner_coder_changes_nothing", LEARNER, "coder", coder_that_learns),
    ("check_learner_coder_frozen", LEARNER, "coder", live_coder),
    ("check_learner_memory", LEARNER, "nbytes", property(lambda self: 8 * self.seen)),
    ("check_learner_save", LEARNER, "state", state_without_waiting_rows),
    ("check_learner_fresh", LEARNER, "fresh", deepcopy),
    ("check_learner_merge", LEARNER, "merge", merge_without_waiting_rows),
    ("check_learner_certificate", LEARNER, "merge", merge_that_boasts),
    ("check_learner_merge_refusal", LEARNER, "_check_mergeable", lambda *_: None),
    ("check_learner_bad_rows", LEARNER, "_checked", takes_bad_rows),
    ("check_learner_huge_rows", LEARNER, "learn", learn_then_refuse_huge),
]


def shrinking():
    features = sb.features.GaussianAffinity(ROWS[:20])
    sketch = sb.sketches.FrequentDirections(20, 8)
    return sb.Learner(features, sketch, bits=6, rotation="none", prior=ROWS[:20])


@pytest.mark.parametrize(("name", "kind", "attribute", "broken"), LEARNERS)
def test_learners(name, kind, attribute, broken, monkeypatch):
    monkeypatch.setattr(kind, attribute, broken)
    with pytest.raises(AssertionError, match=rf"^{name}: "):
        conformance.check_learner(shrinking, ROWS)


# Indexes

RNG = np.random.default_rng(0)
SOME = Codes.from_bits((RNG.random((30, 20)) < 0.5)[RNG.integers(30, size=120)])
REFINED = Codes(SOME.packed, 20, 0, RNG.integers(256, size=(120, 3)).astype(np.uint8))


@pytest.mark.parametrize("codes", [SOME, REFINED], ids=["plain", "refined"])
@pytest.mark.parametrize("method", ["auto", "scan", "multi"])
def test_our_index_passes(method, codes):
    conformance.check_index(lambda: HammingIndex(20, strategy=method), codes)


class NeverEmpty(HammingIndex):
    def __len__(self):
        return max(1, super().__len__())


class TiesByChance(HammingIndex):
    def search(self, *arguments, **options):
        hits = super().search(*arguments, **options)
        order = np.lexsort((-hits.ids, hits.distances))
        return Hits(np.take_along_axis(hits.ids, order, 1), hits.distances)


class Strict(HammingIndex):
    def within(self, queries, radius):
        return super().within(queries, max(radius - 1, 0))


class Unfiltered(HammingIndex):
    def search(self, queries, k, *, allow=None):
        del allow
        return super().search(queries, k)


class Backwards(HammingIndex):
    def __iter__(self):
        return iter(list(super().__iter__())[::-1])


class Sticky(HammingIndex):
    def update(self, codes, ids):
        pass


class FirstWins(HammingIndex):
    def upsert(self, codes, ids):
        super().upsert(codes[::-1], ids[::-1])


class LosesRefinement(HammingIndex):
    def get(self, ids):
        codes = super().get(ids)
        return Codes(codes.packed, codes.bits, codes.epoch)


class Lenient(HammingIndex):
    def remove(self, ids):
        super().remove([i for i in np.atleast_1d(ids) if int(i) in self])


INDEXES = {
    NeverEmpty: "check_empty: expected an empty index",
    TiesByChance: "check_search: k = ",
    Strict: "check_within: radius",
    Unfiltered: "check_allow: k = 10",
    Backwards: "check_order_of_insertion: expected ids in ascending order",
    Sticky: "check_changes: k = 15",
    FirstWins: "check_index_upsert: k = 120",
    LosesRefinement: "check_index_refinement: expected codes as they came",
    Lenient: "check_index_refusals: removing an unknown id: expected InputError",
}


@pytest.mark.parametrize("kind", INDEXES, ids=lambda kind: kind.__name__)
def test_indexes(kind):
    with pytest.raises(AssertionError, match=f"^{INDEXES[kind]}"):
        conformance.check_index(lambda: kind(20), REFINED if kind is LosesRefinement else SOME)


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
        for number, start in enumerate(range(offset or 0, 20, 6)):
            end = min(start + 6, 20)
            places = np.array([i for i in range(start, end) if i not in (3, 8)])
            rejects = (Reject("row 3", "it is bad"),) if start <= 3 < end else ()
            gone = Removals(np.array([7]), np.array([8 - start])) if start <= 8 < end else None
            kept = np.array([[str(place)] for place in places], object)
            yield self.change(RowBatch(places, TABLE[places], end, rejects, gone, kept), number)

    def change(self, batch, _):
        return batch


class TwoKinds(Plain):
    def change(self, batch, number):
        return batch._replace(ids=as_ids([str(i) for i in batch.ids]) if number else batch.ids)


class RemovesOutside(Plain):
    def change(self, batch, _):
        gone = batch.removals
        return batch._replace(removals=gone and gone._replace(at=gone.at + 9))


class LosesPayload(Plain):
    def change(self, batch, number):
        return batch._replace(payload=None if number else batch.payload)


class NotFinite(Plain):
    def change(self, batch, _):
        return batch._replace(rows=np.where(batch.rows == 8, np.inf, batch.rows))


class Silent(Plain):
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


class Shuffles(Plain):
    seed = 0

    def change(self, batch, _):
        Shuffles.seed += 1
        order = np.random.default_rng(Shuffles.seed).permutation(len(batch.rows))
        changed = {name: getattr(batch, name)[order] for name in ("ids", "rows", "payload")}
        return batch._replace(**changed)


class OneBuffer(Plain):
    buffer = np.empty((6, 2))

    def change(self, batch, _):
        self.buffer[: len(batch.rows)] = batch.rows
        return batch._replace(rows=self.buffer[: len(batch.rows)])


class RemovesLater(Plain):
    """From an offset, the removal comes after a row that it came before."""

    def read(self, offset=None):
        for batch in super().read(offset):
            ids = np.where(batch.ids == 9, 7, batch.ids)
            gone = batch.removals
            gone = gone and (gone._replace(at=gone.at + 1) if offset else gone)
            yield batch._replace(ids=ids, removals=gone)


class StartsAgain(Plain):
    def read(self, offset=None):
        list(super().read(offset))
        return super().read()


class TakesAnything(Plain):
    def read(self, offset=None):
        return super().read(offset if isinstance(offset, int) else None)


class AlwaysAnother(Plain):
    """Takes itself for another source."""

    def evidence(self, offset):
        return {"offset": offset}

    def changes(self, _):
        return ["it has changed"]


SOURCES = {
    TwoKinds: "check_shape: expected ids of one kind",
    RemovesOutside: "check_removals: expected places in order",
    LosesPayload: "check_payload: expected a payload of one width",
    NotFinite: "check_rows_finite",
    Silent: "check_rejects",
    CountsGoodRows: "check_length: expected length 20 or None, got 19",
    NewEveryTime: "check_identity",
    Shuffles: "check_repeats",
    OneBuffer: "check_batches_stay",
    RemovesLater: "check_offsets: expected the same ids to be left",
    StartsAgain: "check_offsets",
    TakesAnything: "check_bad_offset",
    AlwaysAnother: "check_evidence: expected no changes",
}


@pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.__name__)
def test_sources(kind):
    with pytest.raises(AssertionError, match=f"^{SOURCES[kind]}"):
        conformance.check_source(kind)


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


class Nameless(Sink):
    name = ""


class CommitsAtTheEnd(Sink):
    def commit(self):
        pass

    def close(self):
        super().commit()


class Careless(Sink):
    def close(self):
        pass


class KeepsTheFirst(Sink):
    def commit(self):
        for key, code in self.waiting:
            self.table.setdefault(key, code)
        self.waiting = []


class Ageless(Sink):
    def commit(self):
        self.waiting = [(key, Codes(code.packed, 12)) for key, code in self.waiting]
        super().commit()


class Lossy(Sink):
    """Begins anew whenever it is opened."""

    def __init__(self, table):
        table.clear()
        super().__init__(table)


class Clinging(Sink):
    def remove(self, ids):
        """What is there stays."""


class LosesTheOldest(Sink):
    commits = 0

    def commit(self):
        self.commits += 1
        if self.commits > 3 and self.table:
            self.table.pop(next(iter(self.table)))
        super().commit()


class TakesAnyCodes(Sink):
    def write(self, ids, codes, _payload=None):
        if codes.bits == 12:
            count = min(len(ids), len(codes))
            super().write(np.asarray(ids).astype(int)[:count], codes[:count])


SINKS = {
    Nameless: "check_protocol: expected a name, got ''",
    CommitsAtTheEnd: "check_commit: after a commit: expected 80 ids, got 0",
    Careless: "check_close: after closing: expected 80 ids, got 0",
    KeepsTheFirst: "check_replaced: after ids came again: expected id",
    Ageless: "check_epochs: with two epochs: expected id",
    Lossy: "check_killed: after being killed four times: expected 80 ids, got",
    Clinging: "check_removed: after removals: expected 75 ids, got 80",
    LosesTheOldest: "check_histories: after a history",
    TakesAnyCodes: "check_sink_refusals: codes of another length: expected InputError",
}


def place_of(kind):
    def place():
        table = {}
        return lambda: kind(table), lambda: (CodeBatch([key], code) for key, code in table.items())

    return place


@pytest.mark.parametrize("kind", SINKS, ids=lambda kind: kind.__name__)
def test_sinks(kind):
    with pytest.raises(AssertionError, match=SINKS[kind]):
        conformance.check_sink(place_of(kind), PLAIN)


def test_a_plain_sink_passes():
    conformance.check_sink(place_of(Sink), PLAIN)


@pytest.mark.parametrize(
    ("kind", "broken"),
    {
        "features": FEATURES.values(),
        "sketches": SKETCHES.values(),
        "learners": [name for name, *_ in LEARNERS],
        "indexes": INDEXES.values(),
        "sources": SOURCES.values(),
        "sinks": SINKS.values(),
    }.items(),
)
def test_every_check_has_something_that_it_catches(kind, broken):
    checks = {check.__name__ for check in getattr(conformance, kind).CHECKS}
    assert {message.split(":")[0] for message in broken} == checks
