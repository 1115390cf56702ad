"""The paper's two settings, online and streaming, as loops of a few lines."""

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import Array, CheckedRows, Ids, as_count, as_rows, concat_ids, to_numpy
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError, RankError
from streambits.index import HammingIndex
from streambits.methods.settings import Settings
from streambits.model.batches import CodeBatch, RowBatch, batches
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.model.learner import Learner

FIRST_REFRESH, LONGEST_REFRESH = 512, 65536  # rows between two coders by "auto", doubling
DRIFT_CHECK_ROWS = 8192  # rows after which "auto" also asks whether the directions have moved
logger = logging.getLogger("streambits")


class OnlineEncoder:
    """The online loop: a row is encoded by the coder of the rows before it, then learned.

    Parameters
    ----------
    learner : Learner
        It continues from its present state; its last coder stays in use until the next refresh.
    refresh : "auto" or int
        When a new coder is made: every so many rows of the learner, or "auto": when it has seen
        512, 1024, 2048, ... rows, then every 65,536, and sooner, at a multiple of 8,192, if
        `learner.has_moved`. A new epoch brings a new coder at once. Unless `learner.epochs` is
        "never", one begins when the refinement of the codes was fitted on a quarter of the rows
        that the sample has by now (`learner.has_outgrown`).
    on_refresh : callable, optional
        Called with each old and new coder.
    coders : CoderSet, optional
        Records every coder and the rows it has encoded, so that it can search all epochs.

    Attributes
    ----------
    coder : Coder
        The coder of the next rows.
    out_of_reach : int
        Rows so far that were out of reach of every landmark of their time.

    Notes
    -----
    Codes are the same for any batch sizes, and within an epoch they compare.

    Examples
    --------
    >>> from streambits.methods import ssbc
    >>> rows = np.random.default_rng(0).random((1000, 8), dtype=np.float32)
    >>> online = OnlineEncoder(ssbc(rows[:100], bits=16))
    >>> [codes for codes in online.encode(rows)]
    [Codes(512 x 16 bits, epoch 0), Codes(488 x 16 bits, epoch 0)]
    """

    def __init__(
        self,
        learner: Learner,
        *,
        refresh: str | int = "auto",
        on_refresh: Callable[[Coder, Coder], None] | None = None,
        coders: CoderSet | None = None,
    ) -> None:
        if refresh != "auto":
            refresh = as_count(refresh, "refresh")
        self.learner, self.refresh, self.coders = learner, refresh, coders
        self._on_refresh = on_refresh
        self.out_of_reach = 0  # rows that came so far from every landmark of their time
        self.coder = learner.last_coder or learner.coder()

    @classmethod
    def start(
        cls,
        settings: Settings,
        first: list[RowBatch],
        *,
        on_refresh: Callable[[Coder, Coder], None] | None = None,
        coders: CoderSet | None = None,
        device: str | None = None,
    ) -> tuple["OnlineEncoder", Iterator[CodeBatch]]:
        """Begin a stream with the rows that have waited for landmarks.

        The first `settings.gathered` of them are learned, and then encoded by a coder that knows
        them: the codes of a stream are as good at its beginning as later.

        Parameters
        ----------
        settings : Settings
        first : list of RowBatch
            With `settings.gathered` rows or more, or all of a shorter stream.
        on_refresh, coders
            As for the constructor.
        device : str, optional
            Where rows are learned and encoded, as torch knows it; on the host by default.

        Returns
        -------
        encoder : OnlineEncoder
            For the rows that follow.
        codes : iterator of CodeBatch
            Of these rows; to be read to its end before others are encoded.
        """
        waiting = first_rows([batch.rows for batch in first], settings.gathered)
        learner = settings.learner(waiting)
        learner = learner if device is None else learner.on(device)
        rows = as_rows(np.concatenate(waiting), like=learner.features.like)
        learner.learn(CheckedRows(rows))
        encoder = cls(learner, refresh=settings.refresh, on_refresh=on_refresh, coders=coders)
        codes = encoder.coder.encode(CheckedRows(rows), warn=False)
        encoder._record(rows, codes)
        return encoder, encoder._first_batches(first, codes)

    def _first_batches(self, first: list[RowBatch], codes: Codes) -> Iterator[CodeBatch]:
        """The codes of batches, of which the first rows have some."""
        for ids, rows, *_ in first:
            done = min(len(ids), len(codes))
            if done:
                yield CodeBatch(ids[:done], codes[:done])
            if done < len(ids):
                yield from self.batch(ids[done:], rows[done:])
            codes = codes[done:]

    def encode(self, rows: Array) -> Iterator[Codes]:
        """Encode and learn rows.

        Parameters
        ----------
        rows : array of shape (n, d)

        Yields
        ------
        Codes
            Of the rows in order, in pieces that end where a coder or an epoch ends. Rows are
            learned as the iterator advances.

        Raises
        ------
        InputError
            If the rows are not finite numbers of d columns; nothing was learned then.
        """
        learner = self.learner
        rows = as_rows(rows, like=learner.features.like, width=learner.features.inputs)
        while rows.shape[0]:
            left, epoch = until_refresh(learner.seen, self.refresh), learner.epoch
            to_check = DRIFT_CHECK_ROWS - learner.seen % DRIFT_CHECK_ROWS
            check = to_check if self.refresh == "auto" else left
            codes = learner.learn_and_encode(CheckedRows(rows[: min(left, check), :]), self.coder)
            done = len(codes)
            self._record(rows[:done, :], codes)
            rows = rows[done:, :]
            due = done == left or learner.epoch != epoch
            if due or (done == check and learner.has_moved):
                self._renew_coder()
            yield codes

    def _record(self, rows: Array, codes: Codes) -> None:
        self.out_of_reach += int(self.coder.out_of_reach(rows, codes).sum())
        if self.coders is not None:
            self.coders.record(self.coder, CheckedRows(rows), codes)

    def _renew_coder(self) -> None:
        learner = self.learner
        if learner.epoch == self.coder.epoch and learner.epochs != "never" and learner.has_outgrown:
            learner.new_epoch()
        self.refresh_coder()

    def refresh_coder(self) -> None:
        """Encode by what was learned so far from now on, if there can be a coder of it."""
        try:
            last, self.coder = self.coder, self.learner.coder()
        except RankError as error:
            logger.warning("the coder of epoch %d stays in use: %s", self.coder.epoch, error)
            return
        if self._on_refresh is not None:
            self._on_refresh(last, self.coder)

    def batch(self, ids: NDArray[np.int64], rows: Array) -> Iterator[CodeBatch]:
        """Encode and learn a batch at once.

        Parameters
        ----------
        ids : array of shape (n,), int64
        rows : array of shape (n, d)

        Returns
        -------
        iterator of CodeBatch
            One per epoch in the batch.
        """
        return _by_epoch(ids, list(self.encode(rows)))


def until_refresh(seen: int, refresh: str | int) -> int:
    """Count the rows from the `seen` ones to the next coder.

    Parameters
    ----------
    seen : int
    refresh : "auto" or int
        As for `OnlineEncoder`.

    Returns
    -------
    int

    Examples
    --------
    >>> [until_refresh(seen, "auto") for seen in (0, 512, 700, 64000, 65536, 65537)]
    [512, 512, 324, 1536, 65536, 65535]
    >>> until_refresh(700, 500)
    300
    """
    if refresh != "auto":
        return int(refresh) - seen % int(refresh)
    if seen >= LONGEST_REFRESH:
        return LONGEST_REFRESH - seen % LONGEST_REFRESH
    following = FIRST_REFRESH
    while following <= seen:
        following *= 2
    return min(following, LONGEST_REFRESH) - seen


def encode_online(
    learner: Learner | Settings,
    stream: Iterable[Any],
    *,
    refresh: str | int = "auto",
    on_refresh: Callable[[Coder, Coder], None] | None = None,
    coders: CoderSet | None = None,
) -> Iterator[CodeBatch]:
    """Encode and learn a stream online: each row's code is final before the next row is read.

    Batches without rows are passed over, here as in `encode_stream`.

    Parameters
    ----------
    learner : Learner or Settings
        With `Settings`, the first `settings.gathered` rows wait until landmarks are drawn from
        them, and are learned and then encoded (`OnlineEncoder.start`), as in a job.
    refresh, on_refresh, coders
        As for `OnlineEncoder`, which this is a loop over; settings have a `refresh` of their own.
    stream : iterable
        Row arrays, pairs (ids, rows) or row batches; or one array of all rows.

    Yields
    ------
    CodeBatch
        One per batch, or more where an epoch ends in it.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((8000, 8), dtype=np.float32)
    >>> stream = [rows[:6000], rows[6000:]]
    >>> [codes for ids, codes in encode_online(Settings(bits=8, refine=2), stream)]
    [Codes(5000 x 8 bits + 2 bytes, epoch 0), Codes(1000 x 8 bits + 2 bytes, epoch 0),
     Codes(2000 x 8 bits + 2 bytes, epoch 0)]
    """
    online: OnlineEncoder | None = None
    if isinstance(learner, Learner):
        online = OnlineEncoder(learner, refresh=refresh, on_refresh=on_refresh, coders=coders)
    first: list[RowBatch] = []
    for batch in _with_rows(stream):
        if online is not None:
            yield from online.batch(batch.ids, batch.rows)
            continue
        assert isinstance(learner, Settings)
        first.append(batch)
        if sum(len(one.ids) for one in first) >= learner.gathered:
            online, codes = OnlineEncoder.start(
                learner, first, on_refresh=on_refresh, coders=coders
            )
            yield from codes
    if online is None and first:
        assert isinstance(learner, Settings)
        yield from OnlineEncoder.start(learner, first, on_refresh=on_refresh, coders=coders)[1]


def _with_rows(stream: Iterable[Any]) -> Iterator[RowBatch]:
    """The batches of a stream that have rows."""
    return (batch for batch in batches(stream) if len(batch.ids))


def first_rows(parts: list[NDArray[Any]], count: int) -> list[NDArray[Any]]:
    """The first `count` rows of several arrays, in arrays."""
    found = []
    for rows in parts:
        if count > 0:
            found.append(to_numpy(as_rows(rows))[:count])
        count -= len(rows)
    return found


def _by_epoch(ids: NDArray[np.int64], parts: list[Codes]) -> Iterator[CodeBatch]:
    """The codes of a batch, those of each epoch together."""
    for _, group in groupby(parts, key=lambda codes: codes.epoch):
        codes = Codes.concat(group)
        yield CodeBatch(ids[: len(codes)], codes)
        ids = ids[len(codes) :]


def reencode(coder: Coder, source: Iterable[Any], index: HammingIndex) -> None:
    """Bring all codes of an index to the epoch of a coder, from the rows they came from.

    Parameters
    ----------
    coder : Coder
    source : iterable
        Pairs (ids, rows) or row batches of everything in the index that is not of that epoch yet.
    index : HammingIndex
        It can be searched meanwhile, as it was; when all rows are encoded, the new codes replace
        the old.

    Raises
    ------
    InputError
        If an id of the source is not in the index, is missing or is there twice; the index stays
        as it was.

    Notes
    -----
    Codes cannot be computed from other codes, which hold too little. Memory: the new codes.
    """
    coded = [CodeBatch(batch.ids, coder.encode(batch.rows)) for batch in batches(source)]
    ids = concat_ids(part.ids for part in coded)
    old = concat_ids(part.ids for part in index.items() if part.codes.epoch != coder.epoch)
    _check_same(ids, old, index)
    for part in coded:
        index.update(part.codes, part.ids)


def _check_same(ids: Ids, old: Ids, index: HammingIndex) -> None:
    """The source has every old id, once, and none that the index does not know."""
    unique, counts = np.unique(ids, return_counts=True)
    unknown = unique[~index.has(unique)]  # or they are of another kind, and refused
    if (counts > 1).any():
        raise InputError(f"the source has the id {unique[counts > 1][0]} more than once")
    if len(unknown):
        raise InputError(f"the source has the id {unknown[0]}, which is not in the index: add it")
    missing = np.setdiff1d(old, unique.astype(old.dtype))  # one of them may have no ids, nor a kind
    if len(missing):
        raise InputError(
            f"the source lacks {len(missing)} of the index's rows, among them the id {missing[0]}: "
            f"pass all rows, or remove those ids from the index first"
        )


def encode_stream(
    learner: Learner, source: Iterable[Any], *, spool: str | Path | None = None
) -> Iterator[CodeBatch]:
    """Learn a whole stream, then encode all of it by the final coder.

    Parameters
    ----------
    learner : Learner
    source : iterable
        Row arrays, pairs (ids, rows) or row batches.
    spool : str or Path, optional
        Folder of the temporary file, the system's by default.

    Yields
    ------
    CodeBatch
        One per batch, all by the same coder.

    Notes
    -----
    A source that can be read twice (a list, an array reader; anything whose `iter` starts anew) is
    read twice. One that cannot (a generator, a file handle) has its raw rows spooled to a temporary
    file, which is removed at the end: in all the paper's sets the rows are smaller than the
    affinities that the paper would store. The log of 'streambits' says which.
    """
    if iter(source) is not source:
        logger.info("encode_stream reads the source twice")
        for batch in _with_rows(source):
            learner.learn(batch.rows)
        yield from _encoded(learner.coder(), _with_rows(source))
        return
    with tempfile.TemporaryFile(dir=spool) as file:
        logger.info("encode_stream spools the rows to disk: the source can be read only once")
        count = 0
        for batch in _with_rows(source):
            learner.learn(batch.rows)
            np.save(file, batch.ids)
            np.save(file, to_numpy(as_rows(batch.rows)))
            count += 1
        file.seek(0)
        spooled = (RowBatch(np.load(file), np.load(file)) for _ in range(count))
        yield from _encoded(learner.coder(), spooled)


def _encoded(coder: Coder, source: Iterator[RowBatch]) -> Iterator[CodeBatch]:
    for batch in source:
        yield CodeBatch(batch.ids, coder.encode(batch.rows))
