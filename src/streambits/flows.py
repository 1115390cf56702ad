"""The paper's two settings, as loops of a few lines."""

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from streambits._arrays import as_count, as_rows, to_numpy
from streambits.coder import Coder
from streambits.codes import Coded, Codes
from streambits.learner import Learner
from streambits.streams import Batch, batches

REFRESH = 500
logger = logging.getLogger("streambits")


def encode_online(
    learner: Learner,
    stream: Iterable[Any],
    *,
    refresh: int = REFRESH,
    on_refresh: Callable[[Coder, Coder], None] | None = None,
) -> Iterator[Coded]:
    """The online setting: each row's code is final before the next row is read.

    The coder is renewed every `refresh` rows of the learner; a row is encoded by the coder of the
    rows before its stretch, then learned. So the codes are the same for any batch sizes, and
    within an epoch they compare. on_refresh is told of each old and new coder.
    stream: row arrays or (ids, rows); one result a batch.
    """
    refresh = as_count(refresh, "refresh")
    coder = learner.coder()
    for ids, rows in batches(stream):
        checked = as_rows(rows, like=learner.features.like, width=learner.features.inputs)
        parts = []
        while checked.shape[0]:
            step = refresh - learner.seen % refresh
            parts.append(coder.encode(checked[:step, :]))
            learner.learn(checked[:step, :])
            checked = checked[step:, :]
            if learner.seen % refresh == 0:
                last, coder = coder, learner.coder()
                if on_refresh is not None:
                    on_refresh(last, coder)
        yield Coded(ids, Codes.concat(parts))


def encode_stream(
    learner: Learner, source: Iterable[Any], *, spool: str | Path | None = None
) -> Iterator[Coded]:
    """The streaming setting: learn everything, then give out all codes by the final coder.

    A source that can be read twice (a list, an array reader; anything whose `iter` starts anew) is
    read twice. One that cannot (a generator, a file handle) has its raw rows spooled to a
    temporary file in `spool` (the system's folder by default) and removed at the end: in all the
    paper's sets the rows are smaller than the affinities that the paper would store. The log of
    'streambits' says which.
    """
    if iter(source) is not source:
        logger.info("encode_stream reads the source twice")
        for _, rows in batches(source):
            learner.learn(rows)
        yield from _encoded(learner.coder(), batches(source))
        return
    with tempfile.TemporaryFile(dir=spool) as file:
        logger.info("encode_stream spools the rows to disk: the source can be read only once")
        count = 0
        for ids, rows in batches(source):
            learner.learn(rows)
            np.save(file, ids)
            np.save(file, to_numpy(as_rows(rows)))
            count += 1
        file.seek(0)
        spooled = (Batch(np.load(file), np.load(file)) for _ in range(count))
        yield from _encoded(learner.coder(), spooled)


def _encoded(coder: Coder, source: Iterator[Batch]) -> Iterator[Coded]:
    for ids, rows in source:
        yield Coded(ids, coder.encode(rows))
