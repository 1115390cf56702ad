"""Brokers: rows that come later, servers that go away, jobs that follow."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from streambits.errors import InputError
from streambits.io.codes.parquet import read_codes
from streambits.io.rows import open_source

SETTINGS = ["--bits", 8, "--set", "n_landmarks=40", "--set", "refresh=700", "--set", "epochs=never"]


def payloads(rows):
    return [json.dumps(row).encode() for row in np.asarray(rows, float).tolist()]


def ids_in(folder):
    return sorted(i for ids, _ in read_codes(folder / "codes") for i in ids.tolist())


def test_new_messages_are_picked_up_by_the_same_command(jobs, mixture, broker, tmp_path):
    rows = mixture(900)
    name = broker.new(payloads(rows[:600]))
    command = ["online", f"{broker.url}/{name}", *SETTINGS, "--out", tmp_path / "job"]
    jobs.whole(command)
    assert ids_in(tmp_path / "job") == list(range(broker.first, broker.first + 600))
    jobs.whole(command)
    assert "finished before: there is nothing new" in jobs.said
    jobs.whole(["inspect", tmp_path / "job"])
    assert "caught up" in jobs.said
    assert "a broker's stream goes on" in jobs.said
    broker.publish(name, payloads(rows[600:]))
    jobs.whole([*command, "--json"])
    assert '"rows": 900' in jobs.said
    assert '"new_rows": 300' in jobs.said
    assert "900 rows, 300 new, epoch 0" in jobs.said
    assert ids_in(tmp_path / "job") == list(range(broker.first, broker.first + 900))


def test_messages_of_many_rows_are_read_by_every_job(jobs, mixture, nats_server, tmp_path):
    rows = mixture(600).astype("<f4")
    name = nats_server.new([part.tobytes() for part in np.split(rows, 6)])
    read = [f"{nats_server.url}/{name}", "--format", "f4", "--columns", rows.shape[1]]
    for verb in ("learn", "online"):
        jobs.whole([verb, *read, *SETTINGS[:4], "--out", tmp_path / verb])
    jobs.whole(["encode", tmp_path / "learn", *read, "--out", tmp_path / "encode"])
    assert len(ids_in(tmp_path / "online")) == len(ids_in(tmp_path / "encode")) == 600


@pytest.fixture
def live(jobs, mixture, broker, *, tmp_path, content, committed):
    """A topic of 500 rows, with 400 to come, and a command that follows it until it is stopped.

    begun(): the first are committed; come(): the others come, and are; same(): the job leaves
    what one leaves that was not interrupted.
    """
    rows, folder = mixture(900), tmp_path / "job"
    name = broker.new(payloads(rows[:500]))
    command = ["online", f"{broker.url}/{name}", *SETTINGS]

    def come():
        broker.publish(name, payloads(rows[500:]))
        committed(folder, 900)

    def same():
        jobs.whole([*command, "--out", tmp_path / "alone"])
        assert ids_in(folder) == list(range(broker.first, broker.first + 900))
        return content(folder) == content(tmp_path / "alone")

    more = ["--set", "follow=true", "--set", "commit_seconds=0.2", "--out", folder]
    return SimpleNamespace(
        command=[*command, *more], begun=lambda: committed(folder, 500), come=come, same=same
    )


@pytest.mark.slow
def test_a_broker_that_goes_away_in_the_middle_and_comes_back(jobs, live, broker):
    def away():
        live.begun()
        broker.stop()
        jobs.says("cannot be reached")
        broker.start()
        live.come()

    assert jobs.during([*live.command, "--set", "retry_seconds=30"], away, stop=True) == 0, (
        jobs.said
    )
    assert "is there again" in jobs.said
    assert "stopped, and all of that is committed" in jobs.said
    assert "Traceback" not in jobs.said
    assert live.same()


@pytest.mark.slow
def test_a_broker_that_stays_away_is_told_and_the_same_command_goes_on(jobs, live, broker):
    def away():
        live.begun()
        broker.stop()

    assert jobs.during([*live.command, "--set", "retry_seconds=1"], away) == 1
    broker.start()
    assert "committed is safe, and the same command continues" in jobs.said
    assert "Traceback" not in jobs.said
    assert jobs.during(live.command, live.come, stop=True) == 0, jobs.said
    assert live.same()


def test_a_bad_message_is_told_by_its_place(jobs, mixture, broker, tmp_path):
    name = broker.new([*payloads(mixture(450)), b"[1, 2]"])
    where = broker.where(name, broker.first + 450)
    command = ["online", f"{broker.url}/{name}", *SETTINGS, "--out", tmp_path / "job"]
    assert jobs.run(command) == 1
    assert f"{where}: expected 8 values, got 2; --skip-bad puts" in jobs.said
    jobs.whole([*command, "--skip-bad"])
    assert ids_in(tmp_path / "job") == list(range(broker.first, broker.first + 450))
    [line] = (tmp_path / "job" / "rejects.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "where": where,
        "reason": "expected 8 values, got 2",
        "text": "[1, 2]",
    }


@pytest.mark.parametrize(
    ("paths", "options", "complaint"),
    [
        (["a.npy"], {"follow": True}, "follow is for brokers"),
        (["a.npy"], {"idle": 0.0}, "idle is for brokers"),
        (["pulsar://x/y"], {}, "is not a source: no package knows pulsar://"),
        (["nats://x/y", "a.npy"], {}, "is not a source"),
        (["nats://x/y"], {"columns": ["a", "b"]}, "in JSON it is the number of values per row"),
    ],
)
def test_what_is_not_a_source(paths, options, complaint):
    pytest.importorskip("nats")
    with pytest.raises(InputError, match=complaint):
        open_source(paths, **options)
