"""Lanes: what a member of a group does with one slice of a round."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import CheckedRows, Ids, to_numpy
from streambits._files import replacing
from streambits.epochs.coder_set import CoderSet
from streambits.epochs.detector import CHUNK, SAMPLED
from streambits.epochs.monitor import DriftEvidence
from streambits.errors import ReachWarning, StorageError
from streambits.io.codes.columns import CodeColumns
from streambits.io.codes.parquet import part_file, write_part
from streambits.io.protocols import Sliced
from streambits.jobs.folder import Checkpoint, JobFolder
from streambits.jobs.rejects import Rejects
from streambits.jobs.rounds import COUNTS, Round
from streambits.jobs.work import changes
from streambits.model.batches import CodeBatch, Reject, RowBatch
from streambits.model.coder import Coder
from streambits.model.learner import Learner
from streambits.storage import load, save

EVERY = CHUNK // SAMPLED  # of the rows is measured
LANE_BITS = 20  # of the number of a shard; those above are the round
Rows = NDArray[Any]


class Shape(NamedTuple):
    """What the codes of a group are like: bits, bytes of refinement, and what is kept beside."""

    bits: int
    refine: int
    keep: tuple[str, ...]


class Models(NamedTuple):
    """What the coordinator hands out for a round.

    Attributes
    ----------
    learner : Learner
        All that was learned before; its last coder encodes the round.
    base : Learner
        What was learned before the epoch began: lanes learn the rest.
    coders : CoderSet
        Of all epochs.
    """

    learner: Learner
    base: Learner
    coders: CoderSet

    @property
    def coder(self) -> Coder:
        """That of the round."""
        found = self.learner.last_coder
        assert found is not None
        return found


class Lane:
    """What a lane has learned since its epoch began, and a slice that it works on.

    It depends on the messages of the lane and on the coders that were announced, and on nothing
    else: not on who works, on batches, or on how often a slice was begun.

    Parameters
    ----------
    number : int
        Of the lane.
    shard : Learner
        What it learns into.
    coders : CoderSet
        A sample of what it has encoded.
    waiting : array of shape (n, d), optional
        Rows of a chunk that is not full, of those that are measured.
    counted : int
        Rows of that chunk.
    """

    def __init__(
        self,
        number: int,
        shard: Learner,
        coders: CoderSet,
        waiting: Rows | None = None,
        counted: int = 0,
    ) -> None:
        self.number, self.shard, self.coders = number, shard, coders
        self._waiting, self._counted = waiting, counted

    @classmethod
    def of(cls, number: int, now: Round, folder: JobFolder, models: Models) -> "Lane":
        """The lane as it was when a round began."""
        last = now.shards.get(str(number), 0)
        if last < now.base:
            partition = (now.base << LANE_BITS) + number  # of no other lane, in no other epoch
            return cls(number, models.base.shard(partition), CoderSet(seed=number + 1))
        held = load_shard(folder.group.shard(last, number))
        found = held.models
        return cls(number, found["shard"], found["coders"], found["waiting"], held.offset)

    def work(
        self,
        now: Round,
        models: Models,
        source: Sliced,
        folder: JobFolder,
        *,
        shape: Shape,
        skip_bad: bool,
        going_on: Callable[[int], bool],
        current: Callable[[], bool],
    ) -> bool:
        """Encode and learn the slice of a round, and leave all that comes of it in the folder.

        going_on: called with the number of rows of each batch; if it returns False, the slice is
        left as it was. current: whether the round still goes on; it is asked before files are
        written, for a member that was asleep may be late. Returns whether it was finished.
        """
        coder, monitored = models.coder, models.learner
        coder = Coder(
            self.shard.features, coder.projection, coder.epoch, coder.refinement, coder.metric
        )
        start, end = now.slices[str(self.number)]
        check = Rejects(None, skip=False).check if not skip_bad else (lambda _: None)
        columns: list[CodeColumns] = []
        counts, rejects = dict.fromkeys(COUNTS, 0), list[Reject]()
        measured, tail = list[Any](), _Tail(share(monitored.recent, now, self.number))
        for batch in source.read_slice(self.number, start, end, now.decided):
            check(batch.rejects)
            rejects += batch.rejects
            if len(batch.ids):
                measured.append(self._measure(monitored, batch.rows))
                tail.add(batch.rows)
            columns += self._encoded(batch, coder, monitored, counts, shape)
            if not going_on(len(batch.ids)):
                return False
        if not current():
            return False
        counts["rejects"] = len(rejects)
        file = part_file(folder.codes, now.number, self.number)
        written = write_part(columns, shape.bits, file, refine=shape.refine, keep=shape.keep)
        if rejects:
            write_rejects(rejects, folder.group.rejects(now.number, self.number))
        evidence = joined(measured)
        left: dict[str, Any] = {
            "shard": self.shard,
            "coders": self.coders,
            "waiting": self._waiting,
            "recent": tail.rows,
            "evidence": None if evidence is None else evidence._asdict(),
        }
        held = Checkpoint(self._counted, order_of(written), counts, left)
        save(held, folder.group.shard(now.number, self.number), private=True)
        return True

    def _encoded(
        self,
        batch: RowBatch,
        coder: Coder,
        monitored: Learner,
        counts: dict[str, int],
        shape: Shape,
    ) -> Iterator[CodeColumns]:
        codes: Iterator[CodeBatch] = iter(())
        if len(batch.ids):
            rows = CheckedRows(batch.rows)
            with expected_reach(monitored):
                found = self.shard.learn_and_encode(rows, coder)
            self.coders.record(coder, rows, found)
            counts["out_of_reach"] += int(coder.out_of_reach(batch.rows, found).sum())
            codes = iter([CodeBatch(batch.ids, found)])
        counts["rows"] += len(batch.ids)
        counts["bytes"] += batch.rows.nbytes
        counts["removed"] += len(batch.removals.ids) if batch.removals else 0
        for ids, some, payload in changes([batch], codes):
            if some is None:
                yield CodeColumns.tombstones(ids, shape.bits, shape.refine, len(shape.keep))
            else:
                yield CodeColumns.of(
                    ids, some, shape.bits, shape.refine, payload=payload, keep=shape.keep
                )

    def _measure(self, learner: Learner, rows: Rows) -> DriftEvidence | None:
        """Measure the chunks that are full with these rows."""
        if not learner.recent:
            return None
        some = rows[-self._counted % EVERY :: EVERY]
        held = some if self._waiting is None else np.concatenate([self._waiting, some])
        chunks = len(held) // SAMPLED
        full, self._waiting = held[: chunks * SAMPLED], held[chunks * SAMPLED :].copy()
        self._counted = (self._counted + len(rows)) % CHUNK
        found: DriftEvidence | None = learner.evidence(full) if chunks else None
        return found


class _Tail:
    """The last rows of a slice, at most so many."""

    def __init__(self, size: int) -> None:
        self._size, self.rows = size, None

    rows: Rows | None

    def add(self, rows: Rows) -> None:
        if self._size:
            last = to_numpy(rows)[-self._size :]
            held = last if self.rows is None else np.concatenate([self.rows, last])
            self.rows = held[-self._size :].copy()


@contextmanager
def expected_reach(learner: Learner) -> Iterator[None]:
    """Do not warn of rows out of reach of a shard, where a monitor notices them."""
    with warnings.catch_warnings():
        if learner.recent:
            warnings.simplefilter("ignore", ReachWarning)
        yield


def share(recent: int, now: Round, lane: int) -> int:
    """How many of the last rows of a round come from a lane: by its share of the messages."""
    start, end = now.slices[str(lane)]
    return -(-recent * (end - start) // now.size)


def load_shard(path: Path) -> Checkpoint:
    """What a lane has left."""
    found = load(path)
    if not isinstance(found, Checkpoint):
        raise StorageError(f"{path} holds a {type(found).__name__}, not a shard")
    return found


def order_of(rows: CodeColumns) -> dict[str, Any]:
    """First and last id of some rows, whether they ascend, and whether some were removed."""
    ids: Ids = rows.ids
    if not len(ids):
        return {}
    ends = {"first": ids[:1].tolist()[0], "last": ids[-1:].tolist()[0]}
    ascending = bool((ids[1:] > ids[:-1]).all())
    return ends | {"ascending": ascending, "marked": bool((rows.epochs < 0).any())}


def joined(evidence: Iterable[DriftEvidence | None]) -> DriftEvidence | None:
    """Measurements that follow each other, as one."""
    some = [one for one in evidence if one is not None]
    return DriftEvidence(*map(np.concatenate, zip(*some, strict=True))) if some else None


def write_rejects(rejects: Iterable[Reject], path: Path) -> None:
    """Rows that could not be used, in lines of JSON as in rejects.jsonl."""
    with replacing(path, private=True) as file:
        for reject in rejects:
            file.write(json.dumps(reject._asdict()).encode() + b"\n")
