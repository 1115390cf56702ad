"""Checks of sinks: every id once, with its last code, whatever happens; each promise has a check.

Every check takes a function that makes an empty place and gives two functions: one that opens a
sink there, and one that gives what readers find there, as (ids, codes) in any pieces. A check may
open the same place several times, as a job does that was killed and started again. It also takes
codes, 50 or more, no two of them equal; it raises an AssertionError that says what was expected.
Codes may be refined: a sink that takes refinement bytes keeps them like the codes themselves, and
is checked by such codes too.
"""

import warnings
from typing import NamedTuple

import numpy as np
import pytest

from streambits._arrays import as_ids
from streambits.errors import InputError, StreambitsError
from streambits.io.protocols import Resumable, Sink
from streambits.model.codes import Codes


def check_protocol(factory, codes):
    """A sink has a name, and the methods of a sink; one without codes can be closed."""
    del codes
    opened, held = factory()
    sink = opened()
    assert isinstance(sink, Sink)
    assert isinstance(sink.name, str)
    assert sink.name
    sink.close()
    assert _held(held) == {}


class Step(NamedTuple):
    """A moment in the life of a sink.

    Attributes
    ----------
    action : str
        One of `ACTIONS`. "keep" takes a state, as a job does when it commits. "end" keeps, closes
        and opens again. "kill" forgets the sink and goes back to the state, then makes the changes
        since again, as a job that is started again; "close" does so after closing.
    ids : tuple of int or of str
        For "write" and "remove"; an id may be there twice.
    epoch : int
        Of the codes to write, after that of the codes of the check.
    """

    action: str
    ids: tuple = ()
    epoch: int = 0


ACTIONS = ("write", "write", "write", "remove", "commit", "keep", "end", "kill", "close")
HISTORY = [
    Step("write", (3, -1, 4, 5, -9, 2, 6, 0)),
    Step("write"),  # of nothing
    Step("commit"),
    Step("write", (3, 5, 3, 8, 7)),  # ids that come again: within a batch, and after a commit
    Step("remove", (5, -1, 77)),  # and one that is not there
    Step("write", (-1, 9), epoch=1),
    Step("commit"),
    Step("kill"),
    Step("keep"),
    Step("remove", (9, 4)),
    Step("commit"),
    Step("write", (4, 1)),
    Step("kill"),
    Step("remove", (6,)),
    Step("close"),
    Step("end"),
    Step("write", (6, 10)),
]


def check_history(factory, codes):
    """Each id has its last code, whatever is written, removed, committed, closed and killed."""
    opened, held = factory()
    play((opened, held), codes, HISTORY, committed=held)


def play(place, codes, steps, *, committed=None):
    """Take the steps in a place, close, and compare what is there with a dict.

    committed: gives what readers find after each commit, where they can read before the end.
    """
    opened, held = place
    life = _Life(opened, codes)
    for step in steps:
        life.take(step)
        if committed is not None and step.action in ("commit", "keep", "end"):
            _expect(committed, life.wanted)
    life.sink.close()
    _expect(held, life.wanted)


class _Life:
    """A sink, the state that was kept last, and the changes since."""

    def __init__(self, opened, codes):
        self.opened, self.codes, self.sink = opened, codes, opened()
        self.wanted = {}
        self._used = 0
        self._keep()

    def take(self, step):
        if step.action in ("write", "remove"):
            self._since.append(self._change(step))
            self._make(*self._since[-1])
        elif step.action == "commit":
            self.sink.commit()
        else:
            if step.action in ("keep", "end"):
                self._keep()
            if step.action in ("end", "close"):
                self.sink.close()
            if step.action != "keep":
                self._go_back()

    def _change(self, step):
        """Ids and their new codes, which the dict has from now on; or none."""
        ids = as_ids(list(step.ids))
        if step.action == "remove":
            self.wanted = {key: held for key, held in self.wanted.items() if key not in step.ids}
            return ids, None
        some = self.codes[np.arange(self._used, self._used + len(ids)) % len(self.codes)]
        new = Codes(some.packed, some.bits, some.epoch + step.epoch, some.refinement)
        self._used += len(ids)
        self.wanted |= _pairs(ids, new)
        return ids, new

    def _make(self, ids, codes):
        if codes is None:
            self.sink.remove(ids)
        else:
            self.sink.write(ids, codes)

    def _keep(self):
        self.sink.commit()
        self._state = self.sink.state() if isinstance(self.sink, Resumable) else None
        self._since = []

    def _go_back(self):
        with warnings.catch_warnings():  # of files that were left open
            warnings.simplefilter("ignore", ResourceWarning)
            self.sink = None  # which also ends its locks, as the end of a process does
            self.sink = self.opened()
        if self._state is not None:
            self.sink.resume(self._state)
        for change in self._since:
            self._make(*change)


def check_sink_refusals(factory, codes):
    """Bad input is an error of this package, and changes nothing; nor is a place overwritten."""
    opened, held = factory()
    sink, ids = opened(), _ids(codes)
    sink.write(ids, codes)
    for wrong in (
        (ids[:1], _zeros(codes, more_bits=1)),
        (ids[:1], _zeros(codes, more_bytes=1)),
        (ids[:2], codes[:3]),
        ([0.5], codes[:1]),
    ):
        with pytest.raises(InputError):
            sink.write(*wrong)
    sink.close()
    _expect(held, _pairs(ids, codes))
    if isinstance(sink, Resumable):
        with pytest.raises(StreambitsError):
            opened().state()
        _expect(held, _pairs(ids, codes))


CHECKS = [check_protocol, check_history, check_sink_refusals]


def _ids(codes):
    """In no order, some below 0."""
    return np.random.default_rng(0).permutation(len(codes)) * 3 - 50


def _zeros(codes, *, more_bits=0, more_bytes=0):
    """One code of zeros that is longer than the others."""
    bits, refine = codes.bits + more_bits, codes.refine + more_bytes
    packed, refinement = (np.zeros((1, n), np.uint8) for n in (-(-bits // 8), refine))
    return Codes(packed, bits, codes.epoch, refinement if refine else None)


def _pairs(ids, codes):
    refinement = np.empty((len(codes), 0)) if codes.refinement is None else codes.refinement
    return {
        key: (codes.epoch, code.tobytes(), more.tobytes())
        for key, code, more in zip(as_ids(ids).tolist(), codes.packed, refinement, strict=True)
    }


def _held(held):
    found = {}
    for ids, codes in held():
        for key, value in zip(np.asarray(ids).tolist(), codes, strict=True):
            assert key not in found
            found |= _pairs([key], value)
    return found


def _expect(held, wanted):
    found = _held(held)
    assert len(found) == len(wanted)
    for key, value in wanted.items():
        assert found.get(key) == value
