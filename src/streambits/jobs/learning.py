"""Learning: the rows of a stream, from the first on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streambits.errors import InputError
from streambits.jobs.work import Ids, Rows
from streambits.methods.settings import Settings
from streambits.model.batches import CodeBatch, RowBatch
from streambits.model.learner import Learner
from streambits.storage import save


class Learning:
    """Gathers the first rows, draws landmarks from them, and learns them and all that follow."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.learner: Learner | None = None
        self._first: list[RowBatch] = []

    @property
    def ready(self) -> bool:
        return not self._first

    @property
    def epoch(self) -> int:
        return 0 if self.learner is None else self.learner.epoch

    def take(self, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        if self.learner is not None:
            yield from self._work(self.learner, ids, rows)
        elif len(ids):
            self._first.append(RowBatch(ids, rows))
            if sum(len(batch.ids) for batch in self._first) >= self.settings.gathered:
                yield from self._start()

    def rest(self) -> Iterator[CodeBatch]:
        if self.learner is None:
            yield from self._start()

    def _start(self) -> Iterator[CodeBatch]:
        if not self._first:
            raise InputError("there are no rows that can be used")
        rows = [batch.rows for batch in self._first]
        self.learner = self.settings.learner(first_rows(rows, self.settings.gathered))
        self._begin(self.learner)
        for batch in self._first:
            yield from self._work(self.learner, batch.ids, batch.rows)
        self._first = []

    def _begin(self, learner: Learner) -> None:
        pass

    def _work(self, learner: Learner, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        del ids
        if len(rows):
            learner.learn(rows)
        yield from ()

    def parts(self) -> dict[str, Any]:
        return {} if self.learner is None else {"learner": self.learner}

    def resume(self, parts: dict[str, Any], folder: Path | None) -> None:
        del folder
        self.learner = parts.get("learner")

    def committed(self) -> None:
        pass

    def save(self, folder: Path) -> None:
        if self.learner is not None:
            save(self.learner, folder / "model.safetensors")


def first_rows(batches: list[Rows], count: int) -> list[Rows]:
    """The first `count` rows of batches, in batches."""
    found = []
    for rows in batches:
        if count > 0:
            found.append(rows[:count])
        count -= len(rows)
    return found
