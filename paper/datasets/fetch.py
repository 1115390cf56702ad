"""Downloads, only on request: into a cache folder, with a progress bar and a checksum.

Where somebody whom we trust publishes a checksum, the file must have it. Where nobody does, the
first copy that could be read is trusted: its SHA-256 is kept beside it, and whatever is parsed or
downloaded later is held against that.
"""

import hashlib
import os
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, NamedTuple
from urllib.error import HTTPError

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from streambits._files import replacing
from streambits.errors import InputError, StorageError

CHUNK = 1 << 18
TIMEOUT = 30  # seconds without a byte


class Remote(NamedTuple):
    """name: what the file is called here; url: where it is had; checksum: 'sha256:...' or
    'md5:...', empty where none is published.
    """

    name: str
    url: str
    checksum: str = ""


def cache() -> Path:
    """Where downloads are kept: the folder that STREAMBITS_CACHE names, or ~/.cache/streambits."""
    named = os.environ.get("STREAMBITS_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "streambits"


def download(remote: Remote, folder: Path, console: Console | None = None) -> Path:
    """Fetch a file, whole and with the right checksum, or not at all."""
    console = console or _stderr()
    path, part = folder / remote.name, folder / f".{remote.name}.{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(remote.url, timeout=TIMEOUT) as source, part.open("wb") as to:
            length = source.headers.get("Content-Length")
            _copy(source, to, remote, None if length is None else int(length), console)
        check(remote, part)
        part.replace(path)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        reason = getattr(error, "reason", error)
        raise InputError(
            f"{remote.name} cannot be downloaded from {remote.url} ({reason}): "
            f"put it into {folder} yourself, or try again later"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()
    return path


def _copy(
    source: IO[bytes], to: IO[bytes], remote: Remote, length: int | None, console: Console
) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    quiet = not console.is_interactive
    bar = Progress(*columns, TransferSpeedColumn(), console=console, transient=True, disable=quiet)
    console.print(f"downloading {remote.name} from {remote.url}", soft_wrap=True)
    done = 0
    with bar:
        task = bar.add_task(remote.name, total=length)
        while chunk := source.read(CHUNK):
            to.write(chunk)
            done += len(chunk)
            bar.update(task, completed=done)
    if length is not None and done != length:
        raise InputError(
            f"the download of {remote.name} broke off after {done} of {length} bytes: try again"
        )


def check(remote: Remote, path: Path) -> None:
    """Hold a file against the published checksum, or against that of the first copy.

    A file with another one is deleted.
    """
    record = _record(remote, path)
    known, says = remote.checksum, ""
    if not known and record.exists():
        known, says = f"sha256:{record.read_text().split()[0]}", f" (says {record})"
    method, _, expected = known.partition(":")
    if not expected:
        return
    found = _digest(path, method)
    if found != expected:
        path.unlink()
        raise StorageError(
            f"{remote.name} has the {method} {found}, where {expected} belongs{says}: it was "
            f"deleted; download it again, and if that does not help, {remote.url} has changed"
        )


def trust(remote: Remote, path: Path, console: Console | None = None) -> None:
    """Keep the checksum of a first copy for which none is published, and say so."""
    record = _record(remote, path)
    if remote.checksum or record.exists():
        return
    with replacing(record) as file:
        file.write(f"{_digest(path, 'sha256')}  {remote.name}\n".encode())
    (console or _stderr()).print(
        f"nobody publishes a checksum of {remote.name}: this first copy is trusted, and later "
        f"ones must be the same ({record})",
        soft_wrap=True,
    )


def _record(remote: Remote, path: Path) -> Path:
    return path.with_name(f"{remote.name}.sha256")


def _digest(path: Path, method: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, method).hexdigest()


def _stderr() -> Console:
    return Console(stderr=True, highlight=False)
