"""Appending: what sinks have in common that append rows to files."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from streambits._digests import Digest, Record
from streambits.errors import StorageError
from streambits.io.codes.file_sink import FileSink
from streambits.io.codes.given import Rows, as_given, last_of_each
from streambits.io.codes.swap import Swap
from streambits.model.codes import Codes


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

    Formats without digests of their own have a record of them beside, `_record`, which says what
    was committed. Whoever reads the files checks them by it.
    """

    def __init__(self, path: str | Path, bits: int, folder: Path, *ours: str) -> None:
        super().__init__(path, bits, folder)
        self.rows = 0
        self._swap = Swap(folder, self.path.name, *ours)
        self._last: int | None = None
        self._ascending = True
        self._record: Path | None = None
        self._noted: Record | None = None  # the last that was put there
        self._digests: tuple[Digest, ...] = ()  # of the files, as far as they are written

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
            self._note_digests()

    def close(self) -> None:
        """Commit, leave one row of each id, and let go."""
        if self._closed:
            return
        self.commit()
        with self._told():
            if self._ascending or not self._settle():
                self._note_digests(finished=True)
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
            "digests": {str(n): digest._asdict() for n, digest in enumerate(self._digests)},
            **self._fixed(),
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
            self._digests = tuple(Digest(**part) for part in state["digests"].values())
            self._note_digests()
            self._cut()

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
            self._note_digests()
            self._cut()
        self._begun = True

    def _note(self, ids: NDArray[np.int64]) -> None:
        higher = self._last is None or ids[0] > self._last
        self._ascending = self._ascending and bool(higher and (ids[1:] > ids[:-1]).all())
        self._last = int(ids[-1])

    def _note_digests(self, *, finished: bool = False) -> None:
        if self._record is not None:
            now = Record(self._digests, finished)
            if now != self._noted:
                now.save(self._record)
            self._noted = now

    def _recorded(self) -> Record:
        """The record that lies there."""
        assert self._record is not None
        found = Record.load(self._record)
        if found is None:
            raise StorageError(f"{self._record} is gone, and was written: restore it")
        return found

    def _check_digests(self, files: Sequence[BinaryIO], start: int = 0) -> None:
        """Refuse what was damaged since it was written: it would get digests that fit."""
        assert self._record is not None
        Record(self._digests, finished=True).check(self._record, files, start)

    def _rewritten(self, digests: tuple[Digest, ...]) -> str:
        """Put a record of files that were rewritten beside them; gives its name."""
        assert self._record is not None
        Record(digests, finished=True).save(self._swap.new(self._record.name))
        return self._record.name

    def _settle(self) -> bool:
        """Leave one row of each id; whether files had to be exchanged for it."""
        keep = last_of_each(self._ids())
        if keep.all():
            return False
        self._release()
        self._swap.go(self._rewrite(keep))
        return True

    @abstractmethod
    def _found(self) -> bool:
        """Whether there are rows."""

    @abstractmethod
    def _append(self, rows: Rows) -> None: ...

    @abstractmethod
    def _flush(self) -> None:
        """Bring what was appended to the disk."""

    @abstractmethod
    def _cut(self) -> None:
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
