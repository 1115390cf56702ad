"""The folder of a job: whose it is, who works in it, and how far that is."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from streambits._files import replacing, sync_folder
from streambits.errors import StorageError
from streambits.jobs.checkpoint import Checkpoint
from streambits.jobs.differences import Names, differences
from streambits.storage import load, save
from streambits.streams.code_files import read_codes

FORMAT = 1
TOLD = 3  # differences that a message names
REMEDY = "restore it, or choose another folder"


class Folder:
    """job.json, lock and checkpoint.safetensors; used as a context, in which it is locked.

    job: a JSON value that says what the job is: verb, settings, source and sink. A folder of
    another job is refused, unless that has kept nothing, and so is one that another process works
    in. names: what the user called some of the settings, such as the file of a model; others may
    be given later.
    """

    def __init__(self, path: str | Path, job: dict[str, Any], names: Names | None = None) -> None:
        self.path = Path(path)
        told = {"names": names} if names else {}
        self.job = json.loads(json.dumps({"format": FORMAT, **job, **told}))
        self._lock: int | None = None

    def __enter__(self) -> Self:
        self._check_empty()
        with told(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.path / "lock")
        try:
            self._own()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def checkpoint(self) -> Checkpoint | None:
        """The last one, if there is any."""
        if not self._kept.exists():
            return None
        found = load(self._kept)
        if not isinstance(found, Checkpoint):
            raise StorageError(f"{self._kept} holds a {type(found).__name__}, no checkpoint")
        return found

    def keep(self, checkpoint: Checkpoint) -> None:
        """From now on this is where the job is."""
        save(checkpoint, self._kept)

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
            for left in self.path.glob(".*.new"):  # by one that was killed
                left.unlink()

    def _describe(self) -> None:
        with replacing(self.path / "job.json") as new:
            new.write(json.dumps(self.job, indent=1).encode())

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


def _locked(path: Path) -> int:
    """A lock that ends with this process, however it ends."""
    try:
        import fcntl  # noqa: PLC0415 - not on every system
    except ImportError:
        raise StorageError(
            "jobs lock their folder, which needs Linux, macOS or another Unix"
        ) from None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode().strip()
        os.close(descriptor)
        raise StorageError(
            f"another process{f' ({holder})' if holder else ''} works on the job in {path.parent}: "
            f"wait until it is done, or stop it"
        ) from None
    os.truncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def description(folder: Path) -> dict[str, Any] | None:
    """What the job in a folder is; None where there is none."""
    path = folder / "job.json"
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StorageError(f"{path} is damaged ({error}): {REMEDY}") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if not isinstance(found, dict):
        raise StorageError(f"{path} is damaged (it holds no object): {REMEDY}")
    return found
