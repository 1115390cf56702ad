"""Which files are meant by files, folders and globs."""

import glob
from collections.abc import Callable, Iterator
from pathlib import Path

from streambits.errors import StorageError


def expand(path: str, known: Callable[[str], bool]) -> list[str]:
    """A file, the files of a folder and of those in it, or what a glob matches, in sorted order.

    In a folder names that begin with a dot or an underscore are left out, and those not `known`.
    """
    if Path(path).is_dir():
        return _inside(path, known)
    if Path(path).exists():
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        wanted = "no file matches it" if glob.has_magic(path) else "it does not exist"
        raise StorageError(f"{path} cannot be read: {wanted}")
    files: list[str] = []
    for match in found:
        files += _inside(match, known) if Path(match).is_dir() else [match]
    return files


def _inside(folder: str, known: Callable[[str], bool]) -> list[str]:
    try:
        files = sorted(str(file) for file in _visible(Path(folder)) if known(str(file)))
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error.strerror}") from error
    if not files:
        raise StorageError(f"the folder {folder} has no files of a known format")
    return files


def _visible(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield from _visible(entry)
        else:
            yield entry
