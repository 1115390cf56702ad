"""StreamIndex: rows in, answers out, at any moment; in a folder, nothing that was done is lost."""

import json
import logging
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streambits import storage
from streambits._arrays import (
    LAST_ID,
    NO_IDS,
    TEXT,
    Array,
    Ids,
    as_count,
    as_ids,
    as_rows,
    blocks,
    column_names,
    to_numpy,
)
from streambits._files import make_folder
from streambits._threads import Gate
from streambits.epochs.coder_set import AUTO, CoderSet
from streambits.epochs.detector import DriftMeasurement
from streambits.errors import InputError, LandmarkWarning, ReachWarning, StorageError
from streambits.index import HammingIndex, Hits, rerank
from streambits.index.keys import Keys, Texts, first, numbers_of
from streambits.index.rerank import nearest_rows
from streambits.index.snapshot import default_candidates
from streambits.index_folder import CURRENT, ROWS, IndexFolder, check_empty, writing
from streambits.journal import Record
from streambits.live_recall import (
    QUERIES,
    STEP,
    LiveSample,
    Recall,
    SampledRows,
    hashed,
    measure,
    summarised,
)
from streambits.methods.settings import Settings
from streambits.model.batches import RowBatch
from streambits.model.coder import Coder
from streambits.model.codes import Codes
from streambits.model.learner import Learner
from streambits.online import OnlineEncoder
from streambits.row_store import RowStore

LEARNER, CODERS, INDEX, STATE = "learner", "coders", "index", "state"  # files of a snapshot
REENCODE_ROWS = 4096  # rows of epochs that are over that are encoded again at a time
LARGEST_SINGLE = float(np.finfo(np.float32).max)
MAX_DEAD_RATIO = 2  # times the live rows: rows kept, from which a snapshot leaves the others out

logger = logging.getLogger("streambits")


class EpochSummary(NamedTuple):
    """An epoch of an index.

    Attributes
    ----------
    epoch : int
    rows : int
        Codes of that epoch that are in the index.
    current : bool
        Whether rows that come now are of it.
    """

    epoch: int
    rows: int
    current: bool


class StreamIndex:
    """Vectors that come, change and go, and their nearest neighbours at any moment.

    It holds a learner, the coders of all live epochs and an index of codes: a row that is added is
    encoded and learned at once, and when the stream has moved, a new epoch begins by itself.

    Parameters
    ----------
    settings : Settings, optional
        How the stream is learned, such as the result of `tune`.
    keep_rows : bool, default False
        Store raw rows too. They are needed for `rerank=`, `exact=`, and to encode codes of old
        epochs again as rows come.
    **more
        Settings by keyword, in place of `settings`.

    Notes
    -----
    You do not choose landmarks: the first `settings.gathered` rows are buffered, and searched
    exactly, until the model is fitted. Where they are too few distinct ones for a coder,
    they wait on, with one `LandmarkWarning`, and `blocked` says why.

    `StreamIndex.open` opens one in a folder. There, every call that has returned survives whatever
    ends the process: changes are in a journal before they are applied, and now and then all is
    written to a snapshot. Learning is deterministic, so what is read again from a journal is the
    same state, bit for bit. One process writes; any number of others read (`read_only=True`), and
    each of their calls sees the last change that was committed.

    Any number of threads may search while one changes the index: every search sees it as it was at
    one moment. Changes wait for each other. A call that raises has changed nothing.

    Memory: that of the learner, the coders and the codes; `keep_rows` adds 16 bytes per row, and in
    memory the rows; in a folder they are in a file that is mapped.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((2000, 8), dtype=np.float32)
    >>> index = StreamIndex(bits=16, refine=4, n_landmarks=50)
    >>> index.add(rows)
    >>> index.search(rows[:2], k=1).ids.tolist()
    [[0], [1]]
    >>> index.remove([0])
    1
    >>> len(index), 0 in index, index.epochs
    (1999, False, (EpochSummary(epoch=0, rows=1999, current=True),))
    """

    def __init__(
        self, settings: Settings | None = None, *, keep_rows: bool = False, **more: Any
    ) -> None:
        if settings is not None and more:
            raise InputError(f"settings are passed, and {', '.join(more)} too: pass one of them")
        self.settings = (_settings(more) if settings is None else settings).checked()
        self.keep_rows = bool(keep_rows)
        settings = self.settings
        self._changes, self._gate = threading.RLock(), Gate()
        self._folder: IndexFolder | None = None
        self._waiting: dict[Any, NDArray[Any]] = {}
        self._due = settings.gathered  # rows that wait, from which a coder is fitted
        self._blocked: str | None = None
        self._online: OnlineEncoder | None = None
        self.coders = CoderSet(seed=settings.seed)
        self.codes = HammingIndex(settings.sign_bits, refine=settings.refinement_bytes)
        self._columns: int | None = None
        self.names: tuple[str, ...] | None = None  # of the columns, where frames came
        self._note: Any = None
        self._seen = self._removed = 0
        self._next = 0
        self._rows: RowStore | None = RowStore() if self.keep_rows else None
        self._sample: LiveSample | None = None  # where rows are not kept
        self._broken = False

    # In a folder

    @classmethod
    def open(
        cls,
        folder: str | Path,
        settings: Settings | None = None,
        *,
        read_only: bool = False,
        keep_rows: bool = False,
        **more: Any,
    ) -> Self:
        """Open the index in a folder, or begin one there.

        Parameters
        ----------
        folder : str or Path
        settings, keep_rows, **more
            As for the constructor, for a new index. One that is there has its own; others than
            those are refused.
        read_only : bool, default False
            Whether to read an index that another process may be writing to. Every call then sees
            what is committed.

        Returns
        -------
        StreamIndex

        Raises
        ------
        StorageError
            If another process writes to it, a file is damaged, or there is nothing to read.
        InputError
            If the index that is there has other settings.
        """
        path = Path(folder)
        if not read_only and not (path / CURRENT).exists():
            return cls._made(path, cls(settings, keep_rows=keep_rows, **more))
        place = IndexFolder(path, writes=not read_only)
        try:
            self = cls._loaded(place)
            wanted = {} if settings is None else settings.plain()
            self._check_same(wanted | more | ({"keep_rows": True} if keep_rows else {}))
        except BaseException:
            place.close()
            raise
        return self

    @classmethod
    def _made(cls, path: Path, self: Self) -> Self:
        check_empty(path)
        self._folder = IndexFolder.new(path)
        try:
            self._write_snapshot(self._folder)
        except BaseException:
            self._folder.close()
            raise
        return self

    @classmethod
    def _loaded(cls, place: "IndexFolder") -> Self:
        """The last snapshot, and what the journal says since."""
        for _ in range(3):  # a writer may exchange the files meanwhile
            current = place.current()
            try:
                self = cls._from_snapshot(place, current)
                place.follow(current)
                break
            except StorageError:
                if place.current() == current:
                    raise
        self._folder = place
        self._catch_up()
        if place.writes:
            place.begin_writing()
        return self

    @classmethod
    def _from_snapshot(cls, place: "IndexFolder", current: dict[str, Any]) -> Self:
        folder = place.path / current["snapshot"]
        held = storage.load(folder / f"{STATE}.safetensors").held
        self = cls(Settings(**held["settings"]), keep_rows=held["keep_rows"])
        for name in ("columns", "seen", "removed", "note"):
            setattr(self, f"_{name}", held[name])
        self._next, self._blocked = held["next"], held.get("blocked")
        self._due, names = held.get("due", self._due), held.get("names")
        self.names = None if names is None else tuple(names)
        ids, rows = _ids_of(held["waiting_ids"]), held["waiting_rows"]
        single = held.get("waiting_single", np.zeros(len(rows), np.bool_))
        own = [row.astype(np.float32) if one else row for row, one in zip(rows, single)]
        self._waiting = dict(zip(ids.tolist(), own, strict=True))
        if held["started"]:
            learner: Learner = storage.load(folder / f"{LEARNER}.safetensors")
            self.coders = storage.load(folder / f"{CODERS}.safetensors")
            self.codes = storage.load(folder / f"{INDEX}.safetensors")
            self._online = OnlineEncoder(learner, refresh=self.settings.refresh)
            self._online.out_of_reach = held["out_of_reach"]
        if held["sample"] is not None:
            self._sample = LiveSample.from_state(held["sample"])
        if self._rows is not None:
            file = place.path / current["rows"]
            self._rows = RowStore.from_state(held["rows"], file, writes=place.writes)
        return self

    def _check_same(self, wanted: dict[str, Any]) -> None:
        held = self.settings.plain() | {"keep_rows": self.keep_rows}
        for name, value in wanted.items():
            if name not in held:
                _settings({name: value})  # or raise
            if held.get(name) != value and value is not None:
                raise InputError(
                    f"{name} is {value!r}, and the index in {self._place()} was begun with "
                    f"{held.get(name)!r}: leave it out, or begin another one"
                )

    def _place(self) -> str:
        return "memory" if self._folder is None else str(self._folder.path)

    def save(self, folder: str | Path) -> None:
        """Write the index to a new or empty folder, from which `open` goes on.

        Parameters
        ----------
        folder : str or Path

        Raises
        ------
        StorageError
            If there is something in the folder, or it cannot be written.
        """
        path = Path(folder)
        check_empty(path)
        with self._changes:
            self._follow()
            self._check_whole()
            place = IndexFolder.new(path)
            try:
                self._write_snapshot(place, compact=True)
            finally:
                place.close()

    def close(self) -> None:
        """Close the files; an index in a folder is not to be used after that."""
        with self._changes, self._gate.changing():
            if self._folder is not None:
                self._folder.close()
                self._broken = True
            if self._rows is not None:
                self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Changes

    def add(self, rows: Array, ids: Any = None, *, note: Any = None) -> None:
        """Add rows, or replace those of the same ids; they are learned and encoded at once.

        Parameters
        ----------
        rows : array of shape (n, d)
            Or a data frame: the names of its columns are kept, and other frames must have them in
            the same order, in queries too.
        ids : array of shape (n,), optional
            Whole numbers or texts, of one kind in an index; of an id that comes twice, the last
            row counts. Without them, 0, 1, 2, ... in the order in which rows come.
        note : JSON value, optional
            Kept with the change, such as where its source continues: `index.note` is that of the
            last change that had one.

        Raises
        ------
        InputError
            If rows or ids cannot be used; nothing has changed then.
        StorageError
            If the journal cannot be written; nothing has changed then.
        """
        self._check_open()
        checked = self._checked_rows(rows)
        named = None if ids is None else self._checked_ids(ids, len(checked))
        if not len(checked) and note is None:
            return
        with self._writing():
            names = self._checked_names(rows, "rows")
            self._check_range(self._checked_rows(checked))
            if named is None:
                named = self._default_ids(len(checked))
            self._check_ids(named)
            before = self._blocked
            self._commit(Record("add", named, checked, note, names))
            if self._blocked is not None and before is None:
                warnings.warn(
                    f"{self._blocked}; they are searched by true distances until there are "
                    f"enough distinct rows",
                    LandmarkWarning,
                    stacklevel=2,
                )

    def _checked_rows(self, rows: Array) -> NDArray[Any]:
        """Rows as they are kept: of the columns of this index."""
        if _is_empty(rows):
            return np.empty((0, self._columns or 0), np.float32)
        return np.ascontiguousarray(to_numpy(as_rows(rows, width=self._columns)))

    def _check_range(self, rows: NDArray[Any]) -> None:
        """Refuse rows beyond the range of this index, which is that of its first rows."""
        if self._online is not None:
            like = self._online.learner.features.like
        else:
            like = next(iter(self._waiting.values()), rows)
        if rows.dtype == np.float32 or "float32" not in str(like.dtype):
            return
        beyond = np.argwhere(np.abs(rows) > LARGEST_SINGLE)
        if len(beyond):
            row, column = beyond[0].tolist()
            raise InputError(
                f"rows[{row}, {column}] is {rows[row, column]:g}, beyond the range of single "
                f"precision, in which the first rows of this index came: scale the data, or begin "
                f"an index with rows of double precision"
            )

    def _default_ids(self, count: int) -> Ids:
        if self._next + count > LAST_ID + 1:
            raise InputError(f"the ids up to {LAST_ID} are used up: pass ids of your own")
        return np.arange(self._next, self._next + count, dtype=np.int64)

    def remove(self, ids: Any, *, note: Any = None) -> int:
        """Remove rows.

        Parameters
        ----------
        ids : array of shape (n,)
            Those that are not in the index do not matter.
        note : JSON value, optional
            As for `add`.

        Returns
        -------
        int
            How many of them were in the index.
        """
        named = as_ids(ids)
        with self._writing():
            here = self._has(named)
            gone = np.unique(named[here]) if here.any() else named[:0]
            if len(gone) or note is not None:
                self._commit(Record("remove", gone, note=note))
            return len(gone)

    def renew(self) -> int:
        """Begin a new epoch now, on landmarks drawn from the sample of all rows.

        Returns
        -------
        int
            The number of the epoch.

        Raises
        ------
        InputError
            If there are no other landmarks for one; nothing has changed then.
        """
        with self._writing():
            if self._online is None:
                raise InputError(
                    f"rows wait for landmarks ({len(self._waiting):,} of "
                    f"{self.settings.gathered:,}): there is no epoch to renew yet"
                )
            tried = Learner.from_state(self._online.learner.state())
            tried.renew()
            tried.coder()  # or raise, before anything has changed
            self._commit(Record("renew", np.empty(0, np.int64)))
            return self._online.coder.epoch

    def reencode(self) -> int:
        """Make the codes of all epochs that are over again, by the current coder.

        Returns
        -------
        int
            How many there were.

        Raises
        ------
        InputError
            If raw rows are not kept.
        """
        if self._rows is None:
            raise InputError(
                "codes are made again from raw rows, which this index does not keep: begin one "
                "with keep_rows=True"
            )
        with self._writing():
            old = sum(one.rows for one in self.epochs if not one.current)
            if old:
                self._commit(Record("reencode", np.empty(0, np.int64)))
            return old

    def compact(self) -> None:
        """Leave out of the files what is not needed any more, and empty the journal."""
        with self._writing():
            if self._folder is not None:
                self._write_snapshot(self._folder, compact=True)
            elif self._rows is not None:
                rows = self._rows.compacted(self._live())
                with self._gate.changing():
                    self._rows = rows

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._check_open()
        with self._changes:
            self._check_whole()
            yield

    def _check_open(self) -> None:
        if self._folder is not None and not self._folder.writes:
            raise InputError(f"the index in {self._place()} was opened to be read only")
        if self._gate.is_reading:
            raise InputError("this thread is searching the index: change it when that is done")
        self._check_whole()

    def _check_whole(self) -> None:
        if self._broken:
            raise StorageError(f"the index in {self._place()} is closed: open it again")

    def _commit(self, record: Record) -> None:
        """Write a change to the journal, then apply it."""
        record = record.behind(self._note)
        place = self._folder
        if self._rows is not None and record.kind == "add":
            self._rows.write(record.rows)
        if place is not None:
            self._log(place, record)
        try:
            with self._all_or_closed():
                self._apply(record)
        except InputError:  # of others that read the journal as well
            if place is not None:
                place.journal.drop_last()
            raise
        if place is not None and place.journal.position > place.due:
            self._snapshot_if_possible(place)

    def _log(self, place: IndexFolder, record: Record) -> None:
        try:
            place.journal.append(record)
        except StorageError:  # it is not there
            raise
        except BaseException as error:
            self._broken = True
            if isinstance(error, OSError):
                raise StorageError(
                    f"the index in {place.path} is closed, as its journal can neither be written "
                    f"nor cut off ({error.strerror or error}): open it again"
                ) from error
            raise

    def _snapshot_if_possible(self, place: IndexFolder) -> None:
        """Write a snapshot, or try again when the journal has grown: the change is committed."""
        try:
            self._write_snapshot(place)
        except StorageError as error:
            if not self._broken:
                place.put_off()
            logger.warning("the journal goes on without a snapshot for now: %s", error)

    def _apply(self, record: Record) -> None:
        """Apply a change; whatever raises leaves the index as it was, or closed."""
        if record.kind == "add":
            self._add(record.ids, record.rows)
        elif record.kind == "remove":
            self._remove(record.ids)
        elif record.kind == "renew":
            self._renew()
        elif record.kind == "reencode":
            self._encode_again(len(self.codes))
        else:
            raise StorageError(f"the journal has a record of the unknown kind {record.kind!r}")
        if record.note is not None:
            self._note = record.note_behind(self._note)
        self.names = record.names or self.names

    def _add(self, ids: Ids, rows: NDArray[Any]) -> None:
        start = 0
        if self._online is None:
            start = self._wait(ids, rows)
        if start < len(ids):
            self._learn(ids[start:], rows[start:])
        self._columns = rows.shape[1] if len(rows) else self._columns
        self._seen += len(ids)
        if ids.dtype.kind == "i" and len(ids):
            self._next = max(self._next, int(ids.max()) + 1)

    def _wait(self, ids: Ids, rows: NDArray[Any]) -> int:
        """Let rows wait for landmarks; returns how many do, before the stream begins."""
        names, copied, done = ids.tolist(), rows.copy(), 0
        while done < len(names) and self._online is None:
            start, more = done, dict[Any, NDArray[Any]]()
            room = self._due - len(self._waiting)
            while done < len(names) and room > 0:
                room -= names[done] not in self._waiting and names[done] not in more
                more[names[done]] = copied[done]
                done += 1
            with self._gate.changing():
                self._waiting.update(more)
                self._keep(ids[start:done], rows[start:done])
            if len(self._waiting) >= self._due:
                self._start(ids)
        return done

    def _start(self, like: Ids) -> None:
        """Fit the first coder to the rows that wait, or let them wait on where that fails."""
        ids, rows = _named(list(self._waiting), like), np.stack(list(self._waiting.values()))
        try:
            online, pieces = self._fitted(ids, rows)
        except InputError as error:
            self._blocked = f"{len(ids):,} rows wait, and no coder can be fitted to them: {error}"
            self._due = len(ids) + max(self.settings.gathered, len(ids) // 4)
            return
        with self._gate.changing():
            for coder, places, codes in pieces:
                self.coders.record(coder, rows[places], codes)
                self.codes.upsert(codes, ids[places])
            self._waiting, self._online, self._blocked = {}, online, None

    def _fitted(self, ids: Ids, rows: NDArray[Any]) -> "tuple[OnlineEncoder, list[_Piece]]":
        """The encoder of a stream that begins with rows, and their codes.

        Where the first rows have too few distinct ones among them for landmarks, it begins with
        the distinct ones.
        """
        places = np.arange(len(ids))
        try:
            return self._begun(ids, rows, places)
        except InputError:
            firsts = {row.tobytes(): place for place, row in zip(places[::-1], rows[::-1])}
            if not self.settings.n_landmarks <= len(firsts) < len(ids):
                raise
            return self._begun(ids, rows, np.sort(np.fromiter(firsts.values(), np.intp)))

    def _begun(
        self, ids: Ids, rows: NDArray[Any], places: NDArray[np.intp]
    ) -> "tuple[OnlineEncoder, list[_Piece]]":
        count = min(len(places), self.settings.gathered)
        first, rest = places[:count], np.setdiff1d(np.arange(len(ids)), places[:count])
        online, found = OnlineEncoder.start(self.settings, [RowBatch(ids[first], rows[first])])
        codes = Codes.concat([part.codes for part in found])
        return online, [(online.coder, first, codes), *_pieces(online, rows, rest)]

    def _learn(self, ids: Ids, rows: NDArray[Any]) -> None:
        """Encode rows, learn them, and make their codes seen."""
        assert self._online is not None
        while len(ids):
            seen = self._online.learner.seen  # so any batches are cut in the same way
            left = REENCODE_ROWS - seen % REENCODE_ROWS
            step = left if self.keep_rows else len(ids)
            self._encode(ids[:step], rows[:step])
            if self.keep_rows and step <= len(ids):
                self._encode_again(REENCODE_ROWS)
            ids, rows = ids[step:], rows[step:]

    def _encode(self, ids: Ids, rows: NDArray[Any]) -> None:
        online = self._online
        assert online is not None
        pieces = _pieces(online, rows, np.arange(len(rows)))
        with self._gate.changing():
            for coder, places, codes in pieces:
                self.coders.record(coder, rows[places], codes)
                self.codes.upsert(codes, ids[places])
            self._keep(ids, rows)
            self._retire()

    def _keep(self, ids: Ids, rows: NDArray[Any]) -> None:
        if self._rows is not None:
            self._rows.put(numbers_of(ids), rows)
            return
        if self._sample is None and len(rows):
            self._sample = LiveSample(rows.shape[1], rows.dtype)
        if self._sample is not None:
            self._sample.put(numbers_of(ids), rows)

    def _retire(self) -> None:
        """Forget coders of epochs that have no codes any more."""
        assert self._online is not None
        live = {*self.codes.epochs, self._online.coder.epoch} & set(self.coders)
        if live != set(self.coders):
            self.coders.keep(live)

    def _remove(self, ids: Ids) -> None:
        with self._gate.changing():
            if self._sample is not None:
                self._sample.remove(numbers_of(ids))
            if self._online is None:
                for name in ids.tolist():
                    del self._waiting[name]
            elif len(ids):
                self.codes.remove(ids)
                self._retire()
        self._removed += len(ids)

    def _renew(self) -> None:
        online = self._online
        assert online is not None
        online.learner.renew()
        online.refresh_coder()

    def _encode_again(self, most: int) -> None:
        """Make codes of the oldest epochs again, `most` of them, by the current coder."""
        online = self._online
        if self._rows is None or online is None:
            return
        coder = online.coder
        while most > 0 and any(epoch != coder.epoch for epoch in self.codes.epochs):
            batch = next(iter(self.codes.items(min(most, REENCODE_ROWS))))
            rows = self._rows.get(numbers_of(batch.ids))
            codes = coder.encode(rows, warn=False)
            with self._gate.changing():
                self.coders.record(coder, rows, codes)
                self.codes.update(codes, batch.ids)
                self._retire()
            most -= len(batch.ids)

    @contextmanager
    def _all_or_closed(self) -> Iterator[None]:
        """Around what changes several parts: if it fails half way, the index is closed."""
        try:
            yield
        except BaseException:
            self._broken = True
            raise

    def _checked_ids(self, ids: Any, count: int) -> Ids:
        named = as_ids(ids)
        if len(named) != count:
            raise InputError(f"there are {len(named)} ids for {count} rows: pass one id per row")
        return named

    def _checked_names(self, rows: Any, name: str) -> tuple[str, ...] | None:
        """Names of the columns of a frame, if they are new; others than those before are refused.

        Rows without names are taken as they are.
        """
        names = column_names(rows)
        if names is None or names == self.names:
            return None
        if self.names is not None:
            missing = [one for one in self.names if one not in names]
            other = [one for one in names if one not in self.names]
            what = "are in another order than"
            if missing or other:
                what = f"lack {missing[0]!r} of" if missing else f"have {other[0]!r} beside"
            raise InputError(
                f"the columns of {name} {what} those of this index, {', '.join(self.names)[:200]}: "
                f"pass {name}[list(index.names)]"
            )
        return names

    def _check_ids(self, ids: Ids) -> None:
        """Refuse ids of another kind than those that are here, and texts of one hash."""
        held = next(iter(self._waiting), None)
        if held is not None and len(ids) and isinstance(held, str) != (ids.dtype.kind == "T"):
            kinds = (
                ("texts", "whole numbers") if isinstance(held, str) else ("whole numbers", "texts")
            )
            raise InputError(
                f"the ids of this index are {kinds[0]}, and {first(ids)} is not: pass {kinds[0]}, "
                f"or use another index for {kinds[1]}"
            )
        keys = Keys.of(ids)
        keys.check_apart()
        snapshot = self.codes.snapshot()
        if len(ids) and len(snapshot):
            snapshot.has(keys)  # refuses another kind
            snapshot.check_apart(keys)

    # Reading

    def search(
        self,
        rows: Array,
        k: int = 10,
        *,
        allow: Any = None,
        candidates: int | str | None = None,
        rerank: int | None = None,
        exact: Any = None,
        real: bool | str = AUTO,
        decode: bool = True,
        metric: str | None = None,
    ) -> Hits:
        """Find the nearest rows of each query.

        Parameters
        ----------
        rows : array of shape (n, d)
            The queries.
        k : int, default 10
        allow : array, optional
            Ids to choose from.
        candidates : int or "all", optional
            Of codes with a refinement, how many of each epoch are ranked by what they decode to.
        rerank : int, optional
            So many hits are ranked again by their raw rows, which must be kept.
        exact : True, array or callable, optional
            Prove the true nearest, of codes that are `certified`: True by the rows that are kept;
            or where the rows are, as for `HammingIndex.search`.
        real, decode, metric
            As for `CoderSet.search`.

        Returns
        -------
        Hits
            While rows wait for landmarks, by true distances.

        Notes
        -----
        Answers are ranked by codes. A row that is in the index, and is searched for, is mostly but
        not always the first hit, least of all where it was encoded in an epoch that does not suit
        it; `rerank` puts it first if it is among those that are ranked again.
        """
        self._follow()
        k = as_count(k, "k")
        with self._gate.reading():
            self._check_whole()
            self._checked_names(rows, "queries")
            if _is_empty(rows):
                return _no_queries(min(k, len(self)))
            asked = as_rows(rows, width=self._columns, name="queries")
            if self._online is None:
                return self._search_waiting(asked, k, allow, metric)
            options: dict[str, Any] = {"allow": allow, "candidates": candidates, "metric": metric}
            if exact is not None and exact is not False:
                options["exact"] = self._look_up("exact") if exact is True else exact
            options = {name: value for name, value in options.items() if value is not None}
            options |= {"real": real, "decode": decode}
            if rerank is None:
                return self.coders.search(self.codes, asked, k, **options)
            look_up, wide = self._look_up("rerank"), max(k, as_count(rerank, "rerank"))
            found = self.coders.search(self.codes, asked, wide, **options)
            return _reranked(found, asked, look_up, k, metric or self.settings.metric)

    def _search_waiting(self, asked: Array, k: int, allow: Any, metric: str | None) -> Hits:
        ids = _named(list(self._waiting), NO_IDS)
        rows = np.stack(list(self._waiting.values())) if self._waiting else None
        return nearest_rows(asked, ids, rows, k, metric or self.settings.metric, allow=allow)

    def _look_up(self, name: str) -> Callable[[Ids], NDArray[Any]]:
        if self._rows is None:
            raise InputError(
                f"{name} needs raw rows, and this index does not keep them: begin one with "
                f"keep_rows=True"
            )
        return self.rows

    def rows(self, ids: Any) -> NDArray[Any]:
        """Return the raw rows (n, d) of ids, exactly as they came.

        They are in single precision, or in double precision if one of them came in it.

        Raises
        ------
        InputError
            If rows are not kept, or an id is not in the index.
        """
        self._follow()
        named = as_ids(ids)
        with self._gate.reading():
            self._check_whole()
            missing = ~self._has(named)
            if missing.any():
                raise InputError(f"the id {first(named[missing])} is not in the index")
            if self._online is None:
                rows = [self._waiting[name] for name in named.tolist()]
                return np.stack(rows) if rows else np.empty((0, self._columns or 0), np.float32)
            if self._rows is None:
                self._look_up("rows")
            assert self._rows is not None
            return self._rows.get(numbers_of(named))

    def _has(self, ids: Ids) -> NDArray[np.bool_]:
        if self._online is None:
            return np.array([name in self._waiting for name in ids.tolist()], np.bool_)
        if not len(self.codes) or not len(ids):
            return np.zeros(len(ids), np.bool_)
        return self.codes.has(ids)

    def encode(self, rows: Array) -> Codes:
        """Encode rows by the current coder, without adding them."""
        self._follow()
        with self._gate.reading():
            if self._online is None:
                raise InputError(f"there is no coder yet: {len(self)} rows wait for landmarks")
            self._checked_names(rows, "rows")
            return self._online.coder.encode(rows)

    @property
    def waiting(self) -> int:
        """Rows that wait for landmarks."""
        self._follow()
        return len(self._waiting)

    @property
    def columns(self) -> int | None:
        """Columns of the rows; None before the first."""
        self._follow()
        return self._columns

    @property
    def note(self) -> Any:
        """The note of the last change that had one, or None."""
        self._follow()
        return self._note

    @property
    def seen(self) -> int:
        """Rows that were added so far."""
        self._follow()
        return self._seen

    @property
    def removed(self) -> int:
        """Rows that were removed so far."""
        self._follow()
        return self._removed

    @property
    def blocked(self) -> str | None:
        """Why no coder could be fitted to the rows that wait, or None if nothing is wrong.

        Such rows wait on, and are searched by true distances, until there are enough distinct ones.
        """
        self._follow()
        return self._blocked

    @property
    def learner(self) -> Learner | None:
        """What learns; None while rows wait for landmarks."""
        self._follow()
        return None if self._online is None else self._online.learner

    @property
    def epochs(self) -> tuple[EpochSummary, ...]:
        """The epochs of the codes, the oldest first."""
        self._follow()
        with self._gate.reading():
            if self._online is None:
                return ()
            current = self._online.coder.epoch
            held = self.codes.snapshot()
            counts = {epoch: count for epoch, count in held.counts.items() if count}
            numbers = sorted({*counts, current})
            return tuple(EpochSummary(n, counts.get(n, 0), n == current) for n in numbers)

    def recall(self, k: int = 10, *, queries: int = QUERIES) -> Recall:
        """Measure how often searches find the true neighbours of rows that are here now.

        Parameters
        ----------
        k : int, default 10
            Recall is the share of the true k nearest rows among the first k answers.
        queries : int, default 500
            Rows that are searched for, each but for itself.

        Returns
        -------
        Recall
            With an interval, and for the rows of each epoch.

        Raises
        ------
        InputError
            If there are no codes yet, or fewer than 2 k rows.

        Notes
        -----
        Where rows are kept, true neighbours are found among all of them, which reads them all.
        Otherwise a sample of the rows that are here is held for this purpose, 32 MiB of them: up to
        as many rows it is exact as well, and beyond that, extrapolated.
        """
        self._follow()
        k = as_count(k, "k")
        with self._gate.reading():
            self._check_whole()
            if self._online is None or len(self.codes) < 2 * k:
                raise InputError(f"there are {len(self.codes)} codes: recall needs {2 * k} or more")
            known, total = self._known(), len(self.codes)
            held = self.codes.snapshot()
            names = held.named(known.numbers)
            epochs = np.zeros(len(names), np.int64)
            for epoch, there in held.epochs_of(known.numbers):
                epochs[there] = epoch
        near = partial(self._numbers_near, names, k)
        found = measure(known, total, k, near, queries=queries)
        return summarised(found, epochs[: len(found[0].shares)], k, total, len(names))

    def _known(self) -> SampledRows:
        """Numbers and rows whose distances are known, in random order."""
        if self._rows is None:
            assert self._sample is not None
            return SampledRows(self._sample.numbers, self._sample.rows)
        live = self._live()
        numbers = live[np.argsort(hashed(live))]
        return SampledRows(numbers, self._rows.get(numbers))

    def _numbers_near(  # noqa: PLR0917
        self,
        names: Ids,
        asked: int,
        rows: NDArray[Any],
        k: int,
        allowed: int | None,
        share: float,
    ) -> NDArray[np.int64]:
        """Search as `search` does, a few at a time, so that changes need not wait for all.

        asked: of how many answers recall is measured; allowed: how many of the names to choose
        from, which are `share` of all; None: all there is.
        """
        options: dict[str, Any] = {} if allowed is None else {"allow": names[:allowed]}
        found = []
        for part in blocks(rows, STEP):
            with self._gate.reading(), warnings.catch_warnings():
                warnings.simplefilter("ignore", ReachWarning)
                if allowed is not None and self.codes.bits and self.codes.refine:
                    held = self.codes.snapshot()
                    wanted = default_candidates(asked, max(held.counts.values()))
                    options["candidates"] = max(k, 1 + round(share * wanted))
                found.append(self.coders.search(self.codes, part, k, **options).ids)
        most = min(ids.shape[1] for ids in found)
        return np.concatenate(
            [numbers_of(ids[:, :most].ravel()).reshape(-1, most) for ids in found]
        )

    @property
    def drift(self) -> tuple[DriftMeasurement, ...]:
        """The latest measurements of the drift monitor."""
        self._follow()
        return () if self._online is None else self._online.learner.drift

    @property
    def closed(self) -> bool:
        """Whether it was closed, or a change failed half way: it must be opened again then."""
        return self._broken

    @property
    def journal_bytes(self) -> int | None:
        """Bytes of the journal since the last snapshot; None in memory, and of a reader."""
        place = self._folder
        return place.journal.position if place is not None and place.is_writing else None

    @property
    def out_of_reach(self) -> int:
        """Rows so far that were out of reach of every landmark of their time."""
        self._follow()
        return 0 if self._online is None else self._online.out_of_reach

    @property
    def nbytes(self) -> int:
        """Bytes in memory; rows in a file are not counted."""
        waiting = sum(row.nbytes for row in self._waiting.values())
        learned = 0 if self._online is None else self._online.learner.nbytes
        kept = sum(part.nbytes for part in (self._rows, self._sample) if part is not None)
        return waiting + learned + self.coders.nbytes + self.codes.nbytes + kept

    def __len__(self) -> int:
        self._follow()
        return len(self._waiting) if self._online is None else len(self.codes)

    def __contains__(self, value: object) -> bool:
        self._follow()
        return value in (self._waiting if self._online is None else self.codes)

    def __repr__(self) -> str:
        where = "" if self._folder is None else f", {self._folder.path}"
        return f"StreamIndex({len(self)} rows, {self.settings}{where})"

    # Keeping

    def _follow(self) -> None:
        """In a reader, apply what was committed since; not inside of another call that reads."""
        if self._folder is None or self._folder.writes or self._gate.is_reading:
            return
        with self._changes:
            if self._broken and not self._folder.is_closed:
                self._reload()  # a change could not be applied: perhaps it was taken back
            self._check_whole()
            self._catch_up()

    def _catch_up(self) -> None:
        """Apply the records of the journal that are new."""
        place = self._folder
        assert place is not None
        while True:
            if place.reader.was_taken_back or not self._replayed(place):
                self._reload()
                return
            if place.writes or not place.moved_on():
                return
            if not place.follow_next(self._rows):
                self._reload()
                return

    def _replayed(self, place: IndexFolder) -> bool:
        """Apply what the journal has; False where this state is not one of its writer's."""
        for record in place.reader.read():
            if self._rows is not None and place.writes and record.kind == "add":
                self._rows.write(record.rows)  # the file may not be on the disk
            try:
                with self._all_or_closed():
                    self._apply(record)
            except InputError as error:
                if not (place.writes and place.reader.is_at_end):
                    raise place.reader.inapplicable(error) from error
                logger.warning("the last change was never acknowledged, and is left out: %s", error)
                place.begin_writing()  # behind the record before
                return False
        return True

    def _reload(self) -> None:
        """Begin anew from the current snapshot; the locks stay, for other threads wait for them."""
        assert self._folder is not None
        fresh = type(self)._loaded(self._folder)
        del fresh._changes, fresh._gate
        with self._gate.changing():
            self.__dict__.update(fresh.__dict__)

    def _live(self) -> NDArray[np.int64]:
        """Numbers of the ids that are here."""
        if self._online is None:
            return numbers_of(_named(list(self._waiting), NO_IDS))
        held = self.codes.snapshot()
        found = [held.numbers(epoch) for epoch in held.epochs]
        return np.concatenate([np.empty(0, np.int64), *found])

    def _write_snapshot(self, place: IndexFolder, *, compact: bool = False) -> None:
        """Write all that is held, then make it the folder's current state."""
        number, rows = place.number, self._rows
        folder, new = place.path / f".snapshot-{number}.new", rows
        try:
            with writing(place.path):
                shutil.rmtree(folder, ignore_errors=True)
                make_folder(folder)
                if rows is not None and (compact or self._is_crowded(rows, place)):
                    new = rows.written(place.path / f"{ROWS}-{number}", self._live())
                if new is not None:
                    new.sync()
                self._save_parts(folder, new)
                place.publish(folder, None if new is None else new.name)
            if place is self._folder and new is not rows:
                with self._gate.changing():
                    self._rows = new
        except BaseException:
            if place is self._folder and not (place.is_writing and place.number == number):
                self._broken = True  # or the files that count are not those that are held
            raise
        finally:
            for store in (rows, new):
                if store is not None and store is not self._rows:
                    store.close()

    def _is_crowded(self, rows: RowStore, place: IndexFolder) -> bool:
        """Whether rows are to be written anew: half of them are not needed, or it is a copy."""
        elsewhere = rows.path is None or rows.path.parent != place.path
        return elsewhere or len(rows) > MAX_DEAD_RATIO * len(self) + REENCODE_ROWS

    def _save_parts(self, folder: Path, rows: RowStore | None) -> None:
        parts: dict[str, Any] = {STATE: _Held(self._state(rows))}
        if self._online is not None:
            parts |= {LEARNER: self._online.learner, CODERS: self.coders, INDEX: self.codes}
        for name, part in parts.items():
            storage.save(part, folder / f"{name}.safetensors", private=True)

    def _state(self, rows: RowStore | None) -> dict[str, Any]:
        ids, waiting = _named(list(self._waiting), NO_IDS), list(self._waiting.values())
        empty = np.empty((0, self._columns or 0), np.float32)
        return {
            "settings": self.settings.plain(),
            "keep_rows": self.keep_rows,
            "columns": self._columns,
            "names": self.names,
            "seen": self._seen,
            "removed": self._removed,
            "note": self._note,
            "next": self._next,
            "blocked": self._blocked,
            "due": self._due,
            "waiting_ids": _ids_state(ids),
            "waiting_single": np.array([row.dtype == np.float32 for row in waiting], np.bool_),
            "waiting_rows": np.stack(waiting) if waiting else empty,
            "started": self._online is not None,
            "out_of_reach": 0 if self._online is None else self._online.out_of_reach,
            "rows": None if rows is None else rows.state(),
            "sample": None if self._sample is None else self._sample.state(),
        }


_Piece = tuple[Coder, NDArray[np.intp], Codes]  # a coder, places of rows, and their codes


def _pieces(online: OnlineEncoder, rows: NDArray[Any], places: NDArray[np.intp]) -> list[_Piece]:
    """Encode and learn the rows at places."""
    found: list[_Piece] = []
    coder = online.coder
    for codes in online.encode(rows[places]) if len(places) else ():
        found.append((coder, places[: len(codes)], codes))
        coder, places = online.coder, places[len(codes) :]
    return found


def _is_empty(rows: Any) -> bool:
    """Whether it is a batch without rows, of any number of columns."""
    shape: Any = getattr(rows, "shape", ())
    return (isinstance(rows, list | tuple) and not rows) or (len(shape) > 0 and shape[0] == 0)


def _no_queries(k: int) -> Hits:
    return Hits(np.empty((0, k), np.int64), np.empty((0, k), np.float64))


class _Held:
    """What a snapshot holds beside learner, coders and codes."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.held = held

    def state(self) -> dict[str, Any]:
        return self.held | {name: json.dumps(self.held[name]) for name in ("note", "names")}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        texts = {name: json.loads(state.get(name, "null")) for name in ("note", "names")}
        return cls(state | texts)


storage.register(_Held, model=True)


def _settings(more: dict[str, Any]) -> Settings:
    try:
        return Settings(**more)
    except TypeError as error:
        known = ", ".join(sorted(Settings().plain()))
        raise InputError(f"{error}; settings are {known}") from None


def _named(names: list[Any], like: Ids) -> Ids:
    """Ids from plain values."""
    texts = isinstance(names[0], str) if names else like.dtype.kind == "T"
    return np.array(names, TEXT if texts else np.int64)


def _ids_state(ids: Ids) -> dict[str, Any]:
    if ids.dtype.kind != "T":
        return {"numbers": ids}
    texts = Texts.of(ids)
    return {"content": texts.content, "ends": texts.ends}


def _ids_of(state: dict[str, Any]) -> Ids:
    if "numbers" in state:
        return np.asarray(state["numbers"])
    return Texts(state["content"], state["ends"]).strings()


def _reranked(
    hits: Hits, asked: Array, look_up: Callable[[Ids], NDArray[Any]], k: int, metric: str
) -> Hits:
    return rerank(hits, to_numpy(asked), look_up, k, metric=metric)
