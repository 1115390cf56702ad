"""A binary index of FAISS in a file."""

from pathlib import Path

import numpy as np

from streambits._files import replacing
from streambits.errors import StorageError
from streambits.index import HammingIndex
from streambits.interop import faiss as bridge
from streambits.sinks.index import IndexSink


class FaissSink(IndexSink):
    """An IndexBinaryIDMap over an IndexBinaryFlat, which `faiss.read_index_binary` reads.

    Gathered in memory and written whole at every commit: for what fits there. FAISS has no epochs:
    a commit of codes of several is refused. Lengths are filled up to whole bytes with zeros.
    """

    kind = "faiss"

    def __init__(self, path: str | Path, bits: int) -> None:
        super().__init__(path, bits)

    def _save(self) -> None:
        content = bridge.faiss.serialize_index_binary(bridge.to_faiss(self.index))  # type: ignore[attr-defined]
        with replacing(self.path) as file:
            file.write(content)

    def _load(self) -> HammingIndex:
        try:
            content = np.fromfile(self.path, np.uint8)
            found = bridge.faiss.deserialize_index_binary(content)  # type: ignore[attr-defined]
        except (OSError, RuntimeError) as error:
            raise StorageError(f"{self.path} cannot be read by FAISS: {error}") from error
        return bridge.from_faiss(found, bits=self.bits, epoch=self._epoch)
