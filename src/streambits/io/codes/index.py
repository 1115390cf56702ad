"""Index files, which `streambits.load` opens without reading them."""

from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streambits._arrays import as_ids
from streambits._digests import seal, unseal
from streambits._files import replacing
from streambits.errors import StorageError
from streambits.index import HammingIndex
from streambits.io.codes._append import REMEDY, FileSink, Swap, as_payload, check_begun
from streambits.model.codes import Codes
from streambits.storage import load, save


class _Noted(NamedTuple):
    """Commits since ids were first removed, and codes in the file before and after the last."""

    commits: int
    rows: tuple[int, ...]


class IndexSink(FileSink):
    """A HammingIndex, gathered in memory and written whole at every commit: for what fits there.

    `state()` and `resume(state)` are as in `Appending`, but for what was committed after the state:
    that stays in the file, and is replaced as it comes again. strategy: of the index.

    A file with fewer codes than were committed is refused. Once ids were removed, `.NAME.commits`
    beside the file says how many it has: before and after the last commit, as a process may be
    killed in between.
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
        self._commits = 0  # since the first removal
        self._saved = 0  # number of codes in the file
        self._record = self.folder / f".{self.path.name}.commits"

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
                self._note()
                self._save()
                self._saved = len(self.index)
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
            **({"removed": True, "commits": self._commits} if self._removed else {}),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on with what was committed."""
        own = {"kind": self.kind, "bits": self.bits, "refine": self.refine}
        check_begun(self.name, state, own)
        with self._trouble():
            self._acquire()
            self._swap.clear()
            self._begun, self._changed, self._epoch = True, True, state["epoch"]
            noted = self._noted()
            self._removed = state.get("removed", False) or noted is not None
            found = self._load() if state["rows"] or self.path.exists() else self.index
            self._check(found, state, noted)
            self._commits = noted.commits if noted else 0
            self._saved = len(found)
            self.index = found if state["rows"] else self.index

    def _check(self, found: HammingIndex, state: dict[str, Any], noted: "_Noted | None") -> None:
        """Refuse an index of other codes, or of fewer than were committed."""
        has, wanted = (found.bits, found.refine or 0), (self.bits, self.refine)
        if has != wanted:
            there, asked = (f"{bits} bits and {refine} bytes" for bits, refine in (has, wanted))
            raise StorageError(f"{self.path} has codes of {there}, not {asked}")
        if noted is None:
            if state.get("removed"):
                raise StorageError(f"{self._record} is gone, and was written: {REMEDY}")
            if len(found) < state["rows"]:
                raise self._fewer(found, state["rows"])
            return
        later = noted.commits - state.get("commits", 0)  # after the state
        if later < 0:
            raise StorageError(f"{self.path} is older than what was committed: {REMEDY}")
        if len(found) not in (noted.rows if later else noted.rows[-1:]):
            raise self._fewer(found, noted.rows[-1])

    def _fewer(self, found: HammingIndex, rows: int) -> StorageError:
        return StorageError(
            f"{self.path} has {len(found)} codes, and {rows} were written: {REMEDY}"
        )

    def _note(self) -> None:
        """Note how many codes the file has and will have, before it is written."""
        if self._removed:
            self._commits += 1
            noted = _Noted(self._commits, (self._saved, len(self.index)))
            with replacing(self._record) as file:
                file.write(seal(noted._asdict()))

    def _noted(self) -> "_Noted | None":
        try:
            content = self._record.read_bytes()
        except FileNotFoundError:
            return None
        noted = unseal(content, self._record, REMEDY)
        return _Noted(noted["commits"], tuple(noted["rows"]))

    def _begin(self) -> None:
        self._check_open()
        if self._begun:
            return
        with self._trouble():
            self._acquire()
            if self.path.exists() and len(self._load()):
                raise self._holds_codes()
            self._swap.clear()
            self._record.unlink(missing_ok=True)  # of codes that are gone
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
