"""Groups: members that come, go and are killed; the result is that of one member alone.

3 kills, and with STREAMBITS_SLOW=1 10 of each kind.
"""

import json
import os
import signal
import time
from itertools import count

import numpy as np
import pytest

import streambits as sb
from streambits.io.codes.parquet import read_codes

SLOW = bool(os.environ.get("STREAMBITS_SLOW"))
KILLS = 10 if SLOW else 3
NAMES = (f"g{number}" for number in count())
SETTINGS = ["--bits", 8, "--n-landmarks", 40, "--refresh", 700]


def payloads(rows):
    return [json.dumps(row).encode() for row in np.asarray(rows, float).tolist()]


def round_of(folder):
    """The newest round whose state is there."""
    found = [int(file.name[6:14]) for file in (folder / "group").glob("round-*.safetensors")]
    return max(found, default=0)


def reach(folder, number):
    """Wait until a group is in that round."""
    for _ in range(1500):
        if round_of(folder) >= number:
            return
        time.sleep(0.02)
    raise AssertionError(f"it is in round {round_of(folder)}, not {number}")


class Stream:
    """Messages in a broker, and the commands of groups that read them.

    ids: of the messages, in the order in which one member alone reads them.
    """

    def __init__(self, broker, messages):
        self.broker, self.nats = broker, broker.first == 1
        if self.nats:
            self.name = broker.new(messages)
            self.ids = list(range(1, len(messages) + 1))
        else:
            parts = [messages[0::3], [], messages[1::3], messages[2::3]]
            self.name = broker.new(*parts)
            self.ids = [(n << 48) + i for n, some in enumerate(parts) for i in range(len(some))]

    def command(self, folder, *more, group=None):
        """The command of the members of a group, a new one by default."""
        group = group or next(NAMES)
        more = [*(["--partitions", 4] if self.nats else []), *more]
        if not self.nats:
            self.broker.create(f"streambits-{group}")
        where = f"{self.broker.url}/{self.name}"
        return ["online", where, *SETTINGS, "--group", group, "--out", folder, *more]


@pytest.fixture(scope="module", params=["nats_server", "kafka_cluster"])
def broker(request):
    """As for all tests, but one for this module."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def stream(broker, moving):
    """Rows that move in the middle, some of them bad."""
    return Stream(broker, payloads(moving))


@pytest.fixture
def command(stream):
    """command(folder): of a group of its own."""
    return lambda folder: stream.command(folder, "--skip-bad")


@pytest.fixture(scope="module")
def alone(members, stream, tmp_path_factory, content):
    """What one member leaves that nobody disturbs."""
    folder = tmp_path_factory.mktemp("alone") / "job"
    process = members.start(stream.command(folder, "--skip-bad"))
    assert members.wait(process) == [0], members.said(process)
    return content(folder)


def test_one_member_leaves_what_a_job_leaves(alone, stream, moving, tmp_path):
    kinds = {name.partition("/")[0] for name in alone}
    models = {"model.safetensors", "coders.safetensors"}
    assert kinds == {"codes", "epochs", "rejects.jsonl"} | models
    for name, held in alone.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(held)
    coded = list(read_codes(tmp_path / "codes"))
    assert len({codes.epoch for _, codes in coded}) > 1  # the coordinator has opened one
    bad = int((~np.isfinite(moving).all(axis=1)).sum())
    found = [i for ids, _ in coded for i in ids.tolist()]
    assert len(found) == len(set(found)) == len(moving) - bad
    assert set(found) < set(stream.ids)
    assert len(alone["rejects.jsonl"].splitlines()) == bad
    assert sb.load(tmp_path / "model.safetensors").seen == len(found)


def test_any_number_of_members_leaves_the_same(alone, command, members, tmp_path, content):
    line = command(tmp_path / "job")
    found = [members.start(line, rows=rows) for rows in (500, 90, 200)]
    assert members.wait(*found) == [0, 0, 0], [members.said(one) for one in found]
    assert content(tmp_path / "job") == alone
    assert "8,982 rows" in members.said(found[0])
    late = members.start(line)
    assert members.wait(late) == [0]
    assert "finished before: there is nothing new" in members.said(late)


@pytest.mark.slow
def test_members_that_are_killed(alone, command, members, tmp_path, content):
    rng, kills, tries = np.random.default_rng(1), 0, 0
    while kills < KILLS:
        tries += 1
        folder = tmp_path / f"job{tries}"
        line = command(folder)
        found = [members.start(line, rows=int(rng.integers(50, 600))) for _ in range(2)]
        while members.code(found[0]) is None or members.code(found[1]) is None:
            time.sleep(rng.uniform(0, 1.2))
            which = int(rng.integers(2))
            if members.code(found[which]) is None and kills < KILLS:
                os.kill(found[which], signal.SIGKILL)
                assert members.wait(found[which]) == [-9]
                found[which] = members.start(line, rows=int(rng.integers(50, 600)))
                kills += 1
        assert members.wait(*found) == [0, 0], [members.said(one) for one in found]
        assert content(folder) == alone
        assert not list(folder.rglob(".*.new"))


@pytest.mark.slow
def test_the_coordinator_is_killed_and_another_takes_over(
    alone, command, members, tmp_path, content
):
    folder = tmp_path / "job"
    line = command(folder)
    first = members.start(line)
    reach(folder, 3)  # as it was alone, it coordinates
    second = members.start(line)
    time.sleep(0.3)
    os.kill(first, signal.SIGKILL)
    assert members.wait(second) == [0], members.said(second)
    assert content(folder) == alone


@pytest.mark.slow
def test_a_member_that_sleeps_too_long_does_no_harm(alone, command, members, tmp_path, content):
    folder = tmp_path / "job"
    line = command(folder)
    first = members.start(line)
    reach(folder, 3)
    os.kill(first, signal.SIGSTOP)
    second = members.start(line)
    assert members.wait(second) == [0], members.said(second)
    assert content(folder) == alone
    os.kill(first, signal.SIGCONT)
    assert members.wait(first) == [0], members.said(first)
    assert content(folder) == alone


def test_members_come_and_go(alone, command, members, tmp_path, content):
    folder = tmp_path / "job"
    line = command(folder)
    first = members.start(line)
    reach(folder, 2)
    second = members.start(line)
    reach(folder, 4)
    os.kill(first, signal.SIGTERM)
    assert members.wait(first) == [0]
    assert "stopped, and all of that is committed" in members.said(first)
    third = members.start(line)
    assert members.wait(second, third) == [0, 0], members.said(second)
    assert content(folder) == alone
