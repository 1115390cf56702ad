"""The folder of a StreamIndex: which files are its current state, and the journal since."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from streambits._files import make_folder, replacing, sync_folder
from streambits._locks import Lock
from streambits.errors import StorageError
from streambits.journal import Journal, JournalReader
from streambits.row_store import RowStore

FORMAT = 1
CURRENT, LOCK, ROWS = "current.json", "lock", "rows"
JOURNALLED = 1 << 26  # bytes of a journal, at least, after which a snapshot is due
BUSY = "wait until it is done, stop it, or open the index with read_only=True"


class IndexFolder:
    """The folder of an index: the files of its current state, and the journal since.

    path: Path; writes: whether this process is the one that writes.
    """

    def __init__(self, path: Path, *, writes: bool) -> None:
        self.path, self.writes = path, writes
        self._lock = Lock(path / LOCK, f"writes to the index in {path}", BUSY) if writes else None
        self.reader: JournalReader
        self._journal: Journal | None = None
        self._current: dict[str, Any] = {}

    @classmethod
    def new(cls, path: Path) -> Self:
        make_folder(path)
        return cls(path, writes=True)

    @property
    def is_writing(self) -> bool:
        """Whether there is a journal to write to."""
        return self._journal is not None

    @property
    def journal(self) -> Journal:
        assert self._journal is not None
        return self._journal

    @property
    def sequence(self) -> int:
        """Number of the next change."""
        return 0 if self._journal is None else self._journal.sequence

    @property
    def due(self) -> int:
        """Bytes of the journal after which a snapshot is due: as many as one has."""
        return max(JOURNALLED, int(self._current["bytes"]))

    def current(self) -> dict[str, Any]:
        """The names of the files that count."""
        path = self.path / CURRENT
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            raise StorageError(f"there is no index in {self.path}") from None
        except (OSError, ValueError) as error:
            raise StorageError(f"{path} cannot be read: {error}") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise StorageError(
                f"{path} is not of format {FORMAT}, which this version of streambits reads"
            )
        return found

    def follow(self, current: dict[str, Any]) -> None:
        """Read the journal of a state from its beginning."""
        reader = JournalReader(self.path / current["journal"], current["sequence"])
        if hasattr(self, "reader"):
            self.reader.close()
        self.reader, self._current = reader, current

    def moved_on(self) -> bool:
        """Whether there is a newer state than the one that is followed."""
        return self.current() != self._current

    def follow_next(self, rows: RowStore | None) -> bool:
        """Go on with the next journal, if nothing was missed."""
        current = self.current()
        kept = rows is None or (rows.path is not None and rows.path.name == current["rows"])
        if current["sequence"] != self.reader.sequence or not kept:
            return False
        try:
            self.follow(current)
        except StorageError:
            return False
        return True

    def begin_writing(self) -> None:
        """Go on behind the last whole record."""
        reader = self.reader
        self._journal = Journal(reader.path, reader.position, reader.sequence)
        self._tidy()

    def publish(self, folder: Path, name: str, rows: str | None) -> None:
        """Make a snapshot the current state, with an empty journal."""
        if self._lock is not None:
            self._lock.check()
        target, sequence = self.path / name, self.sequence
        journal = self.path / f"journal-{sequence:012}"
        if target.exists():  # of the same changes, as after `compact`
            target = self.path / f"{name}-{self._current.get('number', 0) + 1}"
            journal = self.path / f"{journal.name}-{self._current.get('number', 0) + 1}"
        sync_folder(folder)
        folder.rename(target)
        new = Journal(journal, 0, sequence)
        size = sum(file.stat().st_size for file in target.iterdir())
        self._current = {
            "format": FORMAT,
            "number": self._current.get("number", 0) + 1,
            "sequence": sequence,
            "snapshot": target.name,
            "journal": journal.name,
            "rows": rows,
            "bytes": size,
        }
        with replacing(self.path / CURRENT, private=True) as file:
            file.write(json.dumps(self._current, indent=1).encode() + b"\n")
        if self._journal is not None:
            self._journal.close()
        self._journal = new
        self._tidy()

    def _tidy(self) -> None:
        """Remove what no current state needs; readers that have it open can go on reading it."""
        kept = {self._current[name] for name in ("snapshot", "journal", "rows")}
        for path in self.path.iterdir():
            ours = path.name.lstrip(".").startswith(("snapshot-", "journal-", f"{ROWS}-"))
            if ours and path.name not in kept:
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if hasattr(self, "reader"):
            self.reader.close()
        if self._lock is not None:
            self._lock.release()


def check_empty(path: Path) -> None:
    """Refuse a place where something is already."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StorageError(f"{path} is not an empty folder: choose another place for the index")
