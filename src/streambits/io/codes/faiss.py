"""Files of FAISS: an index, and after it a digest, which FAISS does not read."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import as_ids
from streambits._digests import Digest
from streambits._files import replacing
from streambits.errors import InputError, StorageError
from streambits.index import HammingIndex
from streambits.interop.faiss import CodedIndex, faiss, from_faiss, to_faiss
from streambits.io.codes.index import IndexSink
from streambits.model.coder import Coder
from streambits.model.codes import Codes

BINARY = b"IB"  # the beginning of a binary index; others begin with Ix, Iw and so on
MARK = b"streambits"  # after the index in a file, before the digest of all that comes before


class FaissSink(IndexSink):
    """An IndexBinaryIDMap over an IndexBinaryFlat, which `faiss.read_index_binary` reads.

    Collected in memory and written whole at every commit: for what fits there. FAISS has no epochs:
    a commit of codes of several is refused. Lengths are filled up to whole bytes with zeros.
    Binary indexes have no refinement: refined codes are refused.
    """

    kind = "faiss"

    def __init__(self, path: str | Path, bits: int, *, refine: int = 0) -> None:
        if refine:
            raise InputError(
                f"{path}: a file of FAISS holds sign bits alone, and the codes have {refine} bytes "
                f"of refinement: write an index, and convert it by streambits.interop.faiss"
            )
        super().__init__(path, bits)

    def write(self, ids: Any, codes: Codes, payload: Any = None) -> None:
        """Take codes of one epoch; ids that were written before are replaced."""
        numbers = as_ids(ids)
        if numbers.dtype.kind == "T" and len(numbers):
            raise InputError(
                f"{self.name}: FAISS has ids that are whole numbers, and the first is "
                f"{numbers[0]!r}: write Parquet, JSON lines, an index or a table"
            )
        super().write(numbers, codes, payload)

    def _save(self) -> None:
        write_faiss(self.index, self.path)

    def _load(self) -> HammingIndex:
        return codes_of_faiss(self.path, bits=self.bits, epoch=self._epoch)


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
    path: str | Path, *, bits: int | None = None, epoch: int = 0, strategy: str = "auto"
) -> HammingIndex | CodedIndex:
    """The codes of a file of FAISS; the rest is as in `from_faiss`.

    A file of `write_faiss` that was damaged is refused; one that FAISS wrote is taken as it is.
    """
    try:
        content = np.fromfile(path, np.uint8)
        reader: Any = faiss.VectorIOReader()
        faiss.copy_array_to_vector(_checked(content, path), reader.data)
        binary = content[: len(BINARY)].tobytes() == BINARY
        found = faiss.read_index_binary(reader) if binary else faiss.read_index(reader)
    except (OSError, RuntimeError, MemoryError) as error:
        raise StorageError(f"{path} cannot be read by FAISS: {error}") from error
    if reader.rp != reader.data.size():
        raise _damaged(path)
    return from_faiss(found, bits=bits, epoch=epoch, strategy=strategy)


def codes_of_faiss(path: str | Path, **options: Any) -> HammingIndex:
    """The same without the coder of product codes."""
    found = read_faiss(path, **options)
    return found.index if isinstance(found, CodedIndex) else found


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
