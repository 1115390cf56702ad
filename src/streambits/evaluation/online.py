"""What the online setting costs against the end of the stream, watched while it runs."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streambits._arrays import blocks
from streambits.evaluation.compare import Contest
from streambits.evaluation.metrics import bits_changed
from streambits.methods import ssbc
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.online import REFRESH, encode_online

FIXED = 1000  # rows on which changed bits are counted


class Step(NamedTuple):
    """A refresh: rows learned so far, of how many, in how many seconds; the certificate; the share
    of bits that this refresh changed on a fixed set of rows.
    """

    rows: int
    total: int
    seconds: float
    certificate: float
    changed: float


class Online(NamedTuple):
    """online: MAP of codes given out at once; end: of all codes given out after the last row, by a
    learner that gave out no coder before; last: the last refresh; changed: the mean share of bits
    that a refresh changed.
    """

    online: float
    end: float
    last: Step
    changed: float


def watch_online(
    contest: Contest,
    bits: int,
    *,
    on_step: Callable[[Step], None] = lambda _: None,
    refresh: int = REFRESH,
    seed: int = 0,
) -> Online:
    """ssbc in the online setting: every code is final before the next `refresh` rows are read.

    on_step is told of each refresh. A stream of at least `refresh` rows.

    >>> from streambits.evaluation.compare import contest
    >>> got = watch_online(contest("uniform", 100, 2000, queries=50), 16)
    >>> got.last.rows, got.online > 0.9 * got.end
    (2000, True)
    """
    rows, steps = contest.stream.rows, list[Step]()
    fixed = rows[np.random.default_rng(seed).permutation(len(rows))[:FIXED]]
    learner = ssbc(contest.stream.train, bits, seed=seed)
    started = time.perf_counter()

    def watch(old: Coder, new: Coder) -> None:
        changed = bits_changed(old.encode(fixed), new.encode(fixed))
        seconds = time.perf_counter() - started
        steps.append(Step(learner.seen, len(rows), seconds, learner.certificate, changed))
        on_step(steps[-1])

    coded = encode_online(learner, blocks(rows, refresh), refresh=refresh, on_refresh=watch)
    at_once = Codes.concat([codes for _, codes in coded])
    last = ssbc(contest.stream.train, bits, seed=seed).learn(rows).coder()
    changed = float(np.mean([step.changed for step in steps]))
    return Online(contest.score(at_once), contest.score(last.encode(rows)), steps[-1], changed)
