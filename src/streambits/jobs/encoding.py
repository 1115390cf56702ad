"""Encoding: by a model that is there already."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streambits.epochs.coder_set import CoderSet
from streambits.errors import InputError
from streambits.jobs.work import Ids, Rows
from streambits.model.batches import CodeBatch
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.storage import opened


class Encoding:
    """Encodes rows by a coder that stays as it is. model: its name, for messages."""

    ready = True
    learner = None

    def __init__(self, coder: Coder, model: str) -> None:
        self.coder, self.model = coder, model

    @property
    def epoch(self) -> int:
        return self.coder.epoch

    def take(self, ids: Ids, rows: Rows) -> Iterator[CodeBatch]:
        if not len(rows):
            return
        if rows.shape[1] != self.coder.features.inputs:
            raise InputError(
                f"the rows have {rows.shape[1]} numbers, and {self.model} is for rows of "
                f"{self.coder.features.inputs}"
            )
        yield CodeBatch(ids, self.coder.encode(rows))

    def rest(self) -> Iterator[CodeBatch]:
        yield from ()

    def parts(self) -> dict[str, Any]:
        return {}

    def resume(self, parts: dict[str, Any], folder: Path | None) -> None:
        pass

    def committed(self) -> None:
        pass

    def save(self, folder: Path) -> None:
        pass


def model_file(path: str | Path) -> Path:
    """The file itself, or that of the model in the folder of a job."""
    file = Path(path)
    return file / "model.safetensors" if file.is_dir() else file


def coder_of(path: str | Path) -> tuple[Coder, str]:
    """The newest coder of a file of a learner, a coder or coders, or of the folder of a job; and
    the digest by which the file is known again.
    """
    file = model_file(path)
    model, digest = opened(file)
    if isinstance(model, Learner):
        return model.coder(), digest
    if isinstance(model, CoderSet):
        return model.newest, digest
    if isinstance(model, Coder):
        return model, digest
    raise InputError(f"{file} holds a {type(model).__name__}: name a learner or a coder")
