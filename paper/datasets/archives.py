"""Official files as sites publish them: bare, in folders, in tar and zip archives, zips in zips.

Nothing is unpacked into a folder: a parser gets the members and opens those it wants.
"""

import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, cast

from streambits.errors import StorageError

DAMAGE = (EOFError, OSError, zlib.error, zipfile.BadZipFile, tarfile.TarError)


@contextmanager
def _whole(name: str) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise StorageError(
            f"{name} is cut off, damaged or not to be read ({error}): get it again"
        ) from error


class Member(NamedTuple):
    """name: where the file lies, with `/`, also inside an archive; stream: opens its bytes."""

    name: str
    stream: Callable[[], IO[bytes]]

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Its bytes, after gzip where the name ends in .gz; damage is a `StorageError`."""
        with _whole(self.name), self.stream() as raw:
            if self.name.endswith(".gz"):
                with gzip.open(raw) as unpacked:
                    yield cast(IO[bytes], unpacked)
            else:
                yield raw


@contextmanager
def members(root: Path, places: Iterable[str]) -> Iterator[list[Member]]:
    """Every file in those files, folders and archives, as long as the context is open."""
    with ExitStack() as stack:
        found: list[Member] = []
        for path in (root / place for place in places):
            with _whole(path.as_posix()):
                found += _inside(path, stack)
        yield found


def find(files: list[Member], *names: str) -> Member:
    """The first file of one of those names, in whatever folder or archive."""
    for file in files:
        if f"/{file.name}".endswith(tuple(f"/{name}" for name in names)):
            return file
    raise missing(files, names[0])


def missing(files: list[Member], name: str) -> StorageError:
    """That a data set is not whole."""
    beside = files[0].name if files else "nothing else"
    return StorageError(f"{name} is missing, beside {beside}: the data set is not whole")


def _inside(path: Path, stack: ExitStack) -> Iterator[Member]:
    name = path.as_posix()
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield _bare(file)
    elif name.endswith(".zip"):
        yield from _zipped(name, stack.enter_context(zipfile.ZipFile(path)), stack)
    elif name.endswith(".tar.gz"):
        yield from _tarred(name, stack.enter_context(tarfile.open(path)))  # noqa: SIM115 - closed by the stack
    else:
        yield _bare(path)


def _bare(path: Path) -> Member:
    def stream() -> IO[bytes]:
        return path.open("rb")

    return Member(path.as_posix(), stream)


def _zipped(name: str, archive: zipfile.ZipFile, stack: ExitStack) -> Iterator[Member]:
    for inner in archive.namelist():
        if inner.endswith(".zip"):  # copied: to seek in a packed member is to unpack it again
            copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - likewise
            with archive.open(inner) as packed:
                shutil.copyfileobj(packed, copy)
            nested = stack.enter_context(zipfile.ZipFile(copy))
            yield from _zipped(f"{name}/{inner}", nested, stack)
        elif not inner.endswith("/"):
            yield Member(f"{name}/{inner}", partial(archive.open, inner))


def _tarred(name: str, archive: tarfile.TarFile) -> Iterator[Member]:
    for inner in archive.getmembers():
        if inner.isfile():
            stream = partial(archive.extractfile, inner)
            yield Member(f"{name}/{inner.name}", cast(Callable[[], IO[bytes]], stream))
