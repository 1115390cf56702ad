"""FAISS: its binary indexes to and from ours."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits._digests import Digest
from streambits._files import replacing
from streambits._threads import look_again
from streambits.errors import EpochError, InputError, MissingExtraError, StorageError
from streambits.index import HammingIndex
from streambits.model.codes import Codes, as_bits

try:
    import faiss
except ImportError:
    raise MissingExtraError("faiss-cpu", "faiss") from None

look_again()  # FAISS brings a BLAS of its own, whatever was imported first

MARK = b"streambits"  # after the index in a file, before the digest of all that comes before


def to_faiss(index: HammingIndex) -> Any:
    """A FAISS index of the same codes under the same ids: an IndexBinaryIDMap over a flat one.

    FAISS knows whole bytes: other lengths are filled up with zeros, which changes no distance; pass
    the `packed` bytes of the queries. It has no epochs, so the index must hold one at most.
    """
    if len(index.epochs) > 1:
        raise EpochError(
            f"the index holds epochs {', '.join(map(str, index.epochs))}, and FAISS would compare "
            f"their codes as if they were of one: bring all rows to one epoch first"
        )
    flat: Any = faiss.IndexBinaryFlat(8 * -(-index.bits // 8))
    named = faiss.IndexBinaryIDMap(flat)
    flat.this.disown()
    named.own_fields = True
    for ids, codes in index.items():
        named.add_with_ids(codes.packed, ids)
    return named


def from_faiss(
    index: Any, *, bits: int | None = None, epoch: int = 0, strategy: str = "auto"
) -> HammingIndex:
    """The codes of a FAISS binary index: IndexBinaryFlat, or IndexBinaryIDMap over one.

    bits: the length that was filled up to whole bytes; by default all that FAISS has.
    """
    flat, ids = index, None
    if isinstance(index, faiss.IndexBinaryIDMap):
        flat = faiss.downcast_IndexBinary(index.index)
        ids = faiss.vector_to_array(index.id_map)
    if not isinstance(flat, faiss.IndexBinaryFlat):
        raise InputError(
            f"index is a {type(flat).__name__}: pass an IndexBinaryFlat, or an IndexBinaryIDMap "
            f"over one"
        )
    length = flat.d if bits is None else as_bits(bits)
    if not flat.d - 8 < length <= flat.d:
        raise InputError(f"bits is {length}, and the FAISS index has codes of {flat.d} bits")
    held: Any = flat
    packed = faiss.vector_to_array(held.xb).reshape(-1, flat.d // 8)
    ours = HammingIndex(length, strategy=strategy)
    ours.add(Codes(packed, length, epoch), ids)
    return ours


def write_index(index: HammingIndex, path: str | Path) -> None:
    """The same as `to_faiss` in a file, for `faiss.read_index_binary`; written whole or not.

    The file ends with a digest, which FAISS does not read, and `read_index` checks.
    """
    content: Any = faiss.serialize_index_binary(to_faiss(index))
    with replacing(Path(path)) as file:
        file.write(content)
        file.write(_trailer(content))


def read_index(
    path: str | Path, *, bits: int | None = None, epoch: int = 0, strategy: str = "auto"
) -> HammingIndex:
    """The codes of a file of FAISS; the rest is as in `from_faiss`.

    A file of `write_index` that was damaged is refused; one that FAISS wrote is taken as it is.
    """
    try:
        content = np.fromfile(path, np.uint8)
        reader: Any = faiss.VectorIOReader()
        faiss.copy_array_to_vector(_checked(content, path), reader.data)
        found = faiss.read_index_binary(reader)
    except (OSError, RuntimeError, MemoryError) as error:
        raise StorageError(f"{path} cannot be read by FAISS: {error}") from error
    if reader.rp != reader.data.size():
        raise _damaged(path)
    return from_faiss(found, bits=bits, epoch=epoch, strategy=strategy)


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
