"""Online: every row is encoded, then learned."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from streambits.coder import Coder
from streambits.coders import Coders
from streambits.codes import Coded
from streambits.jobs.learning import Learning
from streambits.jobs.settings import Settings
from streambits.jobs.work import Ids, Rows
from streambits.learner import Learner
from streambits.storage import save


class Online(Learning):
    """Also encodes every row, as `flows.encode_online` does; with one `refresh`, the same codes.

    While the learner learns rows up to the next coder, another thread encodes them; if an epoch
    begins on the way, those after it are encoded again.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.coder: Coder | None = None
        self.coders = Coders()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="streambits-encode")

    def _begin(self, learner: Learner) -> None:
        self.coder = learner.coder()

    def _work(self, learner: Learner, ids: Ids, rows: Rows) -> Iterator[Coded]:
        while len(rows):
            coder = self.coder or learner.coder()
            left = self.settings.until_refresh(learner.seen)
            some = rows[:left]
            encoding = self._pool.submit(coder.encode, some)
            done = learner.take(some)
            codes = encoding.result()[:done]
            self.coders.note(coder, some[:done], codes)
            yield Coded(ids[:done], codes)
            ids, rows = ids[done:], rows[done:]
            if done == left or learner.epoch != coder.epoch:
                self.coder = learner.coder()

    def parts(self) -> dict[str, Any]:
        more = {"coder": self.coder, "coders": self.coders}
        return super().parts() | (more if self.learner is not None else {})

    def resume(self, parts: dict[str, Any]) -> None:
        super().resume(parts)
        self.coder, self.coders = parts.get("coder"), parts.get("coders", self.coders)

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.learner is not None:
            save(self.coders, folder / "coders.safetensors")
