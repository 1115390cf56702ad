"""FAISS: its binary indexes to and from ours; `streambits.io.codes.faiss` has their files."""

from typing import Any

from streambits._threads import look_again
from streambits.errors import EpochError, InputError, MissingExtraError
from streambits.index import HammingIndex
from streambits.model.codes import Codes, as_bits

try:
    import faiss
except ImportError:
    raise MissingExtraError("faiss-cpu", "faiss") from None

__all__ = ["faiss", "from_faiss", "to_faiss"]

look_again()  # FAISS brings a BLAS of its own, whatever was imported first


def to_faiss(index: HammingIndex) -> Any:
    """Convert an index to FAISS: the same codes under the same ids.

    Parameters
    ----------
    index
        An index of one epoch at most, for FAISS has none.

    Returns
    -------
    faiss.IndexBinaryIDMap
        Over an IndexBinaryFlat. FAISS has whole bytes: other lengths are filled up with zeros,
        which changes no distance. Search it by the `packed` bytes of codes.
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
    """Convert an index of FAISS to ours.

    Parameters
    ----------
    index
        An IndexBinaryFlat, or an IndexBinaryIDMap over one; an id that it has twice has its last
        code.
    bits
        Length that was filled up to whole bytes; by default all that FAISS has.
    epoch
        Epoch of the codes.
    strategy
        How our index searches, see `HammingIndex`.

    Returns
    -------
    HammingIndex
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
    codes = Codes(packed, length, epoch)
    ours.add(codes) if ids is None else ours.upsert(codes, ids)
    return ours
