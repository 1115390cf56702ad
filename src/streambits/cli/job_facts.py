"""Where a job stands, and what it has made, as plain values."""

import fcntl
import json
from pathlib import Path

from streambits.cli.describing import Facts, describe, of_codes
from streambits.cli.models import CODERS, KEPT, MODEL
from streambits.cli.opening import coded_in
from streambits.errors import StorageError, StreambitsError
from streambits.jobs.checkpoint import Checkpoint
from streambits.storage import load
from streambits.streams.sources import open_source


def of_job(folder: Path) -> Facts:
    """Where a job stands, and all that it has made."""
    told: Facts = {"kind": "job", "job": _json(folder / "job.json")}
    told["running"] = is_locked(folder / "lock")
    if (folder / KEPT).exists():
        kept = load(folder / KEPT)
        if not isinstance(kept, Checkpoint):
            raise StorageError(f"{folder / KEPT} holds a {type(kept).__name__}, no checkpoint")
        told |= {"finished": is_finished(told["job"], kept), "progress": kept.counts}
    if (folder / "codes").is_dir() and any((folder / "codes").glob("*.parquet")):
        told["codes"] = of_codes(coded_in(str(folder)))
    for name, path in (("model", folder / MODEL), ("coders", folder / CODERS)):
        if path.exists():
            told[name] = describe(str(path))
    return told


def is_finished(job: Facts, kept: Checkpoint) -> bool | None:
    """Whether the files that a job reads hold no more rows; None if they cannot be asked."""
    told = job.get("source")
    if not isinstance(told, dict) or "files" not in told:
        return None
    names = [name for name, _ in told["files"]]
    options = {key: told[key] for key in ("columns", "ids", "format")}
    try:
        source = open_source(names, **options)
        if source.identity() != told:
            return None
        return not any(len(chunk.ids) or chunk.rejects for chunk in source.read(kept.offset))
    except StreambitsError:
        return None


def is_locked(path: Path) -> bool:
    """Whether some process holds a lock on the file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _json(path: Path) -> Facts:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise StorageError(f"{path} is damaged: it holds no object")
    return found
