"""The folder of a job: whose it is, who works in it, and how far that is."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from streambits._digests import seal, unseal
from streambits._files import make_folder, replacing, sync_folder
from streambits._locks import Lock, supported
from streambits.errors import StorageError
from streambits.io.codes.parquet import read_codes
from streambits.jobs.checkpoint import Checkpoint
from streambits.jobs.differences import Names, differences
from streambits.storage import load, save

FORMAT = 1
TOLD = 3  # differences that a message names
REMEDY = "restore it, or choose another folder"
DEEPEST = 32  # objects in one another in job.json; ours has five
LEFT = re.compile(r"\..+?\.(\d+)(\.\d+)?\.new")  # a file or folder that a process was writing


class Folder:
    """job.json and checkpoint.safetensors, and while it is in use lock; used as a context.

    job: a JSON value that says what the job is: verb, settings, source and sink. A folder of
    another job is refused, unless that has kept nothing, and so is one that another process works
    in: one may read it at any time. names: what the user called some of the settings, such as the
    file of a model; others may be given later.
    """

    def __init__(self, path: str | Path, job: dict[str, Any], names: Names | None = None) -> None:
        self.path = Path(path)
        told = {"names": names} if names else {}
        self.job = json.loads(json.dumps({"format": FORMAT, **job, **told}))
        self._lock: Lock | None = None

    def __enter__(self) -> Self:
        self._check_empty()
        with told(self.path):
            make_folder(self.path)
            self._lock = _locked(self.path)
        try:
            self._own()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def checkpoint(self) -> Checkpoint | None:
        """The last one, if there is any."""
        if not os.path.lexists(self._kept):  # a link that leads nowhere is damage
            return None
        found = load(self._kept)
        if not isinstance(found, Checkpoint):
            raise StorageError(f"{self._kept} holds a {type(found).__name__}, no checkpoint")
        return found

    def keep(self, checkpoint: Checkpoint) -> None:
        """From now on this is where the job is."""
        if self._lock is not None:
            self._lock.check()
        save(checkpoint, self._kept, private=True)

    @property
    def _kept(self) -> Path:
        return self.path / "checkpoint.safetensors"

    def _check_empty(self) -> None:
        """A folder with files and no job is not ours."""
        with told(self.path):
            files = list(self.path.iterdir()) if self.path.exists() else []
        names = [file.name for file in files if not file.name.startswith(".")]
        if "job.json" not in names and set(names) - {"lock"}:
            raise StorageError(
                f"{self.path} holds {min(set(names) - {'lock'})} and no job: choose another folder"
            )

    def _own(self) -> None:
        there = description(self.path)
        if there is None:
            self._describe()
        elif found := self._differences(there):
            self._take_over(found)
        with told(self.path):
            _clear(self.path)

    def _describe(self) -> None:
        with replacing(self.path / "job.json") as new:
            new.write(seal(self.job))

    def _differences(self, there: dict[str, Any]) -> list[str]:
        old, new = dict(there), dict(self.job)
        names = (old.pop("names", {}), new.pop("names", {}))
        return list(differences(old, new, names=names))

    def _take_over(self, found: list[str]) -> None:
        """From another job that has nothing to lose. Killed on the way, it still has nothing."""
        if self._holds_something():
            more = f" and {len(found) - TOLD} more" if len(found) > TOLD else ""
            raise StorageError(
                f"{self.path} belongs to another job: {', '.join(found[:TOLD])}{more}; give the "
                f"same command with the same files as before, or choose another folder"
            )
        with told(self.path):
            self._kept.unlink(missing_ok=True)
            sync_folder(self.path)
        self._describe()

    def _holds_something(self) -> bool:
        """Whether there are rows that were committed, codes or models; if in doubt, yes."""
        models = set(self.path.glob("*.safetensors")) - {self._kept}
        try:
            kept = self.checkpoint()
            files = self.path.glob("codes/*.parquet")
            codes = any(True for file in files for _ in read_codes(file))
        except StorageError:
            return True
        return bool(models) or codes or (kept is not None and any(kept.counts.values()))


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Trouble with the disk in one sentence."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be used: {error.strerror or error}") from error


def _locked(folder: Path) -> Lock:
    if not supported():
        raise StorageError("jobs lock their folder, which needs Linux, macOS or another Unix")
    does, remedy = f"works on the job in {folder}", "wait until it is done, or stop it"
    return Lock(folder / "lock", does, remedy)


def _clear(folder: Path) -> None:
    """Remove what processes left that were killed; what others are writing stays."""
    for path in folder.glob(".*.new"):
        named = LEFT.fullmatch(path.name)
        if named is None or _runs(int(named[1])):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Whether there is another process by that number."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def description(folder: Path) -> dict[str, Any] | None:
    """What the job in a folder is; None where there is none."""
    path = folder / "job.json"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    found = unseal(content, path, REMEDY)
    wrong = _wrong(found)
    if wrong:
        raise StorageError(f"{path} is damaged ({wrong}): {REMEDY}")
    return found


def _wrong(job: dict[str, Any]) -> str:
    """In what a description is none; empty text if all is well."""
    if _too_deep(job):
        return f"more than {DEEPEST} objects are in one another"
    for name, kind in (("settings", dict), ("names", dict), ("verb", str), ("sink", str)):
        if not isinstance(job.get(name, kind()), kind):
            return f"its {name} is {str(job[name])[:40]!r}"
    if not all(isinstance(name, str) for name in job.get("names", {}).values()):
        return "its names are not texts"
    source = job.get("source")
    files = source.get("files", []) if isinstance(source, dict) else []
    if not isinstance(files, list) or not all(isinstance(f, list) and f for f in files):
        return "its source has files that are not lists of name and size"
    return ""


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner = [part.values() if isinstance(part, dict) else part for part in level]
        level = [one for part in inner for one in part if isinstance(one, dict | list)]
    return bool(level)
