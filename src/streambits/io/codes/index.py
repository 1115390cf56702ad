"""An index in a file."""

from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits.errors import StorageError
from streambits.index import HammingIndex
from streambits.io.codes.file_sink import FileSink
from streambits.io.codes.given import as_given, last_of_each
from streambits.io.codes.swap import Swap
from streambits.model.codes import Codes
from streambits.storage import load, save


class IndexSink(FileSink):
    """A HammingIndex, gathered in memory and written whole at every commit: for what fits there.

    `state()` and `resume(state)` are as in `Appending`, but for what was committed after the state:
    that stays in the file, and is replaced as it comes again. options: of HammingIndex.
    """

    kind = "index"

    def __init__(self, path: str | Path, bits: int, **options: Any) -> None:
        super().__init__(path, bits, Path(path).parent)
        self.index = HammingIndex(self.bits, **options)
        self._swap = Swap(self.folder, self.path.name, escape(self.path.name))
        self._highest: int | None = None  # id in the index
        self._epoch = 0
        self._changed = True

    def write(self, ids: Any, codes: Codes) -> None:
        """Take codes of one epoch; ids that were written before are replaced."""
        chosen = as_given(ids, codes, self.bits)
        self._begin()
        keep = last_of_each(chosen)
        chosen, codes = chosen[keep], codes[keep]
        if not len(chosen):
            return
        there = self._there(chosen)
        self.index.update(codes[there], chosen[there])
        self.index.add(codes[~there], chosen[~there])
        highest = int(chosen.max())
        self._highest = highest if self._highest is None else max(highest, self._highest)
        self._epoch, self._changed = codes.epoch, True

    def commit(self) -> None:
        """Write the file anew, if there is something new."""
        self._begin()
        with self._told():
            self._check_lock()
            if self._changed:
                self._save()
        self._changed = False

    def close(self) -> None:
        """Commit, and let go."""
        if not self._closed:
            self.commit()
            self._let_go()

    def state(self) -> dict[str, Any]:
        """Commit, and say what there is."""
        self.commit()
        return {
            "kind": self.kind,
            "bits": self.bits,
            "rows": len(self.index),
            "epoch": self._epoch,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on with what was committed."""
        with self._told():
            self._take()
            self._swap.clear()
            self._begun, self._changed, self._epoch = True, True, state["epoch"]
            if state["rows"]:
                self.index = self._load()
                self._highest = max(self.index, default=None)
            self._check(state)

    def _check(self, state: dict[str, Any]) -> None:
        if (self.index.bits, state["kind"]) != (self.bits, self.kind):
            raise StorageError(f"{self.path} has codes of {self.index.bits} bits, not {self.bits}")
        if len(self.index) < state["rows"]:
            raise StorageError(
                f"{self.path} has {len(self.index)} codes, and {state['rows']} were written"
            )

    def _begin(self) -> None:
        self._check_open()
        if self._begun:
            return
        with self._told():
            self._take()
            if self.path.exists() and len(self._load()):
                raise StorageError(
                    f"{self.path} holds codes already: choose another place, or remove them"
                )
            self._swap.clear()
        self._begun = True

    def _there(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        there = np.zeros(len(ids), np.bool_)
        if self._highest is not None:
            known = ids <= self._highest  # the others are new: no need to look
            there[known] = self.index.has(ids[known])
        return there

    def _save(self) -> None:
        save(self.index, self.path)

    def _load(self) -> HammingIndex:
        found = load(self.path)
        if not isinstance(found, HammingIndex):
            raise StorageError(f"{self.path} holds a {type(found).__name__}, not an index")
        return found
