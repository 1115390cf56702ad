"""The paper's two settings, as loops of a few lines."""

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_count, as_rows, to_numpy
from streambits.epochs.coder_set import Coders
from streambits.errors import InputError
from streambits.index import HammingIndex
from streambits.model.batches import Batch, batches
from streambits.model.coder import Coder
from streambits.model.codes import Coded, Codes
from streambits.model.learner import Learner

REFRESH = 500
logger = logging.getLogger("streambits")


def encode_online(
    learner: Learner,
    stream: Iterable[Any],
    *,
    refresh: int = REFRESH,
    on_refresh: Callable[[Coder, Coder], None] | None = None,
    coders: Coders | None = None,
) -> Iterator[Coded]:
    """The online setting: each row's code is final before the next row is read.

    The coder is renewed every `refresh` rows of the learner; a row is encoded by the coder of the
    rows before its stretch, then learned. So the codes are the same for any batch sizes, and
    within an epoch they compare. on_refresh is told of each old and new coder. A learner with
    `epochs` may publish a new epoch; the coder is then renewed at once.
    coders: is told of every coder and the rows it coded, so that it can search all epochs.
    stream: row arrays or (ids, rows); one result a batch, or two where an epoch ends in it.
    """
    refresh = as_count(refresh, "refresh")
    coder = learner.coder()
    for ids, rows in batches(stream):
        checked = as_rows(rows, like=learner.features.like, width=learner.features.inputs)
        parts = []
        while checked.shape[0]:
            now = checked[: refresh - learner.seen % refresh, :]
            codes, done = coder.encode(now), learner.take(now)
            now, checked = now[:done, :], checked[done:, :]
            parts.append(codes[:done])
            if coders is not None:
                coders.note(coder, now, parts[-1])
            if learner.seen % refresh == 0 or learner.epoch != coder.epoch:
                last, coder = coder, learner.coder()
                if on_refresh is not None:
                    on_refresh(last, coder)
        yield from _by_epoch(ids, parts)


def _by_epoch(ids: NDArray[np.int64], parts: list[Codes]) -> Iterator[Coded]:
    """The codes of a batch, those of each epoch together."""
    for _, group in groupby(parts, key=lambda codes: codes.epoch):
        codes = Codes.concat(group)
        yield Coded(ids[: len(codes)], codes)
        ids = ids[len(codes) :]


def reencode(coder: Coder, source: Iterable[Any], index: HammingIndex) -> None:
    """Bring all codes of an index to the epoch of a coder, from the rows they came from.

    The index can be searched meanwhile, as it was; when all rows are encoded, the new codes take
    the places of the old. Never made from codes: those know too little.
    source: (ids, rows) of everything in the index that is not of that epoch already; an id that is
    unknown, missing or there twice is an error, and the index stays as it was.
    Memory: the new codes.
    """
    coded = [Coded(ids, coder.encode(rows)) for ids, rows in batches(source)]
    ids = np.concatenate([np.empty(0, np.int64), *(part.ids for part in coded)])
    old = [part.ids for part in index.coded() if part.codes.epoch != coder.epoch]
    _check_same(ids, np.concatenate([np.empty(0, np.int64), *old]), index)
    for part in coded:
        index.update(part.codes, part.ids)


def _check_same(ids: NDArray[np.int64], old: NDArray[np.int64], index: HammingIndex) -> None:
    """The source has every old id, once, and none that the index does not know."""
    unique, counts = np.unique(ids, return_counts=True)
    missing = np.setdiff1d(old, unique)
    unknown = [i for i in np.setdiff1d(unique, old).tolist() if i not in index]
    if (counts > 1).any():
        raise InputError(f"the source has the id {unique[counts > 1][0]} more than once")
    if unknown:
        raise InputError(f"the source has the id {unknown[0]}, which is not in the index: add it")
    if len(missing):
        raise InputError(
            f"the source lacks {len(missing)} of the index's rows, among them the id {missing[0]}: "
            f"pass all rows, or remove those ids from the index first"
        )


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
