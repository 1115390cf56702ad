"""Digests: whether a file still holds what was written to it.

A JSON record and a text carry a digest of their own; files of rejects, of Parquet and of FAISS have
a CRC-32 of their bytes elsewhere. Digests find damage; they do not prove who wrote a file.
"""

import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

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
