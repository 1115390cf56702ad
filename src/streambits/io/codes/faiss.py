"""A binary index of FAISS in a file."""

from pathlib import Path

from streambits.index import HammingIndex
from streambits.interop.faiss import read_index, write_index
from streambits.io.codes.index import IndexSink


class FaissSink(IndexSink):
    """An IndexBinaryIDMap over an IndexBinaryFlat, which `faiss.read_index_binary` reads.

    Collected in memory and written whole at every commit: for what fits there. FAISS has no epochs:
    a commit of codes of several is refused. Lengths are filled up to whole bytes with zeros.
    """

    kind = "faiss"

    def __init__(self, path: str | Path, bits: int) -> None:
        super().__init__(path, bits)

    def _save(self) -> None:
        write_index(self.index, self.path)

    def _load(self) -> HammingIndex:
        return read_index(self.path, bits=self.bits, epoch=self._epoch)
