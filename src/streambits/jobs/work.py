"""What a job does with rows: learn them, encode them, or both."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import CheckedRows
from streambits._device import on_device
from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError
from streambits.jobs.folder import JobFolder
from streambits.methods.settings import Settings
from streambits.model.batches import CodeBatch, RowBatch
from streambits.model.coder import Coder, warn_of_reach
from streambits.model.learner import Learner
from streambits.online import OnlineEncoder, first_rows
from streambits.storage import load, save

Ids = NDArray[np.int64]
Rows = NDArray[Any]


class Work(Protocol):
    """What a job needs of it. ready: whether all rows so far are in `models`, to be committed."""

    @property
    def ready(self) -> bool: ...
    @property
    def epoch(self) -> int: ...
    @property
    def learner(self) -> Learner | None: ...
    @property
    def device(self) -> str | None:
        """Where rows are to come, as torch knows it; None for the host."""

    @property
    def out_of_reach(self) -> int:
        """Rows of this run that no landmark reached: their codes say nothing."""

    def process(self, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        """Rows in the order of the source; gives codes, perhaps of rows that came before."""
        ...

    def finish(self) -> Iterator[CodeBatch]:
        """No more rows come for now; gives the codes of rows that waited."""
        ...

    def models(self) -> dict[str, Any]:
        """What was learned, for the checkpoint."""
        ...

    def resume(self, models: dict[str, Any], folder: JobFolder | None) -> None:
        """Go back to that, or begin if there is nothing; folder: of the job, if it has one."""
        ...

    def committed(self) -> None:
        """What `models` gave last is on the disk, and what it did not name is not needed."""
        ...

    def save(self, folder: JobFolder) -> None:
        """Write what was learned for others to use."""
        ...


class Encoding:
    """Encodes rows by a coder that stays as it is.

    Parameters
    ----------
    coder : Coder
        Makes the codes.
    model : str
        Its name, for messages.
    device : str, optional
        Where rows come, and are encoded.
    """

    ready = True
    learner = None

    def __init__(self, coder: Coder, model: str, device: str | None = None) -> None:
        self.coder, self.model, self.device = coder, model, device
        if device is not None:
            self.coder = coder.on(device)
        self.out_of_reach = 0

    @property
    def epoch(self) -> int:
        return self.coder.epoch

    def process(self, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        if not len(rows):
            return
        if rows.shape[1] != self.coder.features.inputs:
            raise InputError(
                f"the rows have {rows.shape[1]} numbers, and {self.model} is for rows of "
                f"{self.coder.features.inputs}"
            )
        codes = self.coder.encode(CheckedRows(rows), warn=False)
        lost = int(self.coder.out_of_reach(rows, codes).sum())
        warn_of_reach(lost, len(codes), "encoded")
        self.out_of_reach += lost
        yield CodeBatch(ids, codes)

    def finish(self) -> Iterator[CodeBatch]:
        yield from ()

    def models(self) -> dict[str, Any]:
        return {}

    def resume(self, models: dict[str, Any], folder: JobFolder | None) -> None:
        pass

    def committed(self) -> None:
        pass

    def save(self, folder: JobFolder) -> None:
        pass


class Learning:
    """Gathers the first rows, draws landmarks from them, and learns them and all that follow.

    Parameters
    ----------
    settings : Settings
        How to learn.
    device : str, optional
        Where rows come, and are learned.
    """

    out_of_reach = 0

    def __init__(self, settings: Settings, device: str | None = None) -> None:
        self.settings, self.device = settings, device
        if device is not None:
            on_device(device)  # or raise before anything is read
        self.learner: Learner | None = None
        self._first: list[RowBatch] = []

    @property
    def ready(self) -> bool:
        return not self._first

    @property
    def epoch(self) -> int:
        return 0 if self.learner is None else self.learner.epoch

    def process(self, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        if self.learner is not None:
            yield from self._work(self.learner, ids, rows)
        elif len(ids):
            self._first.append(RowBatch(ids, rows))
            if sum(len(batch.ids) for batch in self._first) >= self.settings.gathered:
                yield from self._start()

    def finish(self) -> Iterator[CodeBatch]:
        if self.learner is None:
            yield from self._start()

    def _start(self) -> Iterator[CodeBatch]:
        if not self._first:
            raise InputError("there are no rows that can be used")
        yield from self._begin(self._first)
        self._first = []

    def _begin(self, first: list[RowBatch]) -> Iterator[CodeBatch]:
        """Learn the rows that have waited."""
        rows = [batch.rows for batch in first]
        learner = self.settings.learner(first_rows(rows, self.settings.gathered))
        self.learner = learner if self.device is None else learner.on(self.device)
        for batch in first:
            yield from self._work(self.learner, batch.ids, batch.rows)

    def _work(self, learner: Learner, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        del ids
        if len(rows):
            learner.learn(CheckedRows(rows))
        yield from ()

    def models(self) -> dict[str, Any]:
        return {} if self.learner is None else {"learner": self.learner}

    def resume(self, models: dict[str, Any], folder: JobFolder | None) -> None:
        del folder
        self.learner = models.get("learner")
        if self.learner is not None and self.device is not None:
            self.learner = self.learner.on(self.device)

    def committed(self) -> None:
        pass

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
    """

    def __init__(
        self, settings: Settings, keep_epochs: int | None = None, device: str | None = None
    ) -> None:
        super().__init__(settings, device)
        self.coders = CoderSet()
        self._online: OnlineEncoder | None = None
        self._keep_epochs, self._retired = keep_epochs, False

    def _begin(self, first: list[RowBatch]) -> Iterator[CodeBatch]:
        self._online, codes = OnlineEncoder.start(
            self.settings, first, coders=self.coders, device=self.device
        )
        self.learner = self._online.learner
        yield from codes
        self._note()

    def _work(self, learner: Learner, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        del learner
        if self._online is not None and len(rows):
            yield from self._online.batch(ids, CheckedRows(rows))
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
