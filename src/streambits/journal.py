"""Journal: changes in a file, one record behind the other, each whole or not there.

A record is a head of 40 bytes (magic, sequence number, length, digest of the body, checksum of the
head) and a body: a line of JSON, then the ids and the rows as they are in memory. A record that a
process was killed in, or a power cut has torn, is the last one; it was never acknowledged, and is
cut off. One that does not fit its digest, and has a whole record behind it, is damage.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import TEXT, Ids
from streambits._files import close_file, sync_folder
from streambits.errors import InputError, StorageError

MAGIC = b"SBJ1"
HEAD = struct.Struct("<4sQQ16s")  # magic, sequence number, length of the body, digest
CHECK = struct.Struct("<I")  # checksum of the head
SIZE = HEAD.size + CHECK.size
NOTHING: NDArray[Any] = np.empty((0, 0), np.float32)


class Record(NamedTuple):
    """A change.

    Attributes
    ----------
    kind : str
        What is done.
    ids : array of shape (n,), int64 or texts
    rows : array of shape (n, d), float32 or float64
    note : JSON value, optional
        What is to be remembered with the change, such as where its source continues.
    names : tuple of str, optional
        Names of the columns of the rows.
    prefixes : dict, optional
        Of lists in the note, how many entries they have in common with the note before it: these
        are not in the record, so that a list that grows is written once.
    """

    kind: str
    ids: Ids
    rows: NDArray[Any] = NOTHING
    note: Any = None
    names: tuple[str, ...] | None = None
    prefixes: dict[str, int] | None = None

    def behind(self, before: Any) -> "Record":
        """The same change; its note is a copy that leaves out what it shares with the one before.

        Raises
        ------
        InputError
            If the note is not a JSON value.
        """
        if self.note is None:
            return self
        note, prefixes = self.note, {}
        if isinstance(note, dict) and isinstance(before, dict):
            grown = [
                n for n in note if isinstance(note[n], list) and isinstance(before.get(n), list)
            ]
            prefixes = {name: _common(note[name], before[name]) for name in grown}
            note = note | {name: note[name][count:] for name, count in prefixes.items()}
        try:
            copy = json.loads(json.dumps(note, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"note must be a JSON value: {error}") from None
        return self._replace(note=copy, prefixes=prefixes or None)

    def note_behind(self, before: Any) -> Any:
        """The whole note, given the one before it."""
        if not self.prefixes:
            return self.note
        pairs = self.prefixes.items()
        return self.note | {name: before[name][:n] + self.note[name] for name, n in pairs}

    def encoded(self) -> bytes:
        """As bytes, for `decoded`."""
        texts = self.ids.dtype.kind == "T"
        names = [text.encode() for text in self.ids.tolist()] if texts else []
        head = {
            "kind": self.kind,
            "ids": [len(name) for name in names] if texts else len(self.ids),
            "dtype": self.rows.dtype.newbyteorder("<").str,
            "shape": list(self.rows.shape),
            "note": self.note,
        }
        more = {"names": self.names, "prefixes": self.prefixes}
        head |= {name: value for name, value in more.items() if value is not None}
        ids = b"".join(names) if texts else self.ids.astype("<i8").tobytes()
        return b"".join([json.dumps(head).encode(), b"\n", ids, self.rows.tobytes()])

    @classmethod
    def decoded(cls, body: bytes) -> "Record":
        """What `encoded` made bytes of."""
        line, _, content = body.partition(b"\n")
        head = json.loads(line)
        if isinstance(head["ids"], list):
            ends = np.cumsum([0, *head["ids"]]).tolist()
            pairs = pairwise(ends)
            ids: Ids = np.array([content[i:j].decode() for i, j in pairs], TEXT)
            size = ends[-1]
        else:
            size = 8 * head["ids"]
            ids = np.frombuffer(content[:size], "<i8").astype(np.int64)
        values = np.frombuffer(content[size:], head["dtype"])
        rows = values.astype(values.dtype.newbyteorder("=")).reshape(head["shape"])
        names = tuple(head["names"]) if "names" in head else None
        return cls(head["kind"], ids, rows, head["note"], names, head.get("prefixes"))


class JournalReader:
    """The records of a journal that may still grow.

    Parameters
    ----------
    path : Path
    first : int
        Sequence number of its first record.

    Attributes
    ----------
    sequence : int
        Number of the next record.
    position : int
        Where it begins: all before that was read, and is whole.
    """

    def __init__(self, path: Path, first: int) -> None:
        self.path, self.sequence, self.position = path, first, 0
        self._head = b""
        self._last: tuple[bytes, int] | None = None  # head of the last record, and where it is
        try:
            self._file = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error

    def read(self) -> Iterator[Record]:
        """Yield the records from here on, up to one that is not complete.

        The position advances only when the next record is requested, so a record whose application
        failed is read again.

        Raises
        ------
        StorageError
            If a record is damaged; it names the record.
        """
        while True:
            body = self._next()
            if body is None:
                return
            yield Record.decoded(body)
            self._last = self._head, self.position
            self.sequence += 1
            self.position += SIZE + len(body)

    def _next(self) -> bytes | None:
        """The body of the next record, if it is complete."""
        head = self._read(SIZE, self.position)
        if len(head) < SIZE:
            return None
        if _sequence(head) != self.sequence:
            self._check_torn("its head is not what was written")
            return None
        length, digest = HEAD.unpack(head[: HEAD.size])[2:]
        body = self._read(length, self.position + SIZE)
        if len(body) < length:
            self._check_torn("its content is cut off")
            return None
        if _digest(body) != digest:
            self._check_torn("its content is not what was written")
            return None
        self._head = head
        return body

    def _check_torn(self, why: str) -> None:
        """Take a record for one that was never whole, but raise if a later one is."""
        rest = self._read(os.fstat(self._file).st_size - self.position, self.position)
        place = rest.find(MAGIC)
        while place >= 0:
            later = _sequence(rest[place : place + SIZE])
            if later is not None and later > self.sequence:
                raise StorageError(
                    f"{self.path} is damaged in record {self.sequence}, at byte "
                    f"{self.position:,}: {why}. Nothing from there on was applied: restore the "
                    f"file from a copy, or cut it off at that byte to give up what came since"
                )
            place = rest.find(MAGIC, place + 1)

    @property
    def is_at_end(self) -> bool:
        """Whether the record that was read last ends the file."""
        size = self.position + SIZE + HEAD.unpack(self._head[: HEAD.size])[2]
        return bool(os.fstat(self._file).st_size == size)

    def inapplicable(self, error: Exception) -> StorageError:
        """What is said of the record that was read last if it cannot be applied."""
        return StorageError(
            f"{self.path} has a change (record {self.sequence}, at byte {self.position:,}) that "
            f"this version of streambits cannot apply, and others behind it: {error}. Nothing "
            f"from there on was applied: open it by the version that wrote it"
        )

    @property
    def was_taken_back(self) -> bool:
        """Whether the last record before the position is another one than was read there."""
        if not self._last:
            return False
        head, start = self._last
        return self._read(SIZE, start) != head

    def _read(self, size: int, start: int) -> bytes:
        """Bytes of the file, fewer where it ends."""
        found = b""
        while len(found) < size:
            more = os.pread(self._file, size - len(found), start + len(found))
            if not more:
                break
            found = found + more if found else more
        return found

    def close(self) -> None:
        """Close the file."""
        close_file(self)

    __del__ = close


class Journal:
    """A journal to write to; what is incomplete at its end is cut off.

    Parameters
    ----------
    path : Path
        It is made if it is missing.
    position : int
        Where the last whole record ends.
    sequence : int
        Number of the next record.
    """

    def __init__(self, path: Path, position: int, sequence: int) -> None:
        self.path, self.position, self.sequence = path, position, sequence
        self._last = position
        try:
            new = not path.exists()
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            if os.fstat(self._file).st_size != position:
                os.ftruncate(self._file, position)
                os.fsync(self._file)
            if new:
                sync_folder(path.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, record: Record) -> None:
        """Write a record; when this returns, it is on the disk.

        Raises
        ------
        StorageError
            If it cannot be written; then it is not there.
        OSError
            If it could neither be written nor taken back.
        """
        body = record.encoded()
        head = HEAD.pack(MAGIC, self.sequence, len(body), _digest(body))
        whole = b"".join([head, CHECK.pack(zlib.crc32(head)), body])
        try:
            self._write(whole)
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self.position)
            raise self._unwritable(error) from error
        self._last, self.position = self.position, self.position + len(whole)
        self.sequence += 1

    def _write(self, content: bytes) -> None:
        done, view = 0, memoryview(content)
        while done < len(view):
            done += os.pwrite(self._file, view[done:], self.position + done)

    def drop_last(self) -> None:
        """Take the last record back, which could not be applied here or anywhere else."""
        os.ftruncate(self._file, self._last)
        os.fsync(self._file)
        self.position, self.sequence = self._last, self.sequence - 1

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(f"{self.path} cannot be written: {error.strerror or error}")

    def close(self) -> None:
        """Close the file."""
        close_file(self)

    __del__ = close


def _sequence(head: bytes) -> int | None:
    """The number of the record with this head, if it is a whole one."""
    if len(head) < SIZE or CHECK.pack(zlib.crc32(head[: HEAD.size])) != head[HEAD.size :]:
        return None
    magic, sequence, _, _ = HEAD.unpack(head[: HEAD.size])
    return int(sequence) if magic == MAGIC else None


def _common(one: list[Any], other: list[Any]) -> int:
    """How many entries two lists have in common from their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()
