"""The folder of a job that an engine runs: it is locked, belongs to that job, and resumes.

Shards and parts of partitions that are finished lie in it with a record of what they were made
from, so that the same command makes only what is missing, on the same engine or another.
"""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from streambits._files import make_folder
from streambits.engines import run
from streambits.engines.frames import FramePartition
from streambits.engines.partitions import ArrayPartition, Partition, partition_errors
from streambits.engines.parts import RECORDS, SHARDS, Part, digest_of, recorded
from streambits.engines.run import Engine, Learned, OnDone, silent
from streambits.engines.shards import Report
from streambits.errors import StorageError
from streambits.jobs.folder import JobFolder
from streambits.methods.settings import Settings
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.storage import digest, load, save, to_bytes


class EngineJob(NamedTuple):
    """What a job reads, and where it works.

    Attributes
    ----------
    partitions : list of Partition
    folder : Path
        All workers must see it.
    source : dict
        A JSON value that says where the partitions come from.
    settings : dict, optional
        What the model was made with, as the folder records it; by default by the model itself.
    names : dict, optional
        What the user called some of the settings.
    """

    partitions: list[Any]
    folder: Path
    source: dict[str, Any]
    settings: dict[str, Any] | None = None
    names: dict[str, str] | None = None

    def opened(self, verb: str, settings: dict[str, Any]) -> JobFolder:
        """The folder of this job, to be entered."""
        described = {"verb": verb, "settings": self.settings or settings, "source": self.source}
        if verb == "encode":
            described["sink"] = "codes"
        return JobFolder(self.folder, described | {"partitions": "files"}, self.names)


def learn(
    engine: Engine,
    plan: EngineJob,
    learner: Learner | Settings,
    *,
    refuse: bool = False,
    on_done: OnDone = silent,
) -> Learned:
    """Learn all partitions in the folder of a job, or what is missing of them.

    Parameters
    ----------
    engine, learner, refuse, on_done
        As for `run.learn`.
    plan : EngineJob

    Returns
    -------
    Learned
        The learner is also in model.safetensors; the shards are gone then.

    Raises
    ------
    StorageError
        If the folder belongs to another job, or has learned other files to the end.
    """
    made_with = learner.plain() if isinstance(learner, Settings) else {"from": _digest(learner)}
    with plan.opened("learn", made_with) as folder:
        if folder.model_file.exists():
            return _finished(engine, plan, folder)
        start = _start(engine, plan, learner, on_done) if isinstance(learner, Settings) else learner
        found = run.learn(
            engine, plan.partitions, start, folder=plan.folder, refuse=refuse, on_done=on_done
        )
        save(found.learner, folder.model_file)
        shutil.rmtree(plan.folder / SHARDS)
        return found


def encode(
    engine: Engine, plan: EngineJob, coder: Coder, *, on_done: OnDone = silent
) -> list[Part]:
    """Encode all partitions in the folder of a job, or what is missing of them.

    Parameters
    ----------
    engine, coder, on_done
        As for `run.encode`.
    plan : EngineJob

    Returns
    -------
    list of Part
    """
    with plan.opened("encode", {"model": _digest(coder)}) as folder:
        if not folder.coders_file.exists():
            save(coder, folder.coders_file)
        return run.encode(engine, plan.partitions, coder, plan.folder, on_done=on_done)


def _digest(model: Learner | Coder) -> str:
    return digest(to_bytes(model))


def _start(engine: Engine, plan: EngineJob, settings: Settings, on_done: OnDone) -> Learner:
    """The learner that shards begin from; once landmarks are drawn, they are kept."""
    path = None
    elsewhere = (ArrayPartition, FramePartition)  # whose rows this process may not have
    if not any(isinstance(one, elsewhere) for one in plan.partitions):
        prints = [_fingerprint(one) for one in plan.partitions]
        name = digest_of(json.dumps([settings.plain(), prints]).encode())
        path = plan.folder / SHARDS / f"start-{name}.safetensors"
        make_folder(path.parent)
        if path.exists():
            found = load(path)
            if isinstance(found, Learner):
                return found
    start = run.start(engine, plan.partitions, settings, on_done=on_done)
    if path is not None:
        save(start, path, private=True)
    return start


def _fingerprint(partition: Partition) -> Any:
    with partition_errors(partition):
        try:
            return json.loads(json.dumps(partition.fingerprint()))
        except OSError as error:
            raise StorageError(f"it cannot be read: {error.strerror or error}") from error


def _fingerprint_task(shared: Any, partition: Partition) -> bytes:
    """The fingerprint of a partition, by a worker that has its rows."""
    del shared
    return json.dumps(_fingerprint(partition)).encode()


def _unchanged(engine: Engine, partition: Partition, known: Any) -> bool:
    """Whether a partition is the one that was recorded; by its count, if rows are elsewhere."""
    if isinstance(partition, FramePartition):
        return bool(known["rows"] == partition.count)
    if isinstance(partition, ArrayPartition):
        [found] = engine.map(_fingerprint_task, [partition], None, lambda *_: None)
        return bool(known == json.loads(found))
    return bool(known == _fingerprint(partition))


def _finished(engine: Engine, plan: EngineJob, folder: JobFolder) -> Learned:
    """What was learned to the end before, if it was learned from these partitions."""
    reports = []
    for one in plan.partitions:
        known = recorded(plan.folder, one.number)
        if known is None or not _unchanged(engine, one, known["from"]):
            what = "is new" if known is None else "has changed"
            raise StorageError(
                f"{folder.path} has learned all there was, and since then partition {one.number} "
                f"({one.name}) {what}: choose another folder"
            )
        reports.append(Report(one.number, one.name, int(known["rows"])))
    count = len(list((plan.folder / RECORDS).glob("*.json")))
    if count > len(reports):
        raise StorageError(
            f"{folder.path} has learned {count} partitions, and there are {len(reports)} now: "
            f"choose another folder"
        )
    learner = load(folder.model_file)
    if not isinstance(learner, Learner):
        raise StorageError(f"{folder.model_file} holds a {type(learner).__name__}, not a learner")
    return Learned(learner, tuple(reports))
