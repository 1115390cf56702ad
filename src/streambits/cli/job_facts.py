"""Where a job stands, and what it has made, as plain values."""

from os.path import lexists
from pathlib import Path
from typing import Any

from streambits._locks import is_held
from streambits.cli.describing import Facts, describe, of_codes
from streambits.cli.models import CODERS, KEPT, MODEL
from streambits.errors import StorageError
from streambits.io.codes import open_codes
from streambits.jobs.checkpoint import Checkpoint
from streambits.jobs.folder import description
from streambits.jobs.open import BROKERS
from streambits.storage import load

LEARNING = ("learn", "online")  # verbs that leave a model


def of_job(folder: Path) -> Facts:
    """Where a job stands, and all that it has made."""
    told: Facts = {"kind": "job", "job": description(folder) or {}}
    told["running"] = is_held(folder / "lock")
    if lexists(folder / KEPT):  # a link that leads nowhere is damage
        kept = load(folder / KEPT)
        if not isinstance(kept, Checkpoint):
            raise StorageError(f"{folder / KEPT} holds a {type(kept).__name__}, no checkpoint")
        told |= {"finished": _finished(folder, told["job"], kept), "progress": kept.counts}
        told["endless"] = _endless(told["job"].get("source"))
    if (folder / "codes").is_dir() and any((folder / "codes").glob("*.parquet")):
        told["codes"] = of_codes(open_codes(folder))
    for name, path in (("model", folder / MODEL), ("coders", folder / CODERS)):
        if lexists(path):
            told[name] = describe(str(path))
    return told


def _finished(folder: Path, job: Facts, kept: Checkpoint) -> bool | None:
    """Whether the source was read to its end, and all is written; None if nobody noted it."""
    models = (MODEL,) if job.get("verb") in LEARNING else ()
    return kept.ended and all((folder / name).exists() for name in models)


def _endless(source: Any) -> bool:
    """Whether it is a broker, whose end is only the last message there was."""
    return isinstance(source, dict) and any(name in source for name in BROKERS)
