"""The folder of a StreamIndex: which files are its current state, and the journal since."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        self._closed = False
        self._tried = 0  # bytes of the journal before which no snapshot is tried again

    @classmethod
    def new(cls, path: Path) -> Self:
        with writing(path):
            make_folder(path)
            self = cls(path, writes=True)
        try:
            check_empty(path)  # another process may have been quicker
            self._tidy()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def is_writing(self) -> bool:
        """Whether there is a journal to write to."""
        return self._journal is not None

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def journal(self) -> Journal:
        assert self._journal is not None
        return self._journal

    @property
    def sequence(self) -> int:
        """Number of the next change."""
        return 0 if self._journal is None else self._journal.sequence

    @property
    def number(self) -> int:
        """Number of the next snapshot, by which its files are named."""
        return int(self._current.get("number", 0)) + 1

    @property
    def due(self) -> int:
        """Bytes of the journal after which a snapshot is due: as many as one has."""
        return max(JOURNALLED, int(self._current["bytes"]), self._tried)

    def put_off(self) -> None:
        """Remember that a snapshot has failed: the next is due when the journal has grown."""
        self._tried = self.journal.position + max(JOURNALLED, self.journal.position) // 8

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
        kept = rows is None or (rows.name == current["rows"])
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

    def publish(self, folder: Path, rows: str | None) -> None:
        """Make a snapshot the current state, with an empty journal.

        Where it is not known afterwards which state is the current one, the journal is closed.
        """
        if self._lock is not None:
            self._lock.check()
        number, sequence = self.number, self.sequence
        target, journal = self.path / f"snapshot-{number}", self.path / f"journal-{number}"
        with writing(self.path):
            self._discard(target, journal)
            sync_folder(folder)
            folder.rename(target)
        new, old = Journal(journal, 0, sequence), self._journal
        current = {
            "format": FORMAT,
            "number": number,
            "sequence": sequence,
            "snapshot": target.name,
            "journal": journal.name,
            "rows": rows,
            "bytes": sum(file.stat().st_size for file in target.iterdir()),
        }
        self._journal = None
        try:
            with replacing(self.path / CURRENT, private=True) as file:
                file.write(json.dumps(current, indent=1).encode() + b"\n")
        except BaseException:
            new.close()
            if old is not None and self.current() == self._current:
                self._journal = old
            raise
        self._journal, self._current, self._tried = new, current, 0
        if old is not None:
            old.close()
        self._tidy()

    def _tidy(self) -> None:
        """Remove what no current state needs; readers that have it open can go on reading it."""
        kept = {self._current.get(name) for name in ("snapshot", "journal", "rows")}
        with suppress(OSError):  # what stays is removed the next time
            self._discard(
                *(path for path in self.path.iterdir() if path.name not in kept and _is_ours(path))
            )

    def _discard(self, *paths: Path) -> None:
        """Remove files and folders, if they are there."""
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        self._closed = True
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if hasattr(self, "reader"):
            self.reader.close()
        if self._lock is not None:
            self._lock.release()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Report what the system refuses as an error of the index in a folder."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"the index in {path} cannot be written: {error.strerror or error}"
        ) from error


def check_empty(path: Path) -> None:
    """Refuse a place where something is already.

    What a first opening leaves that was killed, hidden files, and what a file system puts into its
    topmost folder are nothing.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise StorageError(f"{path} is a file: choose another place for the index")
    others = sorted(file.name for file in path.iterdir() if not _is_left_over(file))
    if others:
        raise StorageError(
            f"{path} contains {others[0]}, which is not part of an index: choose an empty folder"
        )


def _is_left_over(path: Path) -> bool:
    if path.name.startswith("journal-") and path.stat().st_size:
        return False
    first = re.fullmatch(rf"(snapshot|journal|{ROWS})-0*[01]", path.name)
    return bool(first) or path.name.startswith(".") or path.name in (LOCK, "lost+found")


def _is_ours(path: Path) -> bool:
    return path.name.lstrip(".").startswith(("snapshot-", "journal-", f"{ROWS}-"))
