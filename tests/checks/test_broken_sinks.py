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


class Mine:
    """Codes in a dict that outlives the sink, as a table outlives a connection."""

    name = "mine"

    def __init__(self, table):
        self.table, self.waiting = table, []

    def write(self, ids, codes):
        ids = np.asarray(ids)
        if len(ids) != len(codes) or codes.bits != 12 or ids.dtype.kind != "i":
            raise InputError("that does not fit")
        self.waiting += [(i, codes.epoch, code) for i, code in zip(ids.tolist(), codes.packed)]

    def commit(self):
        for key, epoch, code in self.waiting:
            self.table[key] = (epoch, code)
        self.waiting = []

    def close(self):
        self.commit()


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
        for key, epoch, code in self.waiting:
            self.table[(key, len(self.table))] = (epoch, code)
        self.waiting = []


class FirstWins(Mine):
    def commit(self):
        for key, epoch, code in self.waiting:
            self.table.setdefault(key, (epoch, code))
        self.waiting = []


class Ageless(Mine):
    def commit(self):
        self.waiting = [(key, 0, code) for key, _, code in self.waiting]
        super().commit()


class Lossy(Mine):
    """Begins anew whenever it is opened."""

    def __init__(self, table):
        table.clear()
        super().__init__(table)


class Lenient(Mine):
    def write(self, ids, codes):
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


def factory(kind):
    def place():
        table = {}

        def held():
            for key, (epoch, code) in table.items():
                yield CodeBatch(
                    [key[0] if isinstance(key, tuple) else key], Codes(code[None], 12, epoch)
                )

        return lambda: kind(table), held

    return place


def test_a_sink_of_ones_own_passes():
    run_checks(CHECKS, factory(Mine), CODES)


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
        (Lenient, "check_sink_refusals: codes of another length: expected InputError"),
        (Overwriting, "check_sink_refusals: a new job where codes are: expected StreambitsError"),
    ],
)
def test_a_broken_sink_is_told_what_it_broke(kind, message):
    with pytest.raises(AssertionError, match=message):
        run_checks(CHECKS, factory(kind), CODES)
