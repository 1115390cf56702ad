"""Online: every row is encoded, then learned."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streambits.epochs.coder_set import CoderSet
from streambits.jobs.learning import Learning
from streambits.jobs.work import Ids, Rows
from streambits.methods.settings import Settings
from streambits.model.batches import CodeBatch
from streambits.model.learner import Learner
from streambits.online import OnlineEncoder
from streambits.storage import load, save


class Online(Learning):
    """Also encodes every row, by the loop of `encode_online`; with one `refresh`, the same codes.

    What encodes queries in an epoch never changes once it is over: it is written once, to a file
    of its own in the folder of the job, before the first checkpoint that names it. So memory,
    checkpoints and commits do not grow with the number of epochs. keep_epochs: how many epochs can
    be searched through the job, the current one included; None for all of them.
    """

    def __init__(self, settings: Settings, keep_epochs: int | None = None) -> None:
        super().__init__(settings)
        self.coders = CoderSet()
        self._online: OnlineEncoder | None = None
        self._keep_epochs, self._retired = keep_epochs, False

    def _begin(self, learner: Learner) -> None:
        refresh = self.settings.refresh
        self._online = OnlineEncoder(learner, refresh=refresh, coders=self.coders)

    def _work(self, learner: Learner, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        del learner
        if self._online is not None and len(rows):
            yield from self._online.batch(ids, rows)
            if self._keep_epochs is not None:
                self._retired |= self.coders.keep_newest(self._keep_epochs)

    def parts(self) -> dict[str, Any]:
        more = {"coders": self.coders}
        return super().parts() | (more if self.learner is not None else {})

    def resume(self, parts: dict[str, Any], folder: Path | None) -> None:
        super().resume(parts, folder)
        self.coders = parts.get("coders", self.coders)
        if folder is not None:
            self.coders.store_in(folder, load, save)
            self.coders.tidy()
        if self.learner is not None:
            self._begin(self.learner)

    def committed(self) -> None:
        if self._retired:
            self.coders.tidy()
            self._retired = False

    def save(self, folder: Path) -> None:
        if self.learner is not None:  # first: until they are there, a checkpoint is newer
            save(self.coders, folder / "coders.safetensors")
        super().save(folder)
