"""JobFolder: whose a job's folder is, who works in it, and where everything in it lies.

Nobody else spells the names of the files in it.
"""

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
from streambits._locks import Lock, is_held, supported
from streambits.errors import StorageError
from streambits.io.codes.parquet import read_codes
from streambits.storage import load, register, save

FORMAT = 1
NAMED = 3  # differences that a message names
REMEDY = "restore it, or choose another folder"
DEEPEST = 32  # objects in one another in job.json; ours has five
LEFT = re.compile(r"\..+?\.(\d+)(\.\d+)?\.new")  # a file or folder that a process was writing

Names = dict[str, str]  # of a setting: what the user called it, such as the path of a model


class Checkpoint:
    """All that a job needs to go on, in one file that is written whole or not at all.

    Parameters
    ----------
    offset, sink : JSON values
        Place in the source, and state of the sink.
    counts : dict of str to int
        Rows, bytes and rejects so far, size and CRC-32 of the file of rejects.
    models : dict
        What the work has learned: a learner, and of an online job its coders.
    source : JSON value, optional
        Evidence by which the source is recognised when the job goes on.
    ended : bool, optional
        Whether the source was read to its end and the sink closed; None where no one recorded it.
    """

    def __init__(
        self,
        offset: Any,
        sink: Any,
        counts: dict[str, int],
        models: dict[str, Any],
        *,
        source: Any = None,
        ended: bool | None = None,
    ) -> None:
        self.offset, self.sink, self.counts, self.models = offset, sink, counts, models
        self.source, self.ended = source, ended

    def state(self) -> dict[str, Any]:
        plain = {"offset": self.offset, "sink": self.sink, "counts": self.counts}
        plain |= {"source": self.source, "ended": self.ended}
        return {"plain": json.dumps(plain), "parts": self.models}  # storage has no lists

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**json.loads(state["plain"]), models=state["parts"])


register(Checkpoint, model=True)


class JobFolder:
    """The folder of a job; as a context it is locked, and belongs to this job.

    A folder of another job is refused, unless that job has committed nothing, and so is one that
    another process works in. Anyone may read it at any time.

    Parameters
    ----------
    path : path
        The folder; it need not exist.
    job : dict, optional
        A JSON value that says what the job is: verb, settings, source and sink. Not needed to read.
    names : dict of str to str, optional
        What the user called some of the settings, such as the path of a model. They may differ
        between two runs of one job.
    """

    def __init__(
        self, path: str | Path, job: dict[str, Any] | None = None, names: Names | None = None
    ) -> None:
        self.path = Path(path)
        described = {"format": FORMAT, **(job or {}), **({"names": names} if names else {})}
        self.job = json.loads(json.dumps(described))
        self._lock: Lock | None = None

    # What lies where

    @property
    def description_file(self) -> Path:
        """What the job is, in JSON."""
        return self.path / "job.json"

    @property
    def checkpoint_file(self) -> Path:
        """The last commit."""
        return self.path / "checkpoint.safetensors"

    @property
    def model_file(self) -> Path:
        """The learner of a job that has ended or was stopped."""
        return self.path / "model.safetensors"

    @property
    def coders_file(self) -> Path:
        """The coders of all epochs; those that are over are beside it, in files of their own."""
        return self.path / "coders.safetensors"

    @property
    def codes(self) -> Path:
        """Parquet files, unless the codes go elsewhere."""
        return self.path / "codes"

    @property
    def rejects_file(self) -> Path:
        """Rows that could not be used."""
        return self.path / "rejects.jsonl"

    @property
    def lock_file(self) -> Path:
        """The number of the process that works here."""
        return self.path / "lock"

    # Reading

    @property
    def running(self) -> bool:
        """Whether a process works here."""
        return is_held(self.lock_file)

    def checkpoint(self) -> Checkpoint | None:
        """The last commit, if there is one."""
        file = self.checkpoint_file
        if not os.path.lexists(file):  # a link that leads nowhere is damage
            return None
        found = load(file)
        if not isinstance(found, Checkpoint):
            raise StorageError(f"{file} holds a {type(found).__name__}, not a checkpoint")
        return found

    def description(self) -> dict[str, Any] | None:
        """What the job is; None where there is none."""
        path = self.description_file
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

    # Working

    def __enter__(self) -> Self:
        self._check_empty()
        with disk_errors(self.path):
            make_folder(self.path)
            self._lock = self._locked()
        try:
            self._own()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            with disk_errors(self.path):
                lock.release()

    def commit(self, checkpoint: Checkpoint) -> None:
        """From now on this is where the job is."""
        if self._lock is not None:
            self._lock.check()
        save(checkpoint, self.checkpoint_file, private=True)

    def _locked(self) -> Lock:
        if not supported():
            raise StorageError("jobs lock their folder, which needs Linux, macOS or another Unix")
        does, remedy = f"works on the job in {self.path}", "wait until it is done, or stop it"
        return Lock(self.lock_file, does, remedy)

    def _check_empty(self) -> None:
        """A folder with files and no job is not ours."""
        with disk_errors(self.path):
            files = list(self.path.iterdir()) if self.path.exists() else []
        names = {file.name for file in files if not file.name.startswith(".")}
        others = names - {self.lock_file.name}
        if self.description_file.name not in names and others:
            raise StorageError(
                f"{self.path} contains {min(others)}, which is not part of a job: choose another "
                f"folder"
            )

    def _own(self) -> None:
        there = self.description()
        if there is None:
            self._describe()
        elif found := self._differences(there):
            self._replace_job(found)
        with disk_errors(self.path):
            _clear(self.path)

    def _describe(self) -> None:
        with replacing(self.description_file) as new:
            new.write(seal(self.job))

    def _differences(self, there: dict[str, Any]) -> list[str]:
        old, new = dict(there), dict(self.job)
        names = (old.pop("names", {}), new.pop("names", {}))
        return list(differences(old, new, names=names))

    def _replace_job(self, found: list[str]) -> None:
        """Another job that has nothing to lose. Killed on the way, it still has nothing."""
        if self._holds_something():
            raise self._of_another(found)
        with disk_errors(self.path):
            self.checkpoint_file.unlink(missing_ok=True)
            sync_folder(self.path)
        self._describe()

    def _of_another(self, found: list[str]) -> StorageError:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        return StorageError(
            f"{self.path} belongs to another job: {', '.join(found[:NAMED])}{more}; give the "
            f"same command with the same files as before, or choose another folder"
        )

    def _holds_something(self) -> bool:
        """Whether there are rows that were committed, codes or models; if in doubt, yes."""
        models = set(self.path.glob("*.safetensors")) - {self.checkpoint_file}
        try:
            last = self.checkpoint()
            files = self.codes.glob("*.parquet")
            codes = any(True for file in files for _ in read_codes(file))
        except StorageError:
            return True
        return bool(models) or codes or (last is not None and any(last.counts.values()))


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Report trouble with the disk in one sentence."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be used: {error.strerror or error}") from error


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


def _wrong(job: dict[str, Any]) -> str:
    """What is wrong with a description; empty text if all is well."""
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
        inner = [one.values() if isinstance(one, dict) else one for one in level]
        level = [one for some in inner for one in some if isinstance(one, dict | list)]
    return bool(level)


def named_settings(job: dict[str, Any]) -> dict[str, Any]:
    """The settings of a job, with what the user called them.

    >>> named_settings({"settings": {"model": "1f2e"}, "names": {"model": "job/"}})
    {'model': 'job/ (1f2e)'}
    """
    names = job.get("names", {})
    return {
        key: _called(value, names[key]) if key in names else value
        for key, value in job.get("settings", {}).items()
    }


def differences(
    there: Any, here: Any, name: str = "", names: tuple[Names, Names] = ({}, {})
) -> Iterator[str]:
    """What differs between two jobs, in words. names: what settings there and here were called.

    >>> list(differences({"bits": 32, "seed": 0}, {"bits": 64, "seed": 0}))
    ['bits is 32 there and 64 here']
    >>> list(differences({"model": "1f2e"}, {"model": "77ab"}, names=({"model": "m"},) * 2))
    ['model m has changed (it was 1f2e there and is 77ab here)']
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**here, **there}:
            inner = f"{name} {key}" if name not in ("", "settings") else key
            yield from differences(there.get(key), here.get(key), inner, names)
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for old, new in zip(there, here, strict=True):
            yield from differences(old, new, name, names)
    elif isinstance(there, list) and isinstance(here, list):
        yield f"{name} are {len(there)} there and {len(here)} here"
    elif there != here:
        yield _difference(there, here, name, *(called.get(name) for called in names))


def _difference(there: Any, here: Any, name: str, old: str | None, new: str | None) -> str:
    if old is not None and old == new:
        return f"{name} {new} has changed (it was {there} there and is {here} here)"
    return f"{name} is {_called(there, old)} there and {_called(here, new)} here"


def _called(value: Any, called: str | None = None) -> str:
    text = "not set" if value is None else str(value)
    return text if called is None else f"{called} ({text})"
