"""Where a job stands, and what it has made, as plain values."""

from os.path import lexists
from pathlib import Path
from typing import Any

from streambits.cli.describing import Facts, describe, of_codes
from streambits.cli.opening import coded_in
from streambits.io.rows import BROKERS
from streambits.jobs.folder import Checkpoint, JobFolder

LEARNING = ("learn", "online")  # verbs that leave a model


def of_job(path: Path) -> Facts:
    """Where a job stands, and all that it has made."""
    folder = JobFolder(path)
    told: Facts = {"kind": "job", "job": folder.description() or {}, "running": folder.running}
    last = folder.checkpoint()
    if last is not None:
        told |= {"finished": _finished(folder, told["job"], last), "progress": last.counts}
        told["endless"] = _endless(told["job"].get("source"))
    if folder.codes.is_dir() and any(folder.codes.glob("*.parquet")):
        told["codes"] = of_codes(coded_in(str(path)))
    for name, file in (("model", folder.model_file), ("coders", folder.coders_file)):
        if lexists(file):
            told[name] = describe(str(file))
    return told


def _finished(folder: JobFolder, job: Facts, last: Checkpoint) -> bool | None:
    """Whether the source was read to its end, and all is written; None if nobody noted it."""
    return last.ended and (job.get("verb") not in LEARNING or folder.model_file.exists())


def _endless(source: Any) -> bool:
    """Whether it is a broker, whose end is only the last message there was."""
    return isinstance(source, dict) and any(name in source for name in BROKERS)
