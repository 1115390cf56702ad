"""Where a published data set is found: the named folder, then the cache, then its site if asked."""

import os
from contextlib import suppress
from pathlib import Path

from paper.datasets.archives import members
from paper.datasets.fetch import cache, check, download, trust
from paper.datasets.published import PUBLISHED, Published
from paper.datasets.table import Table, read, sample, write
from streambits.errors import InputError, StorageError

PARSED = "parsed-1.npz"  # another number once a parser gives other rows


def folder(data: str | Path | None = None) -> Path:
    """Where data files are looked for: the folder that is named, or that of STREAMBITS_DATA."""
    return Path(data or os.environ.get("STREAMBITS_DATA") or "data")


def is_here(name: str, data: str | Path | None = None) -> bool:
    """Whether a published data set can be loaded without a download."""
    found, kept = PUBLISHED[name], cache() / name
    ready = found.ready and (folder(data) / found.ready).exists()
    place = _place(found, folder(data)) or _place(found, kept)
    return bool(ready or place or (kept / PARSED).exists())


def table(name: str, data: str | Path | None = None, *, fetch: bool = False) -> Table:
    """The rows and classes of a published data set, before the last step."""
    found, here = PUBLISHED[name], folder(data)
    if found.ready and (here / found.ready).exists():
        return read(here / found.ready)
    place = _place(found, here)
    return _parse(found, here, place) if place else _cached(name, here, fetch)


def _cached(name: str, here: Path, fetch: bool) -> Table:
    found, kept = PUBLISHED[name], cache() / name
    if (kept / PARSED).exists():
        try:
            return read(kept / PARSED)
        except StorageError:  # parse again
            (kept / PARSED).unlink()
    place = _place(found, kept)
    if not place and fetch:
        place = _download(found, kept)
    if not place:
        raise _absent(name, here)
    return _parse_official(found, kept, place)


def _download(found: Published, kept: Path) -> tuple[str, ...]:
    for file in found.remotes:
        if not (kept / file.name).exists():
            download(file, kept)
    return tuple(file.name for file in found.remotes)


def _parse_official(found: Published, kept: Path, place: tuple[str, ...]) -> Table:
    """Parse what is in the cache, after a look at its checksum, and keep the result."""
    official = [file for file in found.remotes if file.name in place]
    for file in official:
        check(file, kept / file.name)
    try:
        parsed = _parse(found, kept, place)
    except StorageError as error:
        raise StorageError(f"{error} (delete {kept} to download it anew)") from error
    with suppress(StorageError):  # a cache that cannot be written is slow, and no more
        for file in official:
            trust(file, kept / file.name)
        write(kept / PARSED, parsed)
    return parsed


def _place(found: Published, where: Path) -> tuple[str, ...]:
    """The first group of names that all lie there, empty if there is none."""
    for place in found.places:
        if all((where / name).exists() for name in place):
            return place
    return ()


def _parse(found: Published, where: Path, place: tuple[str, ...]) -> Table:
    with members(where, place) as files:
        rows = found.parse(files)
    return sample(rows, found.most) if found.most else rows


def _absent(name: str, here: Path) -> InputError:
    found = PUBLISHED[name]
    *some, last = found.places[0]
    official = f"{', '.join(some)} and {last}" if some else last
    wanted = f"{found.ready} or {official}" if found.ready else official
    url = found.remotes[0].url
    site = url if len(found.remotes) == 1 else url.rpartition("/")[0]
    return InputError(
        f"the data set {name} is read from {wanted}, which is not in {here}: put it there, name "
        f"its folder in STREAMBITS_DATA, or let download=True (--download) fetch it from {site}"
    )
