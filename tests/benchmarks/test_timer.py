"""The timer, by a clock that only moves when a work says so."""

import numpy as np
import pytest

from benchmarks import timer
from benchmarks.timer import Timing, figures, in_turns


class Clock:
    """Seconds that works add to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def work(self, seconds, log=None, name=""):
        def run():
            self.now += seconds
            if log is not None:
                log.append(name)

        return run


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(timer, "SETTLE", 0)


def test_times_are_those_of_the_clock():
    clock = Clock()
    short, long = in_turns(clock.work(0.25), clock.work(1.0), rounds=4, repeats=2, clock=clock)
    assert short.rounds.tolist() == [0.25] * 4
    assert long.best == long.median == 1
    assert long.over(short) == (4, 4, 4)
    assert str(long.over(short)) == "4.00 (4.00 to 4.00)"
    assert (short + long).per(5).best == 0.25


def test_the_fastest_of_a_row_counts_and_the_ratio_is_of_each_round():
    clock = Clock()
    # One warm-up, then two runs per round; the machine is three times slower in the second round.
    steps = {"ours": iter([9, 2, 1, 3, 6, 1, 1]), "theirs": iter([9, 4, 5, 12, 13, 8, 9])}

    def work(name):
        def run():
            clock.now += next(steps[name])

        return run

    ours, theirs = in_turns(work("ours"), work("theirs"), rounds=3, repeats=2, clock=clock)
    assert ours.rounds.tolist() == [1, 3, 1]
    assert theirs.rounds.tolist() == [4, 12, 8]
    assert theirs.over(ours).median == 4
    assert ours.or_faster(Timing(np.array([2, 2, 2]))).rounds.tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(12345, "12,300"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.01234, "0.0123")],
)
def test_figures(value, shown):
    assert figures(value) == shown
