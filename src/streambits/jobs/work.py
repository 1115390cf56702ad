"""What a job does with rows: learn them, encode them, or both."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import CheckedRows, Ids
from streambits._device import on_device
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError
from streambits.jobs.folder import JobFolder
from streambits.methods.settings import Settings
from streambits.model.batches import CodeBatch, RowBatch
from streambits.model.coder import Coder, check_reach, warn_of_reach
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.online import OnlineEncoder, first_rows
from streambits.storage import load, save

Rows = NDArray[Any]
EXAMINED = 64  # rows of a batch, for being out of reach


class Work:
    """What a job does; all that it holds of the rows so far is in `models`.

    Attributes
    ----------
    epoch : int
        Of the codes.
    learner : Learner, optional
        What learns, once it has begun.
    device : str, optional
        Where rows are to come, as torch knows it; None for the host.
    out_of_reach : int
        Rows of this run that no landmark reached: their codes say nothing.
    waiting : int
        Rows that wait for landmarks.
    """

    learner: Learner | None = None
    device: str | None = None
    out_of_reach = 0

    @property
    def epoch(self) -> int:
        return 0 if self.learner is None else self.learner.epoch

    @property
    def waiting(self) -> int:
        return 0

    def process(self, batch: RowBatch) -> Iterator["Change"]:
        """Rows in the order of the source; gives changes, perhaps of rows that came before."""
        raise NotImplementedError

    def finish(self) -> Iterator["Change"]:
        """No more rows come for now; gives the changes of rows that waited."""
        return iter(())

    def models(self) -> dict[str, Any]:
        """What was learned, for the checkpoint."""
        return {}

    def resume(self, models: dict[str, Any], folder: JobFolder | None) -> None:
        """Go back to that, or begin if there is nothing; folder: of the job, if it has one."""

    def committed(self) -> None:
        """What `models` gave last is on the disk, and what it did not name is not needed."""

    def save(self, folder: JobFolder) -> None:
        """Write what was learned for others to use."""


class Change(NamedTuple):
    """What a sink is to do.

    Attributes
    ----------
    ids : array of shape (n,), int64 or texts
    codes : Codes, optional
        To be written; without them the ids are removed.
    payload : array of shape (n, p), object, optional
        To be kept with the codes.
    """

    ids: Ids
    codes: Codes | None = None
    payload: NDArray[np.object_] | None = None


def changes(batches: Iterable[RowBatch], codes: Iterator[CodeBatch]) -> Iterator[Change]:
    """What batches and their codes change, in order.

    codes: of all rows, in pieces that end where a batch ends.
    """
    for batch in batches:
        done = 0
        while done < len(batch.ids):
            ids, some = next(codes)
            here = slice(done, done + len(ids))
            yield Change(ids, some, None if batch.payload is None else batch.payload[here])
            done += len(ids)
        if len(batch.removed):
            yield Change(batch.removed)


class Encoding(Work):
    """Encodes rows by a coder that stays as it is.

    Parameters
    ----------
    coder : Coder
        Makes the codes.
    model : str
        Its name, for messages.
    device : str, optional
        Where rows come, and are encoded.
    refuse : bool
        Whether a batch of which most rows are out of reach is an error.
    """

    def __init__(
        self, coder: Coder, model: str, device: str | None = None, *, refuse: bool = True
    ) -> None:
        self.coder, self.model, self.device, self.refuse = coder, model, device, refuse
        if device is not None:
            self.coder = coder.on(device)

    @property
    def epoch(self) -> int:
        return self.coder.epoch

    def process(self, batch: RowBatch) -> Iterator[Change]:
        return changes([batch], self._encoded(batch.ids, batch.rows))

    def _encoded(self, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        self._check_width(rows)
        codes = self.coder.encode(CheckedRows(rows), warn=False)
        lost = int(self.coder.out_of_reach(rows, codes).sum())
        if self.refuse and lost:
            far = self.coder.out_of_reach(rows, codes, crowds=False)
            check_reach(int(far.sum()), len(codes), "encoded")
        warn_of_reach(lost, len(codes), "encoded")
        self.out_of_reach += lost
        yield CodeBatch(ids, codes)

    def _check_width(self, rows: Rows) -> None:
        if rows.shape[1] != self.coder.features.inputs:
            raise InputError(
                f"the rows have {rows.shape[1]} numbers, and {self.model} is for rows of "
                f"{self.coder.features.inputs}"
            )


class Learning(Work):
    """Gathers the first rows, draws landmarks from them, and learns them and all that follow.

    Parameters
    ----------
    settings : Settings
        How to learn.
    device : str, optional
        Where rows come, and are learned.
    start : Learner, optional
        What goes on learning, in place of one made from the first rows.
    refuse : bool
        Whether it is an error if most of the first rows are out of reach of `start`.
    """

    def __init__(
        self,
        settings: Settings,
        device: str | None = None,
        start: Learner | None = None,
        *,
        refuse: bool = True,
    ) -> None:
        self.settings, self.device, self.refuse = settings, device, refuse
        if device is not None:
            on_device(device)  # or raise before anything is read
        self._start_with, self._begun = start, False
        self._first: list[RowBatch] = []

    @property
    def waiting(self) -> int:
        return sum(len(batch.ids) for batch in self._first)

    def process(self, batch: RowBatch) -> Iterator[Change]:
        if self.learner is not None:
            yield from self._work(self.learner, batch)
        elif len(batch.ids) or batch.removals:
            self._first.append(batch)
            if self.waiting >= self.settings.gathered:
                yield from self._start()

    def finish(self) -> Iterator[Change]:
        if self.learner is None:
            yield from self._start()

    def _start(self) -> Iterator[Change]:
        if not self.waiting:
            raise InputError("there are no rows that can be used")
        yield from self._begin(self._first)
        self._first = []

    def _begin(self, first: list[RowBatch]) -> Iterator[Change]:
        """Learn the rows that have waited."""
        rows = [batch.rows for batch in first if len(batch.rows)]
        learner = self.settings.learner(first_rows(rows, self.settings.gathered))
        self.learner = learner if self.device is None else learner.on(self.device)
        for batch in first:
            yield from self._work(self.learner, batch)

    def _work(self, learner: Learner, batch: RowBatch) -> Iterator[Change]:
        if len(batch.rows):
            self._look(learner, batch.rows)
            learner.learn(CheckedRows(batch.rows))
        yield from ()

    def _look(self, learner: Learner, rows: Rows) -> None:
        """Refuse the first rows that a model is to go on with, if they are out of its reach."""
        first, self._begun = not self._begun, True
        coder = learner.last_coder
        if not (first and self.refuse and self._start_with is not None and coder is not None):
            return
        step = -(-len(rows) // EXAMINED)
        some = rows[::step]
        codes = coder.encode(CheckedRows(some), warn=False)
        far = int(coder.out_of_reach(some, codes, crowds=False).sum())
        check_reach(far * step, len(some) * step, "to be learned")

    def models(self) -> dict[str, Any]:
        return {} if self.learner is None else {"learner": self.learner}

    def resume(self, models: dict[str, Any], folder: JobFolder | None) -> None:
        del folder
        self.learner = models.get("learner", self._start_with)
        if self.learner is not None and self.device is not None:
            self.learner = self.learner.on(self.device)

    def save(self, folder: JobFolder) -> None:
        if self.learner is not None:
            save(self.learner, folder.model_file)


class Online(Learning):
    """Also encodes every row: the codes of `encode_online` with the same settings.

    What encodes queries in an epoch never changes once it is over: it is written once, to a file
    of its own in the folder of the job, before the first checkpoint that names it. So memory,
    checkpoints and commits do not grow with the number of epochs.

    Parameters
    ----------
    settings : Settings
        How to learn.
    keep_epochs : int, optional
        How many epochs can be searched through the job, the current one included. Default: all.
    device : str, optional
        Where rows come, and are learned and encoded.
    start : Learner, optional
        What goes on learning, in place of one made from the first rows.
    coders : CoderSet, optional
        The coders of the job that it comes from, of which the newest goes on.
    refuse : bool
        As for `Learning`.
    """

    def __init__(
        self,
        settings: Settings,
        keep_epochs: int | None = None,
        device: str | None = None,
        start: Learner | None = None,
        coders: CoderSet | None = None,
        *,
        refuse: bool = True,
    ) -> None:
        super().__init__(settings, device, start, refuse=refuse)
        self.coders = CoderSet()
        if coders is not None and len(coders):
            coders.keep([max(coders)])
            self.coders = coders
        self._online: OnlineEncoder | None = None
        self._keep_epochs, self._retired = keep_epochs, False

    def _begin(self, first: list[RowBatch]) -> Iterator[Change]:
        some = [batch for batch in first if len(batch.ids)]
        self._online, codes = OnlineEncoder.start(
            self.settings, some, coders=self.coders, device=self.device
        )
        self.learner = self._online.learner
        yield from changes(first, codes)
        self._note()

    def _work(self, learner: Learner, batch: RowBatch) -> Iterator[Change]:
        assert self._online is not None
        codes: Iterator[CodeBatch] = iter(())
        if len(batch.rows):
            self._look(learner, batch.rows)
            codes = self._online.batch(batch.ids, CheckedRows(batch.rows))
        yield from changes([batch], codes)
        self._note()

    def _note(self) -> None:
        """What these rows have changed beside the codes."""
        assert self._online is not None
        self.out_of_reach = self._online.out_of_reach
        if self._keep_epochs is not None:
            self._retired |= self.coders.keep_newest(self._keep_epochs)

    def models(self) -> dict[str, Any]:
        more = {"coders": self.coders}
        return super().models() | (more if self.learner is not None else {})

    def resume(self, models: dict[str, Any], folder: JobFolder | None) -> None:
        super().resume(models, folder)
        self.coders = models.get("coders", self.coders)
        if folder is not None:
            self.coders.store_in(folder.path, load, save)
            self.coders.tidy()
        if self.learner is not None:
            refresh = self.settings.refresh
            self._online = OnlineEncoder(self.learner, refresh=refresh, coders=self.coders)

    def committed(self) -> None:
        if self._retired:
            self.coders.tidy()
            self._retired = False

    def save(self, folder: JobFolder) -> None:
        if self.learner is not None:  # coders first: until they are there, a checkpoint is newer
            save(self.coders, folder.coders_file)
            save(self.learner.with_coder(self.coders.newest), folder.model_file)
