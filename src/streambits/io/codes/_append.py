"""What sinks that are files share: columns of codes, locks, appending and exchanging files."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from glob import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import NO_IDS, Ids, as_count, as_ids, concat_ids
from streambits._digests import Digest, Record, seal, unseal
from streambits._files import make_folder, replacing
from streambits._locks import Lock, supported
from streambits.errors import InputError, StorageError
from streambits.index.queries import as_paired_ids, last_of_each
from streambits.model.batches import CodeBatch
from streambits.model.codes import MOST_BYTES, Codes, as_bits, check_refine

REMOVED = -1  # in place of an epoch: the id of the row was removed
LAST_EPOCH = int(np.iinfo(np.int32).max)
REMEDY = "restore it, or begin a new job"


class CodeColumns(NamedTuple):
    """Codes in their order, of any epochs.

    ids: (n,); packed: (n, bytes); epochs: (n,), REMOVED where a row marks that its id was removed;
    refinement: (n, r), with r = 0 for plain codes; payload: (n, p) texts or None.
    """

    ids: Ids
    packed: NDArray[np.uint8]
    epochs: NDArray[np.int32]
    refinement: NDArray[np.uint8]
    payload: NDArray[np.object_]

    @classmethod
    def of(
        cls,
        ids: Any,
        codes: Codes,
        bits: int,
        refine: int,
        *,
        payload: Any = None,
        keep: tuple[str, ...] = (),
    ) -> "CodeColumns":
        """What a sink for codes of `bits` bits and `refine` bytes is asked to write, checked."""
        if codes.bits != bits:
            raise InputError(f"codes have {codes.bits} bits, and the sink is for {bits}")
        check_refine(codes, refine, "those of the sink")
        if codes.epoch > LAST_EPOCH:
            raise InputError(
                f"codes are of epoch {codes.epoch}, and this sink takes epochs up to "
                f"{LAST_EPOCH:,}: use an index"
            )
        paired = as_paired_ids(ids, len(codes))
        epochs = np.full(len(paired), codes.epoch, np.int32)
        refinement = codes.refinement
        if refinement is None:
            refinement = np.empty((len(paired), 0), np.uint8)
        return cls(paired, codes.packed, epochs, refinement, as_payload(payload, len(paired), keep))

    @classmethod
    def marks(cls, ids: Ids, bits: int, refine: int, width: int = 0) -> "CodeColumns":
        """What says that ids were removed; width: of the payload."""
        count = len(ids)
        packed, refinement = (np.zeros((count, n), np.uint8) for n in (-(-bits // 8), refine))
        epochs = np.full(count, REMOVED, np.int32)
        return cls(ids, packed, epochs, refinement, np.full((count, width), None, object))

    @classmethod
    def empty(cls, bits: int, refine: int, width: int = 0) -> "CodeColumns":
        return cls.marks(NO_IDS, bits, refine, width)

    @classmethod
    def concat(cls, columns: list["CodeColumns"]) -> "CodeColumns":
        ids, *others = zip(*columns, strict=True)
        return cls(concat_ids(ids), *(np.concatenate(each) for each in others))

    def select(self, which: Any) -> "CodeColumns":
        """Some of the rows, by a slice or a mask."""
        return CodeColumns(*(column[which] for column in self))

    def batches(self, bits: int) -> list[CodeBatch]:
        """The same, in order, as many batches as needed for one epoch each."""
        return [rows.batch(bits) for rows in self.runs()]

    def runs(self) -> list["CodeColumns"]:
        """The same, in order, in pieces of one epoch each."""
        cuts = [0, *(np.flatnonzero(np.diff(self.epochs)) + 1).tolist(), len(self.ids)]
        return [self.select(slice(a, b)) for a, b in pairwise(cuts) if b > a]

    def batch(self, bits: int) -> CodeBatch:
        """The same, one or more rows that are all of one epoch."""
        refinement = self.refinement if self.refinement.shape[1] else None
        return CodeBatch(self.ids, Codes(self.packed, bits, int(self.epochs[0]), refinement))


def as_payload(payload: Any, count: int, keep: tuple[str, ...]) -> NDArray[np.object_]:
    """A text or None for each of `count` codes and each name that is kept."""
    if payload is None and not keep:
        return np.empty((count, 0), object)
    found = np.asarray(payload, object)
    if found.shape != (count, len(keep)):
        raise InputError(
            f"payload has shape {found.shape}, and {count} codes with {', '.join(keep) or 'none'} "
            f"kept beside them need {(count, len(keep))}"
        )
    return found


def live_rows(ids: Ids, epochs: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which rows are the last of their id, and do not mark that it was removed."""
    live: NDArray[np.bool_] = last_of_each(ids) & (epochs != REMOVED)
    return live


def as_lengths(bits: object, refine: object) -> tuple[int, int]:
    """Check the sign bits and the refinement bytes of codes; one of them may be 0."""
    more = as_count(refine, "refine", least=0, most=MOST_BYTES)
    return as_bits(bits, least=0 if more else 1), more


def check_begun(name: str, state: dict[str, Any], own: dict[str, Any]) -> None:
    """Refuse to go on with other settings of a sink than those of its state."""
    begun = {"refine": 0} | state  # older states do not say that codes are plain
    for setting, value in own.items():
        if begun[setting] != value:
            raise StorageError(
                f"{name} was begun with {setting} {begun[setting]}, and now it is {value}: "
                f"go on as it was begun, or begin a new job elsewhere"
            )


class FileSink:
    """A place on the disk that is locked from the first write, or `resume`, until it is closed.

    The lock is a file `.NAME.lock` in `folder`; `streambits._locks` says what it promises. Every
    commit looks whether it is still there. Where the system has no such locks there is none.
    """

    kind: str

    def __init__(self, path: str | Path, bits: int, refine: int, folder: Path) -> None:
        self.path, self.folder = Path(path), folder
        self.bits, self.refine = as_lengths(bits, refine)
        self.name = f"{self.kind}:{path}"
        self._lock: Lock | None = None
        self._begun = self._closed = False

    def _acquire(self) -> None:
        """Keep others out; before it is looked what is there."""
        make_folder(self.folder)
        if self._lock is None and supported():
            real = Path(os.path.realpath(self.path))
            inside = real if self.folder == self.path else real.parent
            does, remedy = f"writes to {self.path}", "wait until it is done, or choose another sink"
            self._lock = Lock(inside / f".{real.name}.lock", does, remedy)

    def _check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(f"{self.name} is closed: open it again, and resume")

    def _holds_codes(self) -> StorageError:
        return StorageError(
            f"{self.path} holds codes already: choose another place, or remove them"
        )

    def _let_go(self) -> None:
        self._closed = True
        try:
            self._release()
        finally:
            lock, self._lock = self._lock, None
            if lock is not None:
                lock.release()

    def _release(self) -> None:
        """Close what is open."""

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """Trouble in one sentence, which ends this sink: what was written is not known then."""
        try:
            try:
                yield
            except OSError as error:
                reason = error.strerror or error
                raise StorageError(f"{self.path} cannot be written: {reason}") from error
        except StorageError:
            with suppress(OSError):
                self._let_go()
            raise


class Swap:
    """Exchanges the files of a sink for new ones, all or none, wherever it is killed.

    The new files are written under other names; then a small file is put beside them that lists
    them and counts the generations, from which moment on they count; then they are renamed. That
    file stays, so it is known that what is there is not what was there before.

    folder: of the files; name: of the small file; ours: patterns for the names of all files.
    """

    def __init__(self, folder: Path, name: str, *ours: str) -> None:
        self.folder, self.ours = folder, ours
        self._list = folder / f".{name}.generation"

    @property
    def generation(self) -> int:
        """How often the files were exchanged."""
        return self._read()[0]

    def new(self, name: str) -> Path:
        """Where to write a file of the next generation."""
        return self._beside(name, self.generation + 1)

    def go(self, names: list[str]) -> None:
        """The new files by these names take the place of all that are ours."""
        record = {"generation": self.generation + 1, "files": names}
        with replacing(self._list) as file:
            file.write(seal(record))
        self.finish()

    def finish(self) -> None:
        """Rename what is left to rename; drop what is not in the list."""
        generation, names = self._read()
        for name in names:  # before anything is removed
            if not self._beside(name, generation).exists() and not (self.folder / name).exists():
                raise StorageError(f"{self.folder / name} is gone, and was written: restore it")
        for name in names:
            beside = self._beside(name, generation)
            if beside.exists():
                beside.replace(self.folder / name)
        for path in self.files():
            if names and path.name not in names:
                path.unlink()

    def clear(self) -> None:
        """Drop what was being written when someone was killed."""
        for pattern in (*self.ours, escape(self._list.name)):
            for dots in (".", ".."):
                for path in self.folder.glob(f"{dots}{pattern}.*.new"):
                    if not path.is_dir():
                        path.unlink()

    def files(self) -> list[Path]:
        """Those that are ours, in the order of their names."""
        found = [path for pattern in self.ours for path in self.folder.glob(pattern)]
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def _beside(self, name: str, generation: int) -> Path:
        return self.folder / f".{name}.{generation}.new"

    def _read(self) -> tuple[int, list[str]]:
        try:
            content = self._list.read_bytes()
        except FileNotFoundError:
            return 0, []
        record = unseal(content, self._list, REMEDY)
        strange = [n for n in record["files"] if not any(fnmatchcase(n, p) for p in self.ours)]
        if strange:
            raise StorageError(f"{self._list} is damaged (it lists {strange[0]!r}): {REMEDY}")
        return int(record["generation"]), list(record["files"])


class Appending(FileSink, ABC):
    """A sink of files that can say where it is and go back there.

    `state()` commits, and returns plain values. After `resume(state)`, in any later process, the
    sink is as it was when `state()` was called, whatever was written in between and wherever that
    was killed. So a job that keeps the state together with its own place goes on as if nothing had
    happened, and the files become the same, byte for byte. A new job takes a state before it
    writes. A sink that was not resumed refuses a place that holds codes.

    An id that is written again is put at the end, and so is a mark for one that is removed. Closing
    leaves only the last row of each id, and no marks; if ids did not ascend, or some were removed,
    all of them are looked at, 24 bytes each. Files
    are exchanged for it, after which an older state goes back no further than to what is there:
    then what had been written since is replaced as it comes again, and the end is the same.

    Formats without digests of their own have a record of them beside, `_record`, which says what
    was committed. Whoever reads the files checks them by it.
    """

    keep: tuple[str, ...] = ()
    texts = True  # whether ids may be texts

    def __init__(self, path: str | Path, bits: int, refine: int, folder: Path, *ours: str) -> None:
        super().__init__(path, bits, refine, folder)
        self.rows = 0
        self._text: bool | None = None  # whether ids are texts; None before the first
        self._marked = False  # whether there are rows that mark removals
        self._swap = Swap(folder, self.path.name, *ours)
        self._last: int | str | None = None
        self._ascending = True
        self._record: Path | None = None
        self._noted: Record | None = None  # the last that was put there
        self._digests: tuple[Digest, ...] = ()  # of the files, as far as they are written

    def write(self, ids: Any, codes: Codes, payload: Any = None) -> None:
        """Take codes of one epoch; ids that were written before are replaced."""
        rows = CodeColumns.of(ids, codes, self.bits, self.refine, payload=payload, keep=self.keep)
        self._put(rows)

    def remove(self, ids: Any) -> None:
        """Take out ids; those that are not there do not matter."""
        gone = as_ids(ids)
        self._put(CodeColumns.marks(gone, self.bits, self.refine, len(self.keep)))
        self._marked = self._marked or len(gone) > 0

    def _put(self, rows: CodeColumns) -> None:
        self._check_kind(rows.ids)
        self._begin()
        if len(rows.ids):
            self._text = rows.ids.dtype.kind == "T"  # before files are written by it
            with self._trouble():
                self._append(rows)
            self.rows += len(rows.ids)
            self._note(rows.ids)

    def _check_kind(self, ids: Ids) -> None:
        text = ids.dtype.kind == "T"
        if len(ids) and text and not self.texts:
            raise InputError(
                f"{self.name} takes ids that are whole numbers, and the first is {ids[0]!r}: write "
                f"Parquet, JSON lines, an index or a table"
            )
        if len(ids) and self._text not in (None, text):
            has = "texts" if self._text else "whole numbers"
            raise InputError(f"{self.name} has ids that are {has}, and the next is {ids[0]!r}")

    def commit(self) -> None:
        """Make everything written so far last."""
        self._begin()
        with self._trouble():
            self._check_lock()
            self._flush()
            self._note_digests()

    def close(self) -> None:
        """Commit, leave one row of each id, and let go."""
        if self._closed:
            return
        self.commit()
        with self._trouble():
            if (self._ascending and not self._marked) or not self._settle():
                self._note_digests(finished=True)
            self._let_go()

    def state(self) -> dict[str, Any]:
        """Commit, and say where this is."""
        self.commit()
        return {
            "kind": self.kind,
            "bits": self.bits,
            "refine": self.refine,
            "rows": self.rows,
            "last": self._last,
            "ascending": self._ascending,
            "generation": self._swap.generation,
            "digests": {str(n): digest._asdict() for n, digest in enumerate(self._digests)},
            **({"text": True} if self._text else {}),
            **({"marked": True} if self._marked else {}),
            **self._fixed(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go back to where `state()` was called."""
        self._check(state)
        with self._trouble():
            self._acquire()
            self._begun = True
            self._text = state.get("text", False if state["rows"] else None)
            self._marked = state.get("marked", False)
            if self._swap.generation > state["generation"]:
                self._swap.finish()
                self._swap.clear()
                self.rows, self._ascending = self._adopt(), False
                return
            self._swap.clear()
            self.rows, self._last = state["rows"], state["last"]
            self._ascending = state["ascending"]
            self._digests = tuple(Digest(**one) for one in state["digests"].values())
            self._note_digests()
            self._cut()

    def _check(self, state: dict[str, Any]) -> None:
        own = {"kind": self.kind, "bits": self.bits, "refine": self.refine}
        check_begun(self.name, state, own | self._fixed())

    def _begin(self) -> None:
        self._check_open()
        if self._begun:
            return
        with self._trouble():
            self._acquire()
            if self._swap.generation or self._found():
                raise self._holds_codes()
            self._swap.clear()
            self._note_digests()
            self._cut()
        self._begun = True

    def _note(self, ids: Ids) -> None:
        higher = self._last is None or ids[0] > self._last
        self._ascending = self._ascending and bool(higher and (ids[1:] > ids[:-1]).all())
        self._last = ids[-1:].tolist()[0]

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
        """Put a record of files that were rewritten beside them, and return its name."""
        assert self._record is not None
        Record(digests, finished=True).save(self._swap.new(self._record.name))
        return self._record.name

    def _settle(self) -> bool:
        """Leave one row of each id that is live; whether files had to be exchanged for it."""
        kept = live_rows(*self._keys())
        if kept.all():
            return False
        self._release()
        self._swap.go(self._rewrite(kept))
        self._marked = False
        return True

    @abstractmethod
    def _found(self) -> bool:
        """Whether there are rows."""

    @abstractmethod
    def _append(self, rows: CodeColumns) -> None: ...

    @abstractmethod
    def _flush(self) -> None:
        """Bring what was appended to the disk."""

    @abstractmethod
    def _cut(self) -> None:
        """Make the files what they were; from nothing, if there are no rows."""

    @abstractmethod
    def _adopt(self) -> int:
        """Go on with what is there, and return the number of rows."""

    @abstractmethod
    def _keys(self) -> tuple[Ids, NDArray[np.int32]]:
        """All ids and epochs, in the order of the rows."""

    @abstractmethod
    def _rewrite(self, kept: NDArray[np.bool_]) -> list[str]:
        """Write the rows that are kept to new files, and return their names."""

    def _fixed(self) -> dict[str, Any]:
        """Settings that must not change."""
        return {}
