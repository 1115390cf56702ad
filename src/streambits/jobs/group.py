"""A member of a group: several processes, on one machine or many, that do one online job.

Every member does the same: it takes a slice that the broker hands out, encodes and learns it,
leaves codes and shard in the folder, and says so. One of them also coordinates. The record of a
round says all that a slice depends on, so whoever works on it, and however often, leaves the same
bytes; and when a member or the coordinator is gone, the broker hands what it had to another.
"""

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from streambits._files import make_folder
from streambits.errors import InputError, StorageError
from streambits.io.groups import GroupBroker, Held, Task, join_group
from streambits.io.protocols import Sliced
from streambits.io.urls import is_url, shown
from streambits.jobs.coordinator import ASKED, RECORD, Coordinator
from streambits.jobs.folder import JobFolder, differences, disk_errors
from streambits.jobs.job import JobPlan, Pace
from streambits.jobs.lanes import Lane, Models, Shape
from streambits.jobs.progress import Progress, Stop, Watcher, tell
from streambits.jobs.rounds import COUNTS, Round
from streambits.methods.settings import Settings

LANES = 8  # slices per round, where the stream does not say how many
BRIEF, LONG = 0.05, 0.5  # seconds to wait for work, of the coordinator and of others
REPORT = 1.0  # seconds between two steps that are reported
NAMED = 3  # differences that a message names


def run_group(
    plan: JobPlan,
    settings: Settings,
    name: str,
    *,
    version: str,
    partitions: int | None = None,
    keep_epochs: int | None = None,
    pace: Pace | None = None,
    watchers: Sequence[Watcher] = (),
) -> Progress:
    """Work as a member of a group until all is done, or a signal comes.

    Parameters
    ----------
    plan : JobPlan
        The job; all members have the same, and the same folder.
    settings : Settings
        How to learn.
    name : str
        Of the group.
    version : str
        Of streambits, which all members must share.
    partitions : int, optional
        Slices per round, 8 by default; of a topic of Kafka it is the number of its partitions.
    keep_epochs : int, optional
        How many epochs can be searched. Default: all.
    pace : Pace, optional
        Its seconds are how long messages of a stream that is followed wait for a round.
    watchers : sequence of callables
        Called with an event and the progress: rows of the group, and fresh ones of this member.

    Returns
    -------
    Progress

    Raises
    ------
    InputError
        If the source is not a stream of a broker, the name is not allowed, other members have other
        settings or another folder, or a row is bad and `skip_bad` is not set.
    UnreachableError
        If the broker stays away.
    """
    if is_url(str(plan.out)):
        raise InputError(f"--out is {shown(str(plan.out))}, a URL, and it must be a folder")
    source = plan.source
    broker = join_group(source, name)
    try:
        assert isinstance(source, Sliced)
        lanes = None if source.lanes is not None else partitions or LANES
        if source.lanes is not None and partitions not in (None, source.lanes):
            raise InputError(
                f"partitions is {partitions}, and {source.name} has {source.lanes}: leave "
                f"--partitions out"
            )
        own = {"group": name, "partitions": lanes or source.lanes, "version": version}
        job = plan.description() | own
        folder = JobFolder(plan.out, job, plan.names)
        _join(broker, folder, name)
        assert plan.bits is not None
        member = Member(
            source,
            settings,
            folder,
            broker,
            shape=Shape(plan.bits, plan.refine, plan.keep),
            lanes=lanes,
            skip_bad=plan.skip_bad,
            keep_epochs=keep_epochs,
            seconds=(pace or Pace()).seconds,
            watchers=watchers,
        )
        return member.run()
    finally:
        broker.close()


def _join(broker: GroupBroker, folder: JobFolder, name: str) -> None:
    """Make sure that all members do the same, in one folder."""
    held = broker.get("job")
    if held is not None:
        found = list(differences(held.value["job"], folder.job))
        if found:
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            raise InputError(
                f"group {name} was begun otherwise: {', '.join(found[:NAMED])}{more}; start all "
                f"members by the same command and with the same version of streambits, or choose "
                f"another name"
            )
    folder.share()
    token = _token(folder)
    if held is None:
        broker.put("job", {"job": folder.job, "folder": token})
        held = broker.get("job")
    if held is None or held.value["folder"] != token:
        raise InputError(
            f"{folder.path} is not the folder in which group {name} works: all members need the "
            f"same folder, on a disk that they share; or choose another name"
        )


def _token(folder: JobFolder) -> str:
    """A text that only this folder has; the first member writes it."""
    file = folder.group.token_file
    with disk_errors(folder.path):
        make_folder(file.parent)
        with suppress(FileExistsError), file.open("x") as new:
            new.write(secrets.token_hex(16) + "\n")
        for _ in range(100):  # another member may be writing it
            text = file.read_text()
            if text.endswith("\n"):
                return text.strip()
            time.sleep(0.05)
    raise StorageError(f"{file} is empty, and names the folder of a group: begin a new one")


class Member:
    """One process of a group: see `run_group`."""

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
        watchers: Sequence[Watcher],
    ) -> None:
        self.source, self.folder, self.broker = source, folder, broker
        self.shape, self.skip_bad, self.watchers = shape, skip_bad, watchers
        self.coordinator = Coordinator(
            source,
            settings,
            folder,
            broker,
            shape=shape,
            lanes=lanes,
            skip_bad=skip_bad,
            keep_epochs=keep_epochs,
            seconds=seconds,
        )
        self._fresh, self._now, self._first = 0, None, 0  # the first record that was seen
        self._asked = 0.0  # when it was asked whether there is more
        self._models: tuple[int, Models] | None = None  # of the last round that was worked on
        self._lanes: dict[int, tuple[int, Lane]] = {}  # and what its lanes were after it
        self._start_time = self._report_time = time.monotonic()

    _now: Round | None

    def run(self) -> Progress:
        """Until all is done, or a signal comes."""
        with Stop() as stop:
            held = self.broker.get(RECORD)
            self._first = 0 if held is None else held.revision
            self._note(held)
            self._report("start")
            while not stop.asked and not self._step(stop):
                pass
            return self._report("end", stopped=stop.asked)

    def _step(self, stop: Stop) -> bool:
        """Coordinate, if that is up to this member, and work on a slice; whether all is done."""
        held = self.broker.get(RECORD)
        if self._is_over(held):
            return True
        coordinates = self.broker.coordinates()
        if coordinates and self.coordinator.act(held):
            held = self.broker.get(RECORD)
            if self._is_over(held):
                return True
        now = self._now
        number, lanes = (now.number, now.lanes) if now is not None else (0, [])
        task = self.broker.take(number, lanes, BRIEF if coordinates else LONG)
        if task is not None:
            self._work(task, stop)
        return False

    def _is_over(self, held: Held | None) -> bool:
        """Whether the group has come to its end, and not only to that of an earlier run."""
        self._note(held)
        idle = self.source.idle
        if held is None or not held.value["ended"] or (self.source.follow and idle is None):
            return False
        if held.revision != self._first:
            return True
        now = time.monotonic()
        if now - self._start_time < (idle or 0) or now - self._asked < ASKED:
            return False
        self._asked = now
        return not self.coordinator.has_more(Round.of(held.value))

    def _work(self, task: Task, stop: Stop) -> None:
        held = self.broker.get(RECORD)
        self._note(held)
        now = self._now
        done = f"done.{task.round}.{task.lane}"
        if now is None or now.number < task.round:  # announced a moment ago, or never
            self.broker.give_back(task)
        elif now.number > task.round or now.ended or self.broker.get(done) is not None:
            self.broker.finish(task)
        else:
            try:
                finished = self._slice(now, task.lane, stop)
            except StorageError:
                if self._is_current(now):
                    self.broker.give_back(task)
                    raise
                finished = True  # files that others do not need any more
            except BaseException:
                self.broker.give_back(task)
                raise
            if finished and self._is_current(now):
                self.broker.put(done, {"lane": task.lane})
            if finished or not stop.asked:
                self.broker.finish(task)
            else:
                self.broker.give_back(task)

    def _slice(self, now: Round, number: int, stop: Stop) -> bool:
        """Work on a slice; whether it was finished."""
        if self._models is None or self._models[0] != now.number:
            self._models = (now.number, self.coordinator.models(now))
        models, last = self._models[1], now.shards.get(str(number), 0)
        known, lane = self._lanes.pop(number, (-1, None))
        if lane is None or known != last or last < now.base:
            lane = Lane.of(number, now, self.folder, models)
        rows = self._fresh

        def going_on(count: int) -> bool:
            self._fresh += count
            if time.monotonic() - self._report_time >= REPORT:
                self._report("step")
            return not stop.asked

        finished = lane.work(
            now,
            models,
            self.source,
            self.folder,
            shape=self.shape,
            skip_bad=self.skip_bad,
            going_on=going_on,
            current=lambda: self._is_current(now),
        )
        if finished:
            self._lanes[number] = (now.number, lane)
            self._report("commit")
        else:
            self._fresh = rows
        return finished

    def _is_current(self, now: Round) -> bool:
        held = self.broker.get(RECORD)
        if held is None or held.value["ended"]:
            return False
        return bool(held.value["number"] == now.number)

    def _note(self, held: Held | None) -> None:
        """Know the record of the round; report a new epoch."""
        before, self._now = self._now, None if held is None else Round.of(held.value)
        if before is not None and self._now is not None and self._now.epoch != before.epoch:
            self._report("epoch")

    def _report(self, event: str, *, stopped: bool = False) -> Progress:
        counts = self._counts()
        progress = Progress(
            rows=counts["rows"],
            bytes=counts["bytes"],
            rejects=counts["rejects"],
            fresh=self._fresh,
            seconds=time.monotonic() - self._start_time,
            epoch=self._now.epoch if self._now else 0,
            out_of_reach=counts["out_of_reach"],
            removed=counts["removed"],
            stopped=stopped,
        )
        tell(self.watchers, event, progress)
        self._report_time = time.monotonic()
        return progress

    def _counts(self) -> dict[str, int]:
        """Rows and so on of the group, as far as rounds are over."""
        now: Any = self._now
        if now is None:
            return dict.fromkeys(COUNTS, 0)
        if now.ended:
            found = self.folder.checkpoint()
            if found is not None:
                return found.counts
        return dict(now.counts)
