"""Online: every row is encoded, then learned."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from streambits.epochs.coder_set import Coders
from streambits.jobs.learning import Learning
from streambits.jobs.settings import Settings
from streambits.jobs.work import Ids, Rows
from streambits.model.coder import Coder
from streambits.model.codes import Coded, Codes
from streambits.model.learner import Learner
from streambits.storage import load, save


class Online(Learning):
    """Also encodes every row, as `flows.encode_online` does; with one `refresh`, the same codes.

    While the learner learns rows up to the next coder, another thread encodes them; if an epoch
    begins on the way, those after it are encoded again.

    What encodes queries in an epoch never changes once it is over: it is written once, to a file
    of its own in the folder of the job, before the first checkpoint that names it. So memory,
    checkpoints and commits do not grow with the number of epochs. keep_epochs: how many epochs can
    be searched through the job, the current one included; None for all of them.
    """

    def __init__(self, settings: Settings, keep_epochs: int | None = None) -> None:
        super().__init__(settings)
        self.coder: Coder | None = None
        self.coders = Coders()
        self._keep_epochs, self._retired = keep_epochs, False

    def _begin(self, learner: Learner) -> None:
        self.coder = learner.coder()

    def _work(self, learner: Learner, ids: Ids, rows: Rows) -> Iterator[Coded]:
        with ThreadPoolExecutor(1, thread_name_prefix="streambits-encode") as beside:
            while len(rows):
                coder = self.coder or learner.coder()
                left = self.settings.until_refresh(learner.seen)
                some = rows[:left]
                encoding = beside.submit(coder.encode, some)
                done = learner.take(some)
                codes = encoding.result()[:done]
                self._note(coder, some[:done], codes)
                yield Coded(ids[:done], codes)
                ids, rows = ids[done:], rows[done:]
                if done == left or learner.epoch != coder.epoch:
                    self.coder = learner.coder()

    def _note(self, coder: Coder, rows: Rows, codes: Codes) -> None:
        self.coders.note(coder, rows, codes)
        if self._keep_epochs is not None:
            self._retired |= self.coders.keep_newest(self._keep_epochs)

    def parts(self) -> dict[str, Any]:
        more = {"coder": self.coder, "coders": self.coders}
        return super().parts() | (more if self.learner is not None else {})

    def resume(self, parts: dict[str, Any], folder: Path | None) -> None:
        super().resume(parts, folder)
        self.coder, self.coders = parts.get("coder"), parts.get("coders", self.coders)
        if folder is not None:
            self.coders.store_in(folder, load, save)
            self.coders.tidy()

    def committed(self) -> None:
        if self._retired:
            self.coders.tidy()
            self._retired = False

    def save(self, folder: Path) -> None:
        if (
            self.learner is not None
        ):  # the coders first: until they are there, a checkpoint is newer
            save(self.coders, folder / "coders.safetensors")
        super().save(folder)
