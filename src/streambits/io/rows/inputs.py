"""Inputs: where the bytes of a file source come from, and how a file is recognised later.

An input is a file on disk, a file behind a URL such as s3://bucket/file, or standard input, which
is read once. The fingerprint of a file tells after a restart whether it is still the same.
"""

import functools
import glob
import gzip
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from streambits.errors import InputError, StorageError

WINDOW = 1 << 16  # bytes at the ends of a file, and before an offset, that make its fingerprint
LARGEST_BATCH = 1 << 25  # bytes of rows that are handed out together; no row may have more
CONTAINERS = ("abfs", "abfss")  # schemes with a name, which is no secret, before the host


class Input:
    """A file that a reader opens; one whose name ends in .gz is decompressed.

    Attributes
    ----------
    name : str
        What messages call it: a path, or a URL without secrets.
    once : bool
        Whether it can be read only once, and from its beginning only.
    seekable : bool
        Whether any place in it can be reached without reading what comes before.
    """

    once = False

    def __init__(self, name: str) -> None:
        self._remote = resolve(name) if "://" in name else None
        self._path = name if self._remote is None else self._remote[1]
        self.name = public_name(name)
        self.seekable = not self._path.endswith(".gz")

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes from the beginning."""
        with self.open_raw() as raw:
            if self.seekable:
                yield raw
            else:
                with gzip.open(raw) as unpacked:
                    yield cast("BinaryIO", unpacked)

    def open_raw(self) -> Any:
        """The file as it is stored, which pyarrow reads too."""
        if self._remote is None:
            return open(self._path, "rb")
        return self._remote[0].open_input_file(self._path)

    def open_arrow(self) -> Any:
        """The same for pyarrow, which reads files on disk without Python's help."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and not needed by every format

        return pa.OSFile(self._path) if self._remote is None else self.open_raw()

    def stat(self) -> tuple[int, int | None] | None:
        """Size, and time of the last change in nanoseconds; None for what is not a plain file."""
        if self._remote is not None:
            info = self._remote[0].get_file_info(self._path)
            if not info.is_file:
                raise FileNotFoundError(self.name)
            return int(info.size), info.mtime_ns
        now = os.stat(self._path)
        return (now.st_size, now.st_mtime_ns) if stat.S_ISREG(now.st_mode) else None

    def size(self) -> int | None:
        """Bytes of the file, if any place in it can be reached."""
        found = self.stat() if self.seekable else None
        return found and found[0]

    @property
    def local_path(self) -> str | None:
        """Where the file is on disk, as it is read."""
        return self._path if self._remote is None and self.seekable else None


class StandardInput(Input):
    """Standard input, read once."""

    once = True

    def __init__(self) -> None:
        self.name, self.seekable, self._opened = "standard input", False, False

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        if self._opened:
            raise StorageError("standard input can be read only once: write it to a file first")
        self._opened = True
        try:
            number = sys.stdin.buffer.fileno()
        except (AttributeError, OSError, ValueError):  # replaced by something without a file
            yield sys.stdin.buffer
            return
        # sys.stdin itself is not read: Python cannot end while a thread waits in it
        with open(number, "rb", closefd=False, buffering=0) as stream:
            yield cast("BinaryIO", stream)

    def stat(self) -> None:
        return None


def fill(stream: Any, buffer: memoryview, done: int = 0) -> int:
    """Fill a buffer that has `done` bytes already, and return how many it has then."""
    while done < len(buffer):
        count = stream.readinto(buffer[done:])
        if not count:
            break
        done += count
    return done


def ends_before(source: Input, where: str) -> StorageError:
    """The error of an input that is shorter than the offset to resume from."""
    return StorageError(
        f"{source.name} ends before the place to resume from{where}: is it the same as before?"
    )


def batch_rows(most: int, size: int) -> int:
    """How many rows of `size` bytes are handed out together: at most 32 MiB, at least one."""
    return max(1, min(most, LARGEST_BATCH // max(1, size)))


# Files by their paths and URLs.


def public_name(name: str) -> str:
    """A path as it is, a URL without login and query, which may have secrets.

    >>> public_name("s3://key:secret@bucket/year=2026/a.parquet?region=x"), public_name("a.csv")
    ('s3://bucket/year=2026/a.parquet', 'a.csv')
    """
    if "://" not in name:
        return name
    parts = urlsplit(name, allow_fragments=False)
    login, _, host = parts.netloc.rpartition("@")
    if ":" in host and not host.rpartition(":")[2].isdigit():  # a login with a slash
        raise InputError(
            f"{parts.scheme}://... is not a URL: write / and @ as %2F and %40 in a login"
        )
    container = f"{login}@" if parts.scheme in CONTAINERS and ":" not in login else ""
    return f"{parts.scheme}://{container if login else ''}{host}{parts.path}"


def resolve(url: str) -> tuple[Any, str]:
    """The file system of a URL, as pyarrow has them, and the path in it."""
    parts = urlsplit(url, allow_fragments=False)
    query = f"?{parts.query}" if parts.query else ""
    if parts.scheme in ("http", "https"):  # there the query says which file it is
        system, root = _filesystem(f"{parts.scheme}://{parts.netloc}")
        return system, f"{root.rstrip('/')}{parts.path}{query}"
    system, root = _filesystem(f"{parts.scheme}://{parts.netloc}{query}")
    return system, f"{root.rstrip('/')}{parts.path}"


@functools.cache
def _filesystem(root: str) -> tuple[Any, str]:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import fs  # noqa: PLC0415

    scheme, name = root.partition("://")[0], public_name(root)
    try:
        system, path = fs.FileSystem.from_uri(root if scheme != "file" else "file:///")
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise InputError(f"{name} cannot be opened: it is not a URL of files") from error
    else:
        return system, path
    try:
        import fsspec  # noqa: PLC0415

        inner, path = fsspec.core.url_to_fs(root)
    except ImportError as error:  # fsspec says which package to install
        missing = "it needs the package 'fsspec': pip install fsspec"
        reason = missing if error.name == "fsspec" else str(error)
        raise InputError(f"{name} cannot be opened: {reason}") from error
    except ValueError:
        raise InputError(
            f"{name} is not a source: no package knows {scheme}://; name files, URLs of files such "
            f"as s3://, or one of nats://, tls://, kafka://"
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(inner)), path


def expand(name: str, has_format: Callable[[str], bool]) -> list[str]:
    """A file, the files of a folder and of those in it, or what a glob matches, in sorted order.

    In a folder, names that begin with a dot or an underscore are left out, and names of which
    `has_format` is false.
    """
    try:
        if name.startswith("file://"):
            name = resolve(name)[1]
        if "://" in name:
            matches, folders = _match_remote(name)
        else:
            matches = [name] if Path(name).exists() else sorted(glob.glob(name, recursive=True))
            folders = {
                match: _files_below(Path(match)) for match in matches if os.path.isdir(match)
            }
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise StorageError(f"{public_name(name)} cannot be read: {reason}") from error
    if not matches:
        reason = "no file matches it" if glob.has_magic(name) else "it does not exist"
        raise StorageError(f"{public_name(name)} cannot be read: {reason}")
    files = []
    for match in matches:
        below = sorted(file for file in folders.get(match, ()) if has_format(file))
        if match in folders and not below:
            raise StorageError(f"the folder {public_name(match)} has no files of a known format")
        files += below if match in folders else [match]
    return files


def _files_below(folder: Path) -> list[str]:
    files = []
    for entry in folder.iterdir():
        if not entry.name.startswith((".", "_")):
            files += _files_below(entry) if entry.is_dir() else [str(entry)]
    return files


def _match_remote(url: str) -> tuple[list[str], dict[str, list[str]]]:
    """What a URL or a glob matches, and the files below those that are folders."""
    from pyarrow import fs  # noqa: PLC0415

    system, path = resolve(url)
    kind = system.get_file_info(path).type
    if kind == fs.FileType.File:
        return [url], {}
    parts = PurePosixPath(path).parts
    magic = [place for place, part in enumerate(parts) if glob.has_magic(part)]
    if kind == fs.FileType.NotFound and not magic:
        return [], {}
    fixed = len(parts) if kind == fs.FileType.Directory else magic[0]
    base, pattern = "/".join(parts[:fixed]).replace("//", "/"), parts[fixed:]
    before, mark, query = url.partition("?")
    root = "/".join(before.rstrip("/").split("/")[: -len(pattern) or None])
    files = []
    for info in system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True)):
        below = PurePosixPath(info.path).parts[fixed:]
        visible = not any(part.startswith((".", "_")) for part in below)
        alike = len(below) == len(pattern) and all(map(fnmatchcase, below, pattern))
        if info.is_file and (alike if pattern else visible):
            files.append("/".join((root, *below)) + mark + query)
    return (sorted(files), {}) if pattern else ([url], {url: files})


# Whether a file is still the one that was read.

Fingerprint = dict[str, Any]  # of a file: size, time, and digests of some windows, by name
DIFFERENCES = {
    "head": f"its first {WINDOW // 1024} KiB differ",
    "tail": f"its last {WINDOW // 1024} KiB differ",
    "before": f"the {WINDOW // 1024} KiB before the offset to resume from differ",
}


def fingerprint(source: Input, size: int | None = None) -> Fingerprint | None:
    """What identifies a file: its size and two windows of it; None for what is not a plain file.

    The windows are those of a file of `size` bytes, by default its own size.
    """
    now = source.stat()
    if now is None:  # opening a pipe would already change it
        return None
    size = now[0] if size is None else size
    with source.open_raw() as file:
        head, tail = digest(file, 0, WINDOW), digest(file, size - WINDOW, size)
    return {"size": now[0], "modified": now[1], "head": head, "tail": tail}


def digest_before(source: Input, position: int) -> str | None:
    """A digest of the window before a position; None if the file is gone."""
    try:
        with source.open_raw() as file:
            return digest(file, position - WINDOW, position)
    except OSError:
        return None


def digest(file: Any, start: int, end: int) -> str:
    """A digest of some bytes of a file."""
    file.seek(max(0, start))
    return hashlib.blake2b(file.read(end - max(0, start)), digest_size=8).hexdigest()


def difference(source: Input, earlier: Fingerprint, *, quick: bool = False) -> str:
    """In what a file differs from an earlier fingerprint, in words; nothing if it does not.

    The time of a file says nothing: copies and backups change it. If `quick`, a file of
    the same size and time is the same.
    """
    stated = source.stat()
    if quick and stated == (earlier["size"], earlier["modified"]):
        return ""
    now = fingerprint(source, earlier["size"])
    if now is None:
        return "it is not a plain file any more"
    if earlier.get("before") is not None:
        place, known = earlier["before"]
        now["before"], earlier = digest_before(source, place), earlier | {"before": known}
    words = [text for name, text in DIFFERENCES.items() if now.get(name) != earlier.get(name)]
    if now["size"] != earlier["size"]:
        words.insert(0, f"it has {now['size']:,} bytes and had {earlier['size']:,}")
    if not words:
        return ""
    then, today = (_time(facts["modified"]) for facts in (earlier, now))
    when = "" if then == today else f" (last modified {today}; when it was read, {then})"
    return f"{words[0]}{when}"


def _time(nanoseconds: int | None) -> str:
    if nanoseconds is None:
        return "unknown"
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
