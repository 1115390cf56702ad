"""Swap: files that take the place of others together."""

from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path

from streambits._digests import seal, unseal
from streambits._files import replacing
from streambits.errors import StorageError

REMEDY = "restore it, or begin a new job"


class Swap:
    """Exchanges the files of a sink for new ones, all or none, wherever it is killed.

    The new files are written under other names; then a small file is put beside them that lists
    them and counts the generations, from which moment on they count; then they are renamed. That
    file stays, so it is known that what is there is not what was there before.

    folder: of the files; name: of the small file; ours: patterns for the names of all files.
    """

    def __init__(self, folder: Path, name: str, *ours: str) -> None:
        self.folder, self.ours = folder, ours
        self._list = folder / f".{name}.generation"

    @property
    def generation(self) -> int:
        """How often the files were exchanged."""
        return self._read()[0]

    def new(self, name: str) -> Path:
        """Where to write a file of the next generation."""
        return self._beside(name, self.generation + 1)

    def go(self, names: list[str]) -> None:
        """The new files by these names take the place of all that are ours."""
        record = {"generation": self.generation + 1, "files": names}
        with replacing(self._list) as file:
            file.write(seal(record))
        self.finish()

    def finish(self) -> None:
        """Rename what is left to rename; drop what is not in the list."""
        generation, names = self._read()
        for name in names:  # before anything is removed
            if not self._beside(name, generation).exists() and not (self.folder / name).exists():
                raise StorageError(f"{self.folder / name} is gone, and was written: restore it")
        for name in names:
            beside = self._beside(name, generation)
            if beside.exists():
                beside.replace(self.folder / name)
        for path in self.files():
            if names and path.name not in names:
                path.unlink()

    def clear(self) -> None:
        """Drop what was being written when someone was killed."""
        for pattern in (*self.ours, escape(self._list.name)):
            for dots in (".", ".."):
                for path in self.folder.glob(f"{dots}{pattern}.*.new"):
                    if not path.is_dir():
                        path.unlink()

    def files(self) -> list[Path]:
        """Those that are ours, in the order of their names."""
        found = [path for pattern in self.ours for path in self.folder.glob(pattern)]
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def _beside(self, name: str, generation: int) -> Path:
        return self.folder / f".{name}.{generation}.new"

    def _read(self) -> tuple[int, list[str]]:
        try:
            content = self._list.read_bytes()
        except FileNotFoundError:
            return 0, []
        record = unseal(content, self._list, REMEDY)
        strange = [n for n in record["files"] if not any(fnmatchcase(n, p) for p in self.ours)]
        if strange:
            raise StorageError(f"{self._list} is damaged (it lists {strange[0]!r}): {REMEDY}")
        return int(record["generation"]), list(record["files"])
