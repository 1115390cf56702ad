"""The kit passes a small sink of one's own, and says what is wrong with broken ones."""

import numpy as np
import pytest

from streambits import Codes
from streambits.checks._compare import run_checks
from streambits.checks.sinks import CHECKS
from streambits.errors import InputError
from streambits.model.batches import CodeBatch

NUMBERS = np.random.default_rng(0).permutation(2**12)[:80]
CODES = Codes.from_bits((NUMBERS[:, None] >> np.arange(12)) & 1)
BYTES = np.random.default_rng(1).integers(0, 256, (80, 3), np.uint8)
REFINED = Codes(CODES.packed, 12, 0, BYTES)
PURE = Codes(np.empty((80, 0), np.uint8), 0, 0, np.column_stack([CODES.packed, BYTES]))


class Mine:
    """Codes in a dict that outlives the sink, as a table outlives a connection."""

    name = "mine"

    def __init__(self, table, like=CODES):
        self.table, self.waiting, self.like = table, [], like

    def write(self, ids, codes, _payload=None):
        ids = np.asarray(ids)
        fits = (codes.bits, codes.refine) == (self.like.bits, self.like.refine)
        if len(ids) != len(codes) or not fits or ids.dtype.kind != "i":
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


class Clinging(Mine):
    def remove(self, ids):
        """What is there stays."""


class Nameless(Mine):
    name = ""


class Forgetful(Mine):
    def commit(self):
        pass

    def close(self):
        super().commit()


class Careless(Mine):
    def close(self):
        pass


class Double(Mine):
    """Ids that come again are there twice."""

    def commit(self):
        for key, code in self.waiting:
            self.table[(key, len(self.table))] = code
        self.waiting = []


class FirstWins(Mine):
    def commit(self):
        for key, code in self.waiting:
            self.table.setdefault(key, code)
        self.waiting = []


class Ageless(Mine):
    def commit(self):
        self.waiting = [(key, Codes(code.packed, 12)) for key, code in self.waiting]
        super().commit()


class Lossy(Mine):
    """Begins anew whenever it is opened."""

    def __init__(self, table, like):
        table.clear()
        super().__init__(table, like)


class Lenient(Mine):
    def write(self, ids, codes, _payload=None):
        if codes.bits == 12:
            count = min(len(ids), len(codes))
            super().write(np.asarray(ids).astype(int)[:count], codes[:count])


class Overwriting(Mine):
    """Has a state, but a new job begins where codes are."""

    def state(self):
        self.commit()
        return {}

    def resume(self, state):
        pass


class Coarse(Mine):
    """Keeps codes without their refinement."""

    def commit(self):
        self.waiting = [(key, Codes(code.packed, 12, code.epoch)) for key, code in self.waiting]
        super().commit()


class Mixing(Mine):
    """Takes codes of any refinement, to which others do not compare."""

    def write(self, ids, codes, _payload=None):
        self.like = codes if codes.bits == self.like.bits else self.like
        super().write(ids, codes)


class Hasty(Mine):
    """Refuses codes of another refinement when it has written them."""

    def write(self, ids, codes, _payload=None):
        if codes.refine != self.like.refine:
            self.waiting += list(zip(ids.tolist(), codes))
        super().write(ids, codes)


class Stale(Overwriting):
    """After it was resumed, an id that comes again has its new code and its old refinement."""

    resumed = False

    def resume(self, state):
        del state
        self.resumed = True

    def commit(self):
        for number, (key, code) in enumerate(self.waiting):
            if self.resumed and key in self.table:
                mixed = Codes(code.packed, 12, code.epoch, self.table[key].refinement)
                self.waiting[number] = (key, mixed)
        super().commit()


def factory(kind, like=CODES):
    def place():
        table = {}

        def held():
            for key, code in table.items():
                yield CodeBatch([key[0] if isinstance(key, tuple) else key], code)

        return lambda: kind(table, like), held

    return place


@pytest.mark.parametrize("codes", [CODES, REFINED, PURE])
def test_a_sink_of_ones_own_passes(codes):
    run_checks(CHECKS, factory(Mine, codes), codes)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Nameless, "check_protocol: expected a name, got ''"),
        (Forgetful, "check_commit: after a commit: expected 80 ids, got 0"),
        (Careless, "check_close: after closing: expected 80 ids, got 0"),
        (Double, "check_replaced: expected every id once, got"),
        (FirstWins, "check_replaced: after ids came again: expected id"),
        (Ageless, "check_epochs: with two epochs: expected id"),
        (Lossy, "check_killed: after being killed four times: expected 80 ids, got"),
        (Clinging, "check_removed: after removals: expected 75 ids, got 80"),
        (Lenient, "check_sink_refusals: codes of another length: expected InputError"),
        (Overwriting, "check_sink_refusals: a new job where codes are: expected StreambitsError"),
    ],
)
def test_a_broken_sink_is_told_what_it_broke(kind, message):
    with pytest.raises(AssertionError, match=message):
        run_checks(CHECKS, factory(kind), CODES)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Coarse, "check_commit: after a commit: expected id .* to have epoch, code and refinement"),
        (Stale, "check_killed: after being killed four times: expected id"),
        (Mixing, "check_sink_refusals: more refinement bytes: expected InputError"),
        (Hasty, "check_sink_refusals: after refused calls: expected id"),
    ],
)
def test_what_a_sink_does_to_refinements_is_told_too(kind, message):
    with pytest.raises(AssertionError, match=message):
        run_checks(CHECKS, factory(kind, REFINED), REFINED)


def test_a_sink_of_plain_codes_must_not_take_refined_ones():
    with pytest.raises(AssertionError, match="check_sink_refusals: more refinement bytes"):
        run_checks(CHECKS, factory(Mixing), CODES)
