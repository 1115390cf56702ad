"""Index files, which `streambits.load` opens without reading them."""

from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from streambits._arrays import as_ids
from streambits.errors import StorageError
from streambits.index import HammingIndex
from streambits.io.codes._append import FileSink, Swap, as_payload, check_begun
from streambits.model.codes import Codes
from streambits.storage import load, save


class IndexSink(FileSink):
    """A HammingIndex, gathered in memory and written whole at every commit: for what fits there.

    `state()` and `resume(state)` are as in `Appending`, but for what was committed after the state:
    that stays in the file, and is replaced as it comes again. strategy: of the index.
    """

    kind = "index"

    def __init__(
        self, path: str | Path, bits: int, *, refine: int = 0, strategy: str = "auto"
    ) -> None:
        super().__init__(path, bits, refine, Path(path).parent)
        self.index = HammingIndex(self.bits, refine=self.refine, strategy=strategy)
        self._swap = Swap(self.folder, self.path.name, escape(self.path.name))
        self._epoch = 0
        self._changed = True
        self._removed = False  # whether ids were: then what is there may be less than it was

    def write(self, ids: Any, codes: Codes, payload: Any = None) -> None:
        """Take codes of one epoch; ids that were written before are replaced."""
        as_payload(payload, len(codes), ())
        self._begin()
        self.index.upsert(codes, ids)
        if len(codes):
            self._epoch, self._changed = codes.epoch, True

    def remove(self, ids: Any) -> None:
        """Take out ids; those that are not there do not matter."""
        gone = np.unique(as_ids(ids))
        self._begin()
        there = self.index.has(gone) if len(gone) and len(self.index) else np.zeros(len(gone), bool)
        if there.any():
            self.index.remove(gone[there])
            self._changed = self._removed = True

    def commit(self) -> None:
        """Write the file anew, if there is something new."""
        self._begin()
        with self._trouble():
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
            "refine": self.refine,
            "rows": len(self.index),
            "epoch": self._epoch,
            **({"removed": True} if self._removed else {}),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on with what was committed."""
        own = {"kind": self.kind, "bits": self.bits, "refine": self.refine}
        check_begun(self.name, state, own)
        with self._trouble():
            self._acquire()
            self._swap.clear()
            self._begun, self._changed, self._epoch = True, True, state["epoch"]
            self._removed = state.get("removed", False)
            if state["rows"] or (self._removed and self.path.exists()):
                self.index = self._load()
            self._check(state)

    def _check(self, state: dict[str, Any]) -> None:
        found, wanted = (self.index.bits, self.index.refine or 0), (self.bits, self.refine)
        if found != wanted:
            has, asked = (f"{bits} bits and {refine} bytes" for bits, refine in (found, wanted))
            raise StorageError(f"{self.path} has codes of {has}, not {asked}")
        if len(self.index) < state["rows"] and not self._removed:
            raise StorageError(
                f"{self.path} has {len(self.index)} codes, and {state['rows']} were written"
            )

    def _begin(self) -> None:
        self._check_open()
        if self._begun:
            return
        with self._trouble():
            self._acquire()
            if self.path.exists() and len(self._load()):
                raise self._holds_codes()
            self._swap.clear()
        self._begun = True

    def _save(self) -> None:
        save(self.index, self.path)

    def _load(self) -> HammingIndex:
        return open_index_file(self.path)


def open_index_file(path: str | Path) -> HammingIndex:
    """The index in a file, mapped into memory."""
    found = load(path)
    if not isinstance(found, HammingIndex):
        raise StorageError(f"{path} holds a {type(found).__name__}, not an index or codes")
    return found
