"""Texts and metadata beside an index, in SQLite, of the standard library.

A change is in both or in neither, whenever the process ends: it is written here as one that waits,
with a number; then the index makes it, with that number as its note; then what waits is done. Who
opens both and finds a change waiting knows by the note of the index whether it was made.
"""

import json
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from streambits.errors import InputError, StorageError

FORMAT = 1
SQL_MAX_IDS = 500  # ids in one question to SQLite
SCALARS = (str, int, float, bool, type(None))
TABLES = """
CREATE TABLE documents (id TEXT PRIMARY KEY, text TEXT NOT NULL, metadata TEXT NOT NULL);
CREATE TABLE waiting (id TEXT PRIMARY KEY, text TEXT, metadata TEXT);
CREATE TABLE change (number INTEGER NOT NULL);
INSERT INTO change VALUES (0);
"""


class Stored(NamedTuple):
    """A text under its id. text: None in a change that removes it; metadata: JSON."""

    id: str
    text: str | None = None
    metadata: str | None = None


class Documents:
    """Texts and metadata by id in SQLite, and at most one change that waits."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.RLock()
        if path is not None:
            path.touch(0o600)
        self._base = sqlite3.connect(path or ":memory:", check_same_thread=False)
        # a store that nobody closes is closed with its last reference, which SQLite warns of since
        # Python 3.13; not at exit, where a forked child would roll back what its parent is doing
        weakref.finalize(self, self._base.close).atexit = False
        try:
            self._check_format()
        except BaseException:
            self.close()
            raise

    def _check_format(self) -> None:
        with self._asking() as base:
            [found] = base.execute("PRAGMA user_version").fetchone()
            if not found:  # new, or its process was killed before this was done
                base.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")
            elif found != FORMAT:
                raise StorageError(
                    f"{self._path} is of format {found}, and this version of streambits reads "
                    f"{FORMAT}"
                )

    @contextmanager
    def _asking(self) -> Iterator[sqlite3.Connection]:
        """All of what is done inside, or nothing."""
        with self._lock:
            try:
                with self._base as base:
                    yield base
            except sqlite3.Error as error:
                where = self._path or "documents in memory"
                raise StorageError(f"{where} cannot be used: {error}") from error
            except UnicodeEncodeError as error:
                raise InputError(f"{error.object!r} is not valid Unicode") from error

    def announce(self, rows: Sequence[Stored], made: int) -> int:
        """Write down a change that is about to be made; returns its number.

        made: the last one that the index has made, which may still wait if a disk was full.
        """
        with self._asking() as base:
            _settle(base, made)
            base.executemany("INSERT INTO waiting VALUES (?, ?, ?)", rows)
            base.execute("UPDATE change SET number = number + 1")
            return _number(base)

    def settle(self, made: int) -> None:
        """Do the change that waits if the index has made it, and forget it if not."""
        with self._asking() as base:
            _settle(base, made)

    def get(self, ids: list[str], made: int) -> list[Stored]:
        """The documents of ids, as after the last change that the index has made."""
        found: dict[str, Stored] = {}
        with self._asking() as base:
            tables = ["documents", "waiting"] if _number(base) == made else ["documents"]
            for start in range(0, len(ids), SQL_MAX_IDS):
                some = ids[start : start + SQL_MAX_IDS]
                marks = ", ".join("?" * len(some))
                for table in tables:
                    question = f"SELECT * FROM {table} WHERE id IN ({marks})"
                    found |= {row[0]: Stored(*row) for row in base.execute(question, some)}
        there = (found[name] for name in ids if name in found)
        return [one for one in there if one.text is not None]

    def ids(self) -> list[str]:
        with self._asking() as base:
            return [row[0] for row in base.execute("SELECT id FROM documents ORDER BY id")]

    def matching(self, wanted: dict[str, Any] | Callable[[Stored], bool]) -> list[str]:
        """The ids of documents that a filter lets pass."""
        with self._asking() as base:
            if callable(wanted):
                rows = base.execute("SELECT * FROM documents ORDER BY id")
                return [one.id for one in (Stored(*row) for row in rows) if wanted(one)]
            question, values = "SELECT id FROM documents WHERE 1", list[Any]()
            for key, value in wanted.items():
                if not isinstance(value, SCALARS) or not isinstance(key, str):
                    raise InputError(
                        f"filter {key!r}: {value!r} is not a text, number, boolean or None under a "
                        f"text: pass a function of a document"
                    )
                # by json_each, for paths of older SQLites find no keys that JSON has to escape
                held = "EXISTS (SELECT 1 FROM json_each(metadata) WHERE key = ? AND value IS"
                question += f" AND NOT {held} NOT NULL)" if value is None else f" AND {held} ?)"
                values += [key] if value is None else [key, value]
            return [row[0] for row in base.execute(question, values)]

    def __len__(self) -> int:
        with self._asking() as base:
            return int(base.execute("SELECT count(*) FROM documents").fetchone()[0])

    def close(self) -> None:
        with self._lock:
            self._base.close()


def _number(base: sqlite3.Connection) -> int:
    """The number of the last change that was announced."""
    return int(base.execute("SELECT number FROM change").fetchone()[0])


def _settle(base: sqlite3.Connection, made: int) -> None:
    if _number(base) == made:
        put = "INSERT OR REPLACE INTO documents SELECT * FROM waiting WHERE text IS NOT NULL"
        gone = "DELETE FROM documents WHERE id IN (SELECT id FROM waiting WHERE text IS NULL)"
        base.execute(put)
        base.execute(gone)
    base.execute("DELETE FROM waiting")


def as_json(metadata: dict[str, Any], name: str) -> str:
    """Metadata as JSON; InputError where they would come back as something else."""
    same, text = False, ""
    try:
        text = json.dumps(metadata, allow_nan=False)
        same = json.loads(text) == metadata
    except (TypeError, ValueError, RecursionError):
        pass
    if not same:
        raise InputError(
            f"the metadata of document {name!r} are not JSON, and would be lost: {metadata!r}"
        )
    return text
