"""Digests: whether a file still holds what was written to it.

A JSON record carries a digest of its own values. A file of a foreign format has no place for one,
so a small record lies beside it; where that is missing, the file is somebody else's and is taken as
it is. Digests find damage; they do not prove who wrote a file.
"""

import hashlib
import json
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from streambits._files import replacing
from streambits.errors import StorageError

KEY = "digest"
BLOCK = 1 << 20  # bytes read at a time
MARK = re.compile(r"# digest of streambits: (\w+); .*\n?")


class Digest(NamedTuple):
    """The number of bytes and their CRC-32: two plain numbers, so that it can be gone on with.

    >>> Digest.of(b"ab") == Digest.of(b"a").then(b"b")
    True
    """

    size: int = 0
    crc: int = 0

    @classmethod
    def of(cls, data: Any) -> "Digest":
        """Of some bytes."""
        return cls().then(data)

    @classmethod
    def of_file(cls, file: BinaryIO, size: int, start: int = 0) -> "Digest":
        """Of so many bytes of an open file, which is left at `start`."""
        digest = cls()
        file.seek(start)
        while block := file.read(min(BLOCK, size - digest.size)):
            digest = digest.then(block)
        file.seek(start)
        return digest

    def then(self, data: Any) -> "Digest":
        """Of what came before, and of some bytes after it."""
        return Digest(self.size + memoryview(data).nbytes, zlib.crc32(data, self.crc))


def seal(record: dict[str, Any]) -> bytes:
    """A record as indented JSON with a digest of its values."""
    plain = json.loads(json.dumps(record))
    return json.dumps({**plain, KEY: _digest(plain)}, indent=1).encode()


def unseal(content: bytes, path: Path, remedy: str = "restore it") -> dict[str, Any]:
    """The record that `seal` made; anything else is an error that names `path`."""
    try:
        found = json.loads(content)
        noted = found.pop(KEY, None) if isinstance(found, dict) else None
        right = noted is not None and noted == _digest(found)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged ({error}): {remedy}") from error
    if not right:
        why = "it carries no digest" if noted is None else "its digest is another"
        raise StorageError(f"{path} is damaged ({why}): {remedy}")
    return dict(found)


def _digest(record: dict[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def seal_text(text: str) -> str:
    """A text with a comment before and after it, that carry a digest of it."""
    mark = f"# digest of streambits: {_of_text(text)}; delete such lines before you edit this\n"
    return mark + text + mark


def check_text(text: str, path: Path) -> None:
    """Refuse a text that `seal_text` made, and that has changed since; others may be anything."""
    found = MARK.findall(text)
    if found and found != 2 * [_of_text(MARK.sub("", text))]:
        raise StorageError(
            f"{path} is damaged, or was edited: write it again, or delete the lines that begin "
            f"with '# digest of streambits'"
        )


def _of_text(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


class Record(NamedTuple):
    """What is known of files: the digest of each, and whether they are finished.

    Of files that are not, the bytes that the digests cover are those that were committed; what
    comes after them does not count yet.
    """

    digests: tuple[Digest, ...]
    finished: bool

    def save(self, path: Path) -> None:
        """Put it into a file, in place of the one before."""
        with replacing(path) as file:
            file.write(seal({"finished": self.finished, "files": list(self.digests)}))

    @classmethod
    def load(cls, path: Path) -> "Record | None":
        """What `save` wrote; None where there is nothing."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
        found = unseal(content, path, "delete it if the file it belongs to is known to be right")
        return cls(tuple(Digest(*pair) for pair in found["files"]), found["finished"])

    def check(self, path: Path, files: Sequence[BinaryIO], start: int = 0) -> None:
        """Refuse files whose bytes, from `start` on, are not those; `path`: of this record."""
        for file, digest in zip(files, self.digests, strict=True):
            size = os.fstat(file.fileno()).st_size - start
            right = size == digest.size if self.finished else size >= digest.size
            if not right or Digest.of_file(file, digest.size, start) != digest:
                raise StorageError(
                    f"{file.name} is damaged (its digest is another than in {path}): restore it; "
                    f"or delete {path} if you have changed it yourself"
                )


def record_path(path: Path) -> Path:
    """Where the record of a single file lies."""
    return path.with_name(f".{path.name}.digest")
