"""Files of FAISS: an index, and after it a digest, which FAISS does not read."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._digests import Digest
from streambits._files import replacing
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.interop.faiss import CodedIndex, faiss, from_faiss, to_faiss
from streambits.model.coder import Coder

BINARY = b"IB"  # the beginning of a binary index; others begin with Ix, Iw and so on
MARK = b"streambits"  # after the index in a file, before the digest of all that comes before


def write_faiss(index: HammingIndex, path: str | Path, coder: Coder | None = None) -> None:
    """The same as `to_faiss` in a file, written whole or not.

    `faiss.read_index_binary` reads it; or `faiss.read_index`, if codes have no sign bits, and are
    written with the centres of their coder. The file ends with a digest, which FAISS does not
    read, and `read_faiss` checks.
    """
    serialize = faiss.serialize_index_binary if index.bits else faiss.serialize_index
    content: Any = serialize(to_faiss(index, coder))
    with replacing(Path(path)) as file:
        file.write(content)
        file.write(_trailer(content))


def read_faiss(
    path: str | Path, *, bits: int | None = None, epoch: int = 0
) -> HammingIndex | CodedIndex:
    """The codes of a file of FAISS; the rest is as in `from_faiss`.

    A file of `write_faiss` that was damaged is refused; one that FAISS wrote is taken as it is.
    """
    try:
        content = np.fromfile(path, np.uint8)
        reader: Any = faiss.VectorIOReader()
        faiss.copy_array_to_vector(_checked(content, path), reader.data)
        binary = content[: len(BINARY)].tobytes() == BINARY
        index = faiss.read_index_binary(reader) if binary else faiss.read_index(reader)
    except (OSError, RuntimeError, MemoryError) as error:
        raise StorageError(f"{path} cannot be read by FAISS: {error}") from error
    if reader.rp != reader.data.size():
        raise _damaged(path)
    try:
        return from_faiss(index, bits=bits, epoch=epoch)
    except InputError as error:
        raise InputError(f"{path} cannot be converted: {error}") from error


def codes_of_faiss(path: str | Path, **options: Any) -> HammingIndex:
    """The same without the coder of product codes."""
    read = read_faiss(path, **options)
    return read.index if isinstance(read, CodedIndex) else read


def _trailer(content: Any) -> bytes:
    return MARK + Digest.of(content).crc.to_bytes(4, "little")


def _checked(content: NDArray[np.uint8], path: str | Path) -> NDArray[np.uint8]:
    """What FAISS wrote, without the trailer, which is checked; all of it, where there is none."""
    size = len(_trailer(b""))
    index, end = content[:-size], content[-size:].tobytes()
    if not end.startswith(MARK):
        return content
    if end != _trailer(index):
        raise _damaged(path)
    return index


def _damaged(path: str | Path) -> StorageError:
    return StorageError(f"{path} is damaged (its digest is another): restore it, or write it again")
