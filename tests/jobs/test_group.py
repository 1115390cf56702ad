"""Groups: members that come, go and are killed; the result is that of one member alone.

2 kills, and with STREAMBITS_SLOW=1 10 of each kind. Some tests are over NATS alone without that.
"""

import json
import os
import signal
import time
from itertools import count

import numpy as np
import pytest
from pyarrow import parquet

import streambits as sb
from streambits.cli.app import app
from streambits.errors import InputError
from streambits.io.codes.parquet import read_codes
from streambits.jobs.rounds import check_partitions

SLOW = bool(os.environ.get("STREAMBITS_SLOW"))
KILLS = 10 if SLOW else 2
NAMES = (f"g{number}" for number in count())
SETTINGS = ["--bits", 8, "--n-landmarks", 40, "--refresh", 1400]


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


@pytest.fixture
def rarely(broker):
    """For what takes long, and depends little on the broker."""
    if broker.first != 1 and not SLOW:
        pytest.skip("over NATS alone; over Kafka with STREAMBITS_SLOW=1")


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


@pytest.mark.usefixtures("rarely")
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


@pytest.mark.usefixtures("rarely")
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


@pytest.mark.usefixtures("rarely")
@pytest.mark.slow
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


def ids_in(folder):
    return [i for ids, _ in read_codes(folder / "codes") for i in ids.tolist()]


def test_new_messages_are_picked_up_by_the_same_command(broker, members, mixture, tmp_path):
    rows, folder = mixture(1500), tmp_path / "job"
    stream = Stream(broker, payloads(rows[:900]))
    line = stream.command(folder)
    assert members.wait(members.start(line)) == [0]
    assert sorted(ids_in(folder)) == sorted(stream.ids)
    learner = sb.load(folder / "model.safetensors")
    assert learner.seen == 900
    broker.publish(stream.name, payloads(rows[900:]))  # of Kafka into one partition
    found = [members.start(line), members.start(line)]
    assert members.wait(*found) == [0, 0], [members.said(one) for one in found]
    assert any("1,500 rows" in members.said(one) for one in found)
    assert sb.load(folder / "model.safetensors").seen == len(set(ids_in(folder))) == 1500
    hits = sb.open(folder).search(rows[:5], k=3)
    assert set(hits.ids.ravel().tolist()) <= set(ids_in(folder))
    assert members.wait(members.start(["inspect", folder])) == [0]


@pytest.mark.usefixtures("rarely")
@pytest.mark.slow
def test_a_stream_that_is_followed(broker, members, mixture, tmp_path):
    rows, folder = mixture(1600), tmp_path / "job"
    stream = Stream(broker, payloads(rows[:900]))
    line = stream.command(folder, "--follow", "--commit-seconds", 0.5)
    found = [members.start(line), members.start(line)]
    until(lambda: count_in(folder) == 900)
    broker.publish(stream.name, payloads(rows[900:1300]))
    until(lambda: count_in(folder) == 1300)
    os.kill(found[0], signal.SIGKILL)
    broker.publish(stream.name, payloads(rows[1300:]))
    until(lambda: count_in(folder) == 1600)
    os.kill(found[1], signal.SIGTERM)
    assert members.wait(found[1]) == [0], members.said(found[1])
    last = members.start(stream.command(folder, group=line[line.index("--group") + 1]))
    assert members.wait(last) == [0], members.said(last)
    assert len(ids_in(folder)) == len(set(ids_in(folder))) == 1600
    assert sb.load(folder / "model.safetensors").seen == 1600


@pytest.mark.usefixtures("rarely")
@pytest.mark.slow
def test_members_that_wait_for_messages_for_a_while(broker, members, mixture, tmp_path):
    rows, folder = mixture(1000), tmp_path / "job"
    stream = Stream(broker, payloads(rows[:500]))
    line = stream.command(folder, "--idle", 1.5)
    found = [members.start(line), members.start(line)]
    until(lambda: count_in(folder) >= 400)  # the first round; the rest waits for more
    broker.publish(stream.name, payloads(rows[500:]))
    assert members.wait(*found) == [0, 0], [members.said(one) for one in found]
    assert count_in(folder) == 1000
    late = members.start(line)
    assert members.wait(late) == [0]
    assert "finished before: there is nothing new" in members.said(late)


def count_in(folder):
    try:
        return len(set(ids_in(folder)))
    except sb.errors.StorageError:
        return 0


def until(holds):
    """Wait until something holds, at most half a minute."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def changing(rows):
    """Messages that write, change and remove documents with text ids."""
    rng = np.random.default_rng(5)
    for number, row in enumerate(rows.tolist()):
        yield {"id": f"doc-{number % 700}", "embedding": row, "title": f"version {number}"}
        if number % 3 == 2:
            yield {"id": f"doc-{rng.integers(700)}", "embedding": None}


def test_updates_and_removals_of_texts(nats_server, members, mixture, tmp_path):
    items = list(changing(mixture(2000, dtype=np.float64)))
    stream = Stream(nats_server, [json.dumps(item).encode() for item in items])
    more = ["--ids", "id", "--columns", "embedding", "--keep", "title"]
    line = stream.command(tmp_path / "job", *more)
    found = [members.start(line), members.start(line)]
    assert members.wait(*found) == [0, 0], [members.said(one) for one in found]
    live = {}
    for number, item in enumerate(items):
        live.pop(item["id"], None)
        if item["embedding"] is not None:
            live[item["id"]] = number
    files = sorted((tmp_path / "job" / "codes").glob("*.parquet"))
    tables = [parquet.read_table(file).to_pydict() for file in files]
    assert [name for table in tables for name in table["id"]] == list(live)
    titles = [title for table in tables for title in table["title"]]
    assert titles == [items[number]["title"] for number in live.values()]
    assert all(epoch >= 0 for table in tables for epoch in table["epoch"])


@pytest.mark.usefixtures("rarely")
@pytest.mark.slow
def test_a_broker_that_goes_away_and_comes_back(members, stream, alone, content, tmp_path):
    broker = stream.broker
    folder = tmp_path / "job"
    line = stream.command(folder, "--skip-bad", "--retry-seconds", 30)
    found = [members.start(line), members.start(line)]
    reach(folder, 3)
    broker.stop()
    until(lambda: any("cannot be reached" in members.said(one) for one in found))
    broker.start()
    assert members.wait(*found) == [0, 0], [members.said(one) for one in found]
    assert content(folder) == alone


@pytest.mark.usefixtures("rarely")
@pytest.mark.slow
def test_a_broker_that_stays_away(members, stream, alone, content, tmp_path):
    broker = stream.broker
    folder = tmp_path / "job"
    line = stream.command(folder, "--skip-bad", "--retry-seconds", 0.5)
    first = members.start(line)
    reach(folder, 3)
    broker.stop()
    try:
        assert members.wait(first) == [1]
    finally:
        broker.start()
    assert "what was committed is safe, and the same command continues" in members.said(first)
    assert "Traceback" not in members.said(first)
    assert members.wait(members.start([*line[:-1], 30])) == [0]
    assert content(folder) == alone


class TestRefusals:
    """What members are refused for: exit code 1, or 2 for wrong use, and one sentence."""

    def refused(self, members, line, words, code=1):
        found = members.start(line)
        assert members.wait(found) == [code], members.said(found)
        said = " ".join(members.said(found).replace("│", " ").split())
        assert words in said, said
        assert "Traceback" not in said

    def test_other_settings_another_folder_and_other_commands(
        self, broker, members, mixture, tmp_path
    ):
        stream = Stream(broker, payloads(mixture(600)))
        folder = tmp_path / "job"
        line = stream.command(folder)
        group = line[line.index("--group") + 1]
        assert members.wait(members.start(line)) == [0]
        other = ["--bits", 16, *line[2:][2:]]
        self.refused(members, [*line[:2], *other], "bits is 8 there and 16 here")
        other = stream.command(tmp_path / "elsewhere", group=group)
        self.refused(members, other, f"is not the folder in which group {group} works")
        other = stream.command(folder, group=next(NAMES))
        self.refused(members, other, f"group is {group} there and")
        plain = ["online", line[1], *SETTINGS, "--out", folder]
        self.refused(members, plain, "belongs to another job: group is")
        if stream.nats:
            self.refused(members, [*line, "--partitions", 5], "partitions is 4 there and 5 here")
        else:
            self.refused(members, [*line, "--partitions", 5], "leave --partitions out")

    def test_another_version(self, broker, members, mixture, tmp_path, monkeypatch):
        stream = Stream(broker, payloads(mixture(600)))
        line = stream.command(tmp_path / "job")
        assert members.wait(members.start(line)) == [0]
        monkeypatch.setattr(sb, "__version__", "9.9")
        monkeypatch.setattr("sys.argv", ["streambits", *map(str, line)])
        with pytest.raises(InputError, match=r"version is .* there and 9\.9 here"):
            app(standalone_mode=False)

    def test_names_streams_and_options(self, broker, members, mixture, tmp_path):
        stream = Stream(broker, payloads(mixture(20)))
        line = stream.command(tmp_path / "job")
        self.refused(members, [*line, "--group", "a.b"], "must be 1 to 64 letters, digits, - or _")
        nowhere = [line[0], f"{broker.url}/nowhere", *line[2:]]
        self.refused(members, nowhere, "check its name")
        for option, value in (
            ("--to", "x.jsonl"),
            ("--from", "x"),
            ("--device", "cuda"),
            ("--half-life", 9),
        ):
            self.refused(members, [*line, option, value], f"{option} does not go with", 2)
        np.save(tmp_path / "rows.npy", mixture(20))
        files = ["online", tmp_path / "rows.npy", "--group", "g", "--out", tmp_path / "f"]
        self.refused(members, files, "--group is for a stream of NATS or a topic of Kafka")
        self.refused(members, [*files[:2], "--partitions", 3, *files[4:]], "is for a --group", 2)

    def test_bad_rows(self, broker, members, mixture, tmp_path):
        rows = mixture(900)
        rows[700] = np.nan
        stream = Stream(broker, payloads(rows))
        folder = tmp_path / "job"
        line = stream.command(folder)
        for _ in range(2):
            self.refused(members, line, "--skip-bad puts such rows aside")
        assert members.wait(members.start([*line, "--skip-bad"])) == [0]
        assert len(ids_in(folder)) == 899

    def test_a_stream_without_rows(self, broker, members, tmp_path):
        stream = Stream(broker, [])
        self.refused(members, stream.command(tmp_path / "job"), "there are no rows")

    def test_partitions_that_have_changed(self):
        with pytest.raises(InputError, match="has 3 partitions, and had 2 when the group began"):
            check_partitions(
                {"0": 5, "1": 3}, {"0": (0, 5), "1": (0, 5), "2": (0, 0)}, "kafka://h/t"
            )

    def test_a_stream_that_was_made_anew(self, nats_server, members, mixture, tmp_path):
        stream = Stream(nats_server, payloads(mixture(600)))
        line = stream.command(tmp_path / "job")
        assert members.wait(members.start(line)) == [0]
        nats_server.ask(lambda jetstream, _: jetstream.delete_stream(stream.name))
        nats_server.ask(
            lambda jetstream, _: jetstream.add_stream(
                name=stream.name, subjects=[f"{stream.name}.*"]
            )
        )
        self.refused(members, line, "source created is")
