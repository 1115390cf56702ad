"""The model that made codes, as the folder of `streambits encode` tells."""

from os.path import realpath
from pathlib import Path
from typing import NamedTuple

from streambits.errors import InputError, StorageError
from streambits.jobs.encoding import model_file
from streambits.jobs.folder import description
from streambits.storage import digest


class Maker(NamedTuple):
    """folder: of the codes; content: the digest of the model; name: its path as the user
    typed it, None where that was not yet written down.
    """

    folder: Path
    content: str
    name: str | None = None

    def is_in(self, file: Path) -> bool:
        """Whether that is the file of the model, as it was."""
        return file.is_file() and digest(file) == self.content

    def find(self) -> Path:
        """Its file: by the path from here, from the folder or from beside it; or in or beside it.

        An error that names the path, if it is gone or has changed.
        """
        near = (self.folder, Path(realpath(self.folder)).parent)
        typed = [model_file(start / self.name) for start in (Path(), *near) if self.name]
        for file in (*typed, *map(model_file, near)):
            if self.is_in(file):
                return file
        raise self._lost(next((file for file in typed if file.is_file()), None))

    def _lost(self, changed: Path | None) -> InputError:
        told = f"{self.name or 'a model'} ({self.content}), which is not there: name where it is"
        if changed is not None:
            now = f"{self.content} then, {digest(changed)} now"
            told = f"{changed}, which has changed ({now}): name a copy from then"
        return InputError(
            f"the codes of {self.folder} were made by {told} (--model), or encode the rows again"
        )


def maker_of(folder: Path) -> Maker | None:
    """Of the codes in a folder, if `streambits encode` made them and says so.

    A description that cannot be read is an error in the folder of a job; elsewhere it is that of
    somebody else.
    """
    try:
        job = (description(folder) if folder.is_dir() else None) or {}
    except StorageError:
        if (folder / "checkpoint.safetensors").exists():
            raise
        return None
    content, name = (_text(job.get(part), "model") for part in ("settings", "names"))
    return Maker(folder, content, name) if job.get("verb") == "encode" and content else None


def _text(part: object, name: str) -> str | None:
    found = part.get(name) if isinstance(part, dict) else None
    return found if isinstance(found, str) else None
