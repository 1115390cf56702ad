"""The coordinator of a group: it merges shards, opens epochs, makes coders and announces rounds.

Any member can be it, one after the other: all that it knows is in the record of the round and in
the files that the record names. Two at a time find the same, and the record of only one counts.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits._arrays import CheckedRows, as_rows
from streambits._files import make_folder, replacing
from streambits.epochs.coder_set import CoderSet
from streambits.epochs.monitor import DriftEvidence
from streambits.errors import InputError, StorageError
from streambits.io.codes.parquet import settle_parts
from streambits.io.groups import GroupBroker
from streambits.io.protocols import Sliced
from streambits.jobs.folder import Checkpoint, JobFolder, disk_errors
from streambits.jobs.lanes import Models, Shape, expected_reach, joined, load_shard
from streambits.jobs.rejects import Rejects
from streambits.jobs.rounds import (
    COUNTS,
    Bounds,
    Places,
    Round,
    advanced,
    check_partitions,
    cut,
    step,
)
from streambits.methods.settings import Settings
from streambits.model.learner import Learner
from streambits.online import first_rows
from streambits.storage import load, save

RECORD = "round"  # the key of the record
ASKED = 0.5  # seconds between two questions where the stream ends


class Coordinator:
    """What the coordinator does whenever it has time.

    Parameters
    ----------
    source : Sliced
    settings : Settings
        How to learn.
    folder : JobFolder
    broker : GroupBroker
    shape : Shape
        Of the codes.
    lanes : int or None
        Slices per round; None for one per partition of the stream.
    skip_bad : bool
        Whether bad rows are put aside.
    keep_epochs : int, optional
        How many epochs can be searched. Default: all.
    seconds : float
        Longest time that messages of a stream that is followed wait for a round.
    """

    def __init__(
        self,
        source: Sliced,
        settings: Settings,
        folder: JobFolder,
        broker: GroupBroker,
        *,
        shape: Shape,
        lanes: int | None,
        skip_bad: bool,
        keep_epochs: int | None,
        seconds: float,
    ) -> None:
        self.source, self.settings, self.folder, self.broker = source, settings, folder, broker
        self.shape, self.skip_bad, self.keep_epochs = shape, skip_bad, keep_epochs
        self.seconds, self._lanes = seconds, lanes
        self._done: set[int] = set()  # lanes of the present round
        self._offered = 0  # the last round of which slices were handed out by this member
        self._ends: Places = {}  # where the stream ended when last asked
        self._grown = self._waited = self._asked = time.monotonic()
        self._more = False  # whether the end is to be looked for again

    def act(self, held: Any) -> bool:
        """Do what is due now. held: the record of the round, None before the first.

        Returns
        -------
        bool
            Whether there is a new record.
        """
        if held is None:
            return self._begin()
        now = Round.of(held.value)
        if not now.ended:
            if self._offered != now.number:
                self._offered, self._done = now.number, set()
                self.broker.offer(now.number, [n for n in now.lanes if not self._is_done(now, n)])
            if not all(self._is_done(now, lane) for lane in now.lanes):
                return False
        return self._go_on(now, held.revision)

    def _is_done(self, now: Round, lane: int) -> bool:
        if lane not in self._done and self.broker.get(f"done.{now.number}.{lane}") is not None:
            self._done.add(lane)
        return lane in self._done

    # Where a round ends

    def has_more(self, now: Round) -> bool:
        """Whether there are messages after a round that has ended for good."""
        ends = self._newest(now.after)
        return any(ends[name] > place for name, place in now.after.items())

    def _newest(self, after: Places | None = None) -> Places:
        bounds: Bounds = self.source.bounds()
        if after is not None:
            check_partitions(after, bounds, self.source.name)
        ends = {name: end for name, (_, end) in bounds.items()}
        if after is not None:
            for name, place in after.items():
                if ends[name] < place:
                    raise StorageError(
                        f"{self.source.name} ends at {ends[name]}, and was read up to {place}: it "
                        f"is not the stream it was; begin a new group with a new folder"
                    )
        if ends != self._ends:
            self._ends, self._grown = ends, time.monotonic()
        return ends

    def _planned(
        self, after: Places, goal: Places | None, count: int, first: bool
    ) -> Places | None:
        """Where the next round ends; None if there is to be none yet, `after` if there is none."""
        if goal is not None:
            return advanced(after, goal, count)
        now = time.monotonic()
        if now - self._asked < ASKED:
            return None
        self._asked = now
        ends = self._newest(after)
        ready = sum(ends.values()) - sum(after.values())
        idle = self.source.idle
        over = idle is not None and now - self._grown >= idle
        if not ready:
            self._waited = now
            return after if over else None
        late = not first and now - self._waited >= self.seconds
        return advanced(after, ends, count) if ready >= count or late or over else None

    # The first round

    def _begin(self) -> bool:
        """Draw landmarks from the first messages, which are the first round."""
        bounds = self.source.bounds()
        start = {name: first for name, (first, _) in bounds.items()}
        goal = None if self.source.follow else self._newest()
        count = self.settings.gathered
        while True:
            after = self._planned(start, goal, count, first=True)
            if after is None:
                return False
            slices = cut(start, after, self._lanes)
            rows, decided = self._gathered(slices)
            ends = goal or self._newest()
            if sum(map(len, rows)) >= self.settings.gathered or after == ends:
                break
            count *= 2
            self._asked = 0.0
        if not rows:
            if not self.source.follow or after == start:
                raise InputError("there are no rows that can be used")
            return False
        empty = self.settings.learner(rows)
        base, first = empty.shard(), empty.shard()
        first.learn(CheckedRows(as_rows(np.concatenate(rows), like=first.features.like)))
        learner = empty.pooled(base, [first])  # lanes will learn these rows again
        learner.coder()
        now = Round(
            number=1,
            slices=slices,
            after=after,
            goal=goal,
            base=1,
            shards={},
            decided=decided,
            messages=0,
            refreshed=0,
            counts=dict.fromkeys(COUNTS, 0),
            epoch=learner.epoch,
        )
        return self._announce(now, Models(learner, base, CoderSet()), 0)

    def _gathered(self, slices: dict[str, list[int]]) -> tuple[list[NDArray[Any]], dict[str, Any]]:
        """The first rows of some slices, and what the messages have decided."""
        check = (lambda _: None) if self.skip_bad else Rejects(None, skip=False).check
        found, decided = list[NDArray[Any]](), dict[str, Any]()
        for lane, (start, end) in sorted(slices.items(), key=lambda item: int(item[0])):
            for batch in self.source.read_slice(int(lane), start, end, decided):
                check(batch.rejects)
                kept = batch.offset.items()
                decided = {name: value for name, value in kept if name not in ("next", "end")}
                found += [batch.rows] if len(batch.rows) else []
        return first_rows(found, self.settings.gathered), decided

    # All others

    def _go_on(self, now: Round, revision: int) -> bool:
        """Merge what the lanes of a round have left; announce the next, or the end."""
        goal, messages = now.goal, now.messages + now.size
        if self.source.follow:
            goal = None
        elif now.ended or goal is None:
            goal = self._newest(now.after)
        if now.ended and goal == now.after:
            return False
        lanes = self._lanes or len(now.after)
        count = step(messages, self.settings.refresh, lanes, self.settings.gathered)
        after = self._planned(now.after, goal, count, first=False)
        if after is None:
            return False
        if after == now.after and now.ended:
            return False
        merged = self._merged(now)
        if after == now.after:
            return self._end(now, merged, revision)
        learner, counts = merged.learner, merged.counts
        base, before, first = merged.models.base, now.before, now.base
        due = messages >= now.refreshed + step(
            now.refreshed, self.settings.refresh, lanes, self.settings.gathered
        )
        epoch = learner.epoch
        _judge(learner, merged.fresh)
        if learner.epoch == epoch and due and learner.epochs != "never" and learner.has_outgrown:
            learner.new_epoch()
        renewed = learner.epoch != epoch
        if renewed:
            base, before, first = (
                Learner.from_state(learner.state()),
                counts["rows"],
                now.number + 1,
            )
        if renewed or due:
            learner.coder()
        following = now._replace(
            number=now.number + 1,
            slices=cut(now.after, after, self._lanes),
            after=after,
            goal=goal,
            base=first,
            shards=now.worked,
            messages=messages,
            refreshed=messages if renewed or due else now.refreshed,
            counts=counts,
            before=before,
            epoch=learner.epoch,
            order=_order(now.order, merged.fresh),
            ended=False,
        )
        return self._announce(following, Models(learner, base, merged.coders), revision)

    def _merged(self, now: Round) -> "_Merged":
        """What was learned up to the end of a round.

        Of each lane the newest shard counts, once, in the order of the lanes.
        """
        models = self.models(now)
        coders, counts = models.coders, dict(now.counts)
        samples, fresh = list[CoderSet](), list[Checkpoint]()

        def shards() -> Iterator[Learner]:
            """One at a time, for all of them would need as much memory as there are lanes."""
            for lane, number in sorted(now.worked.items(), key=lambda item: int(item[0])):
                if number < now.base:
                    continue
                held = load_shard(self.folder.group.shard(number, int(lane)))
                samples.append(held.models["coders"])
                yield held.models.pop("shard")
                if number == now.number:
                    fresh.append(held)

        with expected_reach(models.learner):
            learner = models.learner.pooled(models.base, shards())
        for held in fresh:
            counts = {name: counts[name] + held.counts[name] for name in COUNTS}
        coders.store_in(self.folder.path, load, save)
        coders.pool(models.coder, samples, now.before)
        if self.keep_epochs is not None:
            coders.keep_newest(self.keep_epochs)
        return _Merged(models, learner, coders, counts, fresh)

    def models(self, now: Round) -> Models:
        """What was announced for a round."""
        held = load_shard(self.folder.group.state(now.number)).models
        return Models(held["learner"], held["base"], held["coders"])

    def _is_late(self, revision: int) -> bool:
        """Whether another member has gone on, so that nothing may be written any more."""
        held = self.broker.get(RECORD)
        if (held.revision if held else 0) == revision:
            return False
        self.broker.resign()
        return True

    def _announce(self, following: Round, models: Models, revision: int) -> bool:
        """Hand out a coder and a round; whether this was the first to do so."""
        if self._is_late(revision):
            return False
        group = self.folder.group
        make_folder(group.folder)
        make_folder(self.folder.codes)
        parts = {"learner": models.learner, "base": models.base, "coders": models.coders}
        held = Checkpoint(
            following.after, None, following.counts, parts, source=following.number, ended=False
        )
        save(held, group.state(following.number), private=True)
        if not self.broker.put(RECORD, following._asdict(), revision):
            self.broker.resign()
            return False
        if following.number > 1:
            shown = {"learner": models.learner, "coders": models.coders}
            self._show(following, following.counts, shown, ended=False)
            self._tidy(following)
        self.broker.offer(following.number, following.lanes)
        self._offered, self._done = following.number, set()
        self._waited = time.monotonic()
        return True

    def _show(
        self, now: Round, counts: dict[str, int], models: dict[str, Any], *, ended: bool
    ) -> None:
        """Write the checkpoint that tells others how far the group is."""
        plain = {name: counts[name] for name in COUNTS} | {"size": 0, "crc": 0}
        held = Checkpoint(now.after, None, plain, models, ended=ended)
        save(held, self.folder.checkpoint_file, private=True)

    def _tidy(self, now: Round) -> None:
        """Remove what no round needs any more."""
        group, last = self.folder.group, now.number - 1
        self.broker.forget(last)
        needed = {group.state(now.number).name, group.token_file.name}
        needed |= {group.shard(number, int(lane)).name for lane, number in now.shards.items()}
        with disk_errors(group.folder):
            for path in group.folder.glob("*.safetensors"):
                number = int(path.name.split("-")[1][:8])
                if path.name not in needed and number <= last:
                    path.unlink(missing_ok=True)

    def _end(
        self,
        now: Round,
        merged: "_Merged",
        revision: int,
    ) -> bool:
        """Leave what a job leaves that has ended."""
        if self._is_late(revision):
            return False
        coders, order = merged.coders, _order(now.order, merged.fresh)
        if order["marked"] or not order["ascending"]:
            settle_parts(self.folder.codes)
        self._collect_rejects()
        learner = merged.learner.with_coder(merged.models.coder)
        self._show(now, merged.counts, {"learner": learner, "coders": coders}, ended=True)
        save(coders, self.folder.coders_file)
        save(learner, self.folder.model_file)
        coders.tidy()
        for folder in (self.folder.codes, self.folder.group.folder):
            _clear(folder)
        ended = now._replace(ended=True, order=order)
        if not self.broker.put(RECORD, ended._asdict(), revision):
            self.broker.resign()
            return False
        self.broker.forget(now.number)
        return True

    def _collect_rejects(self) -> None:
        """All bad rows in one file, in the order of rounds and lanes."""
        files = sorted(self.folder.group.folder.glob("rejects-*.jsonl"))
        if files:
            with (
                disk_errors(self.folder.path),
                replacing(self.folder.rejects_file, private=True) as all_,
            ):
                for file in files:
                    all_.write(file.read_bytes())


class _Merged(NamedTuple):
    """What was learned up to the end of a round.

    models: those of the round; fresh: what the lanes that have worked in it have left.
    """

    models: Models
    learner: Learner
    coders: CoderSet
    counts: dict[str, int]
    fresh: list[Checkpoint]


def _judge(learner: Learner, fresh: list[Checkpoint]) -> None:
    """Let the monitor see what lanes have measured, as if their chunks took turns."""
    held = [one.models for one in fresh]
    rows = [one["recent"] for one in held if one["recent"] is not None]
    if not learner.recent or not rows:
        return
    found = [DriftEvidence(**one["evidence"]) for one in held if one["evidence"] is not None]
    nothing = DriftEvidence(np.zeros(0), np.zeros(0), np.zeros((0, 1, 1), np.float32))
    turns, whole = in_turns([len(one.gains) for one in found]), joined(found) or nothing
    evidence = DriftEvidence(whole.gains[turns], whole.means[turns], whole.values[turns])
    learner.judge(evidence, np.concatenate(rows)[in_turns([len(some) for some in rows])])


def _order(order: dict[str, Any], fresh: list[Checkpoint]) -> dict[str, Any]:
    """Whether the ids of all slices so far ascend, and some were removed."""
    order = dict(order)
    for held in (one.sink for one in fresh if one.sink):
        last = order["last"]
        higher = last is None or (type(last) is type(held["first"]) and held["first"] > last)
        order["ascending"] = order["ascending"] and higher and held["ascending"]
        order["marked"] = order["marked"] or held["marked"]
        order["last"] = held["last"]
    return order


def in_turns(counts: list[int]) -> NDArray[np.intp]:
    """The order in which items of several lists take turns, by their share of each list.

    Examples
    --------
    >>> in_turns([2, 4]).tolist()
    [2, 0, 3, 4, 1, 5]
    """
    places = [(np.arange(count) + 1) / count for count in counts if count]
    return np.argsort(np.concatenate([np.zeros(0), *places]), kind="stable")


def _clear(folder: Any) -> None:
    """Remove what members left that were killed: nobody writes here any more."""
    with disk_errors(folder):
        for path in folder.glob(".*.new"):
            path.unlink(missing_ok=True)
