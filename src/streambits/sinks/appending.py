"""Appending: what sinks have in common that append rows to files."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streambits.codes import Codes
from streambits.errors import StorageError
from streambits.sinks.file_sink import FileSink
from streambits.sinks.given import Rows, as_given, last_of_each
from streambits.sinks.swap import Swap


class Appending(FileSink, ABC):
    """A sink of files that can say where it is and go back there.

    `state()` commits, and gives plain values. After `resume(state)`, in any later process, the
    sink is as it was when `state()` was called, whatever was written in between and wherever that
    was killed. So a job that keeps the state together with its own place goes on as if nothing had
    happened, and the files become the same, byte for byte. A new job takes a state before it
    writes. A sink that was not resumed refuses a place that holds codes.

    An id that is written again is put at the end. Closing leaves only the last row of each id, if
    any came twice; if ids did not ascend, that takes a look at all of them, 24 bytes each. Files
    are exchanged for it, after which an older state goes back no further than to what is there:
    then what had been written since is replaced as it comes again, and the end is the same.
    """

    def __init__(self, path: str | Path, bits: int, folder: Path, *ours: str) -> None:
        super().__init__(path, bits, folder)
        self.rows = 0
        self._swap = Swap(folder, self.path.name, *ours)
        self._last: int | None = None
        self._ascending = True

    def write(self, ids: Any, codes: Codes) -> None:
        """Take codes of one epoch; ids that were written before are replaced."""
        rows = Rows.of(as_given(ids, codes, self.bits), codes)
        self._begin()
        if len(rows.ids):
            with self._told():
                self._append(rows)
            self.rows += len(rows.ids)
            self._note(rows.ids)

    def commit(self) -> None:
        """Make everything written so far last."""
        self._begin()
        with self._told():
            self._check_lock()
            self._flush()

    def close(self) -> None:
        """Commit, leave one row of each id, and let go."""
        if self._closed:
            return
        self.commit()
        with self._told():
            if not self._ascending:
                self._settle()
            self._let_go()

    def state(self) -> dict[str, Any]:
        """Commit, and say where this is."""
        self.commit()
        return {
            "kind": self.kind,
            "bits": self.bits,
            "rows": self.rows,
            "last": self._last,
            "ascending": self._ascending,
            "generation": self._swap.generation,
            **self._more(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go back to where `state()` was called."""
        self._check(state)
        with self._told():
            self._take()
            self._begun = True
            if self._swap.generation > state["generation"]:
                self._swap.finish()
                self._swap.clear()
                self.rows, self._ascending = self._adopt(), False
                return
            self._swap.clear()
            self.rows, self._last = state["rows"], state["last"]
            self._ascending = state["ascending"]
            self._cut(state)

    def _check(self, state: dict[str, Any]) -> None:
        for name, value in {"kind": self.kind, "bits": self.bits, **self._fixed()}.items():
            if state[name] != value:
                raise StorageError(
                    f"{self.name} was begun with {name} {state[name]}, and now it is {value}: "
                    f"go on as it was begun, or begin a new job elsewhere"
                )

    def _begin(self) -> None:
        self._check_open()
        if self._begun:
            return
        with self._told():
            self._take()
            if self._swap.generation or self._found():
                raise StorageError(
                    f"{self.path} holds codes already: choose another place, or remove them"
                )
            self._swap.clear()
            self._cut({"rows": 0, **self._more()})
        self._begun = True

    def _note(self, ids: NDArray[np.int64]) -> None:
        higher = self._last is None or ids[0] > self._last
        self._ascending = self._ascending and bool(higher and (ids[1:] > ids[:-1]).all())
        self._last = int(ids[-1])

    def _settle(self) -> None:
        keep = last_of_each(self._ids())
        if not keep.all():
            self._release()
            self._swap.go(self._rewrite(keep))

    @abstractmethod
    def _found(self) -> bool:
        """Whether there are rows."""

    @abstractmethod
    def _append(self, rows: Rows) -> None: ...

    @abstractmethod
    def _flush(self) -> None:
        """Bring what was appended to the disk."""

    @abstractmethod
    def _cut(self, state: dict[str, Any]) -> None:
        """Make the files what they were; from nothing, if there are no rows."""

    @abstractmethod
    def _adopt(self) -> int:
        """Go on with what is there; gives the number of rows."""

    @abstractmethod
    def _ids(self) -> NDArray[np.int64]:
        """All ids, in the order of the rows."""

    @abstractmethod
    def _rewrite(self, keep: NDArray[np.bool_]) -> list[str]:
        """Write the chosen rows to new files; gives their names."""

    def _fixed(self) -> dict[str, Any]:
        """Settings that must not change."""
        return {}

    def _more(self) -> dict[str, Any]:
        """What else belongs to the state."""
        return self._fixed()
