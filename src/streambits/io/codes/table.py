"""An index to and from Parquet."""

from pathlib import Path

from streambits.errors import StorageError
from streambits.index import HammingIndex
from streambits.io.codes.code_files import ROWS, read_codes, write_codes


def to_parquet(index: HammingIndex, path: str | Path) -> None:
    """All codes of an index, by epoch and then by id; the old file stays whole until the end."""
    write_codes(index.items(ROWS), index.bits, path)


def from_parquet(
    path: str | Path, *, bits: int | None = None, strategy: str = "auto"
) -> HammingIndex:
    """An index of the codes in a file, or in all Parquet files of a folder.

    bits: their length; by default what the file says, or else whole bytes.
    """
    index: HammingIndex | None = None
    for ids, codes in read_codes(path, bits=bits):
        index = index or HammingIndex(codes.bits, strategy=strategy)
        index.add(codes, ids)
    if index is None:
        raise StorageError(f"{path} has no codes")
    return index
