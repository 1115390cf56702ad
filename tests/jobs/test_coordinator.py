"""Groups without a broker: any order of steps, and a crash at any call, leave the same files."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambits as sb
from streambits.io.codes.parquet import read_codes
from streambits.io.groups import Held, Task
from streambits.jobs import coordinator
from streambits.jobs.coordinator import in_turns
from streambits.jobs.folder import JobFolder
from streambits.jobs.group import Member
from streambits.jobs.lanes import Shape
from streambits.jobs.rounds import advanced, cut, step
from streambits.methods.settings import Settings
from streambits.model.batches import RowBatch

LANES = 2


class Crash(BaseException):
    """A member is killed in the middle of something."""


class Server:
    """What the members share; time does not pass: what a member had is free when it is gone."""

    def __init__(self):
        self.records, self.tasks, self.leader = {}, {}, None


class Broker:
    """One member's view of it; after so many calls the member is killed."""

    name = "a group"

    def __init__(self, server, crash=None):
        self.server, self.left = server, crash

    def _call(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash

    def get(self, key):
        self._call()
        found = self.server.records.get(key)
        return found and Held(json.loads(found[0]), found[1])

    def put(self, key, value, revision=0):
        self._call()
        found = self.server.records.get(key)
        fits = revision == (found[1] if found else 0)
        if fits:
            self.server.records[key] = (json.dumps(value), revision + 1)
        self._call()  # killed before it hears of it
        return fits

    def forget(self, round):  # noqa: A002
        for key in [key for key in self.server.records if key.startswith(f"done.{round}.")]:
            del self.server.records[key]

    def coordinates(self):
        self._call()
        self.server.leader = self.server.leader or self
        return self.server.leader is self

    def resign(self):
        pass

    def offer(self, round, lanes):  # noqa: A002
        for lane in lanes:
            self.server.tasks.setdefault((round, lane), None)
            self._call()

    def take(self, round, lanes, seconds):  # noqa: A002
        del round, lanes, seconds
        self._call()
        free = [task for task, holder in self.server.tasks.items() if holder is None]
        if not free:
            return None
        self.server.tasks[free[0]] = self
        return Task(*free[0])

    def finish(self, task):
        self._call()
        self.server.tasks.pop((task.round, task.lane), None)

    def give_back(self, task):
        self.server.tasks[task.round, task.lane] = None

    def gone(self):
        """The broker notices that the member is."""
        self.server.leader = None if self.server.leader is self else self.server.leader
        for task, holder in self.server.tasks.items():
            self.server.tasks[task] = None if holder is self else holder


class Rows:
    """An array as a stream of one partition."""

    name, length, lanes, follow, idle = "rows", None, None, False, None

    def __init__(self, rows, size=97):
        self.rows, self.size = rows, size

    def identity(self):
        return {}

    def bounds(self):
        return {"0": (0, len(self.rows))}

    def read_slice(self, lane, start, end, decided):
        del lane
        for first in range(start, end, self.size):
            last = min(first + self.size, end)
            place = {"next": last, "end": end, **decided}
            yield RowBatch(np.arange(first, last), self.rows[first:last], place)


@pytest.fixture(scope="module")
def rows(mixture):
    """Rows that move in the middle."""
    found = mixture(5000, seed=3)
    found[2000:] += 8
    return found


class Group:
    """A folder, a server, and members that take steps."""

    def __init__(self, folder, rows, **more):
        self.rows, self.server = rows, Server()
        self.folder = JobFolder(folder, {"verb": "online"})
        self.folder.share()
        self.settings = Settings(
            **({"bits": 8, "n_landmarks": 40, "refresh": 900} | more)
        ).checked()

    def member(self, crash=None, size=97):
        return Member(
            Rows(self.rows, size),
            self.settings,
            self.folder,
            Broker(self.server, crash),
            shape=Shape(self.settings.sign_bits, self.settings.refinement_bytes, ()),
            lanes=LANES,
            skip_bad=False,
            keep_epochs=None,
            seconds=30.0,
            watchers=(),
        )

    def alone(self):
        self.steps(self.member())
        return self

    @staticmethod
    def steps(member, most=10**6):
        """Take steps; whether all is done."""
        stop = SimpleNamespace(asked=False)
        return any(member._step(stop) for _ in range(most))


@pytest.fixture(scope="module")
def wanted(rows, tmp_path_factory, content):
    return content(Group(tmp_path_factory.mktemp("alone") / "job", rows).alone().folder.path)


def test_it_opens_an_epoch_where_rows_move(wanted):
    assert "epochs/epoch-000000.safetensors" in wanted


@settings(max_examples=12)
@given(data=st.data())
def test_any_order_of_steps_and_crashes_leaves_the_same(
    data, rows, wanted, tmp_path_factory, content
):
    group = Group(tmp_path_factory.mktemp("any") / "job", rows)
    over, crashes = False, 0
    members = []
    while not over:
        if len(members) < 3:
            crash = data.draw(st.integers(0, 60)) if crashes < 8 else None
            members.append(group.member(crash, data.draw(st.integers(20, 400))))
        member = members[data.draw(st.integers(0, len(members) - 1))]
        try:
            over = group.steps(member, data.draw(st.integers(1, 6)))
        except Crash:
            crashes += 1
            member.broker.gone()
            members.remove(member)
    assert content(group.folder.path) == wanted
    assert not list(group.folder.path.rglob(".*.new"))


def test_two_coordinators_at_a_time_do_no_harm(rows, wanted, tmp_path, content):
    group = Group(tmp_path / "job", rows)
    members = [group.member(), group.member()]
    for one in members:
        one.broker.coordinates = lambda: True
    stop, over = SimpleNamespace(asked=False), False
    while not over:
        over = all([one._step(stop) for one in members])  # noqa: C419 - each takes a step
    assert content(group.folder.path) == wanted


@pytest.mark.parametrize("more", [{}, {"refine": 2, "bits": 4}, {"method": "itq"}])
def test_the_model_has_learned_every_row_once(rows, more, tmp_path):
    group = Group(tmp_path / "job", rows, epochs="never", **more).alone()
    learner = sb.load(group.folder.model_file)
    assert learner.seen == len(rows)
    ids = [i for ids, _ in read_codes(group.folder.codes) for i in ids.tolist()]
    assert ids == list(range(len(rows)))
    np.testing.assert_allclose(learner.sketch.mean, learner.features(rows).mean(axis=0), rtol=1e-4)
    coders = sb.load(group.folder.coders_file)
    assert coders.seen == len(rows)


def test_codes_are_those_of_the_coder_that_was_announced(rows, tmp_path, monkeypatch):
    """An oracle of its own: the coder of each round, and the rows of that round."""
    group = Group(tmp_path / "job", rows, epochs=900)
    announced = {}
    real = coordinator.Coordinator._announce

    def noted(self, following, models, revision):
        announced[following.number] = (following, models.coder)
        return real(self, following, models, revision)

    monkeypatch.setattr(coordinator.Coordinator, "_announce", noted)
    group.alone()
    place = 0
    for number, (following, coder) in sorted(announced.items()):
        for lane in following.lanes:
            start, end = following.slices[str(lane)]
            file = group.folder.codes / f"part-{number:08d}-{lane:05d}.parquet"
            [(ids, codes)] = list(read_codes(file))
            assert start == place
            assert ids.tolist() == list(range(start, end))
            assert codes.epoch == coder.epoch
            assert (codes.packed == coder.encode(rows[start:end], warn=False).packed).all()
            place = end
    assert place == len(rows)
    assert len({coder.epoch for _, coder in announced.values()}) > 2


def test_samples_of_lanes_draw_different_places(tmp_path):
    """Lanes of equal rows: one seed for all would keep the same places of each."""
    row = np.random.default_rng(0).normal(size=(6000, 4)).astype(np.float32)
    row[3000:] = row[:3000]
    group = Group(tmp_path / "job", row, epochs="never", refresh=6000).alone()
    sample = sb.load(group.folder.model_file).sample
    _, counts = np.unique(sample, axis=0, return_counts=True)
    assert (counts == 1).any()
    assert len(sample) == 5000


# Where rounds end


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=9),
    st.integers(1, 10**6),
)
def test_a_round_takes_its_share_of_every_partition(parts, count):
    places = {str(n): start for n, (start, _) in enumerate(parts)}
    ends = {str(n): start + more for n, (start, more) in enumerate(parts)}
    found = advanced(places, ends, count)
    taken = {name: found[name] - places[name] for name in places}
    left = {name: ends[name] - places[name] for name in places}
    assert all(0 <= taken[name] <= left[name] for name in places)
    whole = sum(left.values())
    assert min(count, whole) <= sum(taken.values()) <= min(count, whole) + len(parts)
    for name in places:
        assert abs(taken[name] - left[name] * min(1, count / max(whole, 1))) < 1


@given(st.integers(0, 100), st.integers(0, 1000), st.integers(1, 20))
def test_slices_are_the_round_in_order(start, size, lanes):
    pieces = cut({"0": start}, {"0": start + size}, lanes)
    assert sum(end - first for first, end in pieces.values()) == size
    place = start
    for lane in sorted(pieces, key=int):
        assert pieces[lane][0] == place
        place = pieces[lane][1]
        assert abs(pieces[lane][1] - pieces[lane][0] - size / lanes) <= 1
    assert place == start + size or not size


def test_rounds_grow_to_a_limit_or_are_as_long_as_asked():
    total, sizes = 0, []
    for _ in range(12):
        sizes.append(step(total, "auto", 4, 5000))
        total += sizes[-1]
    assert sizes[:4] == [5000, 5000, 10000, 20000]
    assert sizes[-1] == 4 * 65536
    assert [step(total, 700, 4, 5000) for total in (0, 5000)] == [5000, 700]


@given(st.lists(st.integers(0, 30), max_size=6))
def test_items_take_turns(counts):
    order = in_turns(counts)
    assert sorted(order.tolist()) == list(range(sum(counts)))
    starts = np.cumsum([0, *counts])
    for start, count in zip(starts, counts, strict=False):
        mine = [place for place in order.tolist() if start <= place < start + count]
        assert mine == sorted(mine)
