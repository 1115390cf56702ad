"""Brokers: rows that come later, servers that go away, jobs that follow."""

import json
import signal
import threading
import time

import numpy as np
import pytest

from streambits.errors import InputError
from streambits.jobs.open import Reading, open_any
from streambits.streams.code_files import read_codes

SETTINGS = ["--bits", 8, "--landmarks", 40, "--refresh", 700, "--epochs", "never"]


def payloads(rows):
    return [json.dumps(row).encode() for row in np.asarray(rows, float).tolist()]


def ids_in(folder):
    return sorted(i for ids, _ in read_codes(folder / "codes") for i in ids.tolist())


def test_new_messages_are_picked_up_by_the_same_command(jobs, mixture, nats_server, tmp_path):
    rows = mixture(900)
    nats_server.publish("later", payloads(rows[:600]))
    command = ["online", f"{nats_server.url}/later", *SETTINGS, "--out", tmp_path / "job"]
    jobs.whole(command)
    assert ids_in(tmp_path / "job") == list(range(1, 601))
    jobs.whole(command)
    assert "finished before: there is nothing new" in jobs.said
    nats_server.publish("later", payloads(rows[600:]))
    jobs.whole([*command, "--json"])
    assert '"rows": 900, "new_rows": 300' in jobs.said
    assert "900 rows, 300 new, epoch 0" in jobs.said
    assert ids_in(tmp_path / "job") == list(range(1, 901))


@pytest.mark.slow
def test_follow_until_a_signal(jobs, mixture, nats_server, tmp_path, content):
    rows = mixture(900)
    nats_server.publish("followed", payloads(rows[:500]))
    later = threading.Timer(1.5, nats_server.publish, ("followed", payloads(rows[500:])))
    later.start()
    command = ["online", f"{nats_server.url}/followed", *SETTINGS]
    more = ["--follow", "--commit-seconds", 0.2, "--out", tmp_path / "job"]
    code = jobs.run([*command, *more], seconds=5, signal=signal.SIGTERM)
    later.join()
    assert code == 0, jobs.said
    assert "stopped, and all of that is committed" in jobs.said
    assert ids_in(tmp_path / "job") == list(range(1, 901))
    jobs.whole([*command, "--out", tmp_path / "alone"])
    assert content(tmp_path / "job") == content(tmp_path / "alone")


@pytest.mark.slow
def test_a_server_that_goes_away_and_comes_back(jobs, mixture, nats_server, tmp_path):
    rows = mixture(500)
    nats_server.publish("gone", payloads(rows))
    command = ["online", f"{nats_server.url}/gone", *SETTINGS, "--out", tmp_path / "job"]
    live = [*command, "--idle", 4, "--commit-seconds", 0.2]

    def away():
        time.sleep(1)
        nats_server.stop()
        time.sleep(1)
        nats_server.start()

    gone = threading.Thread(target=away)
    gone.start()
    code = jobs.run([*live, "--patience", 30])
    gone.join()
    assert code == 0, jobs.said
    assert "cannot be reached" in jobs.said
    assert "is there again" in jobs.said

    stopping = threading.Timer(1, nats_server.stop)
    stopping.start()
    assert jobs.run([*live, "--patience", 1]) == 1
    stopping.join()
    assert "committed is safe, and the same command continues" in jobs.said
    nats_server.start()
    jobs.whole(command)
    assert ids_in(tmp_path / "job") == list(range(1, 501))


def test_a_bad_message_is_told_by_its_place(jobs, mixture, nats_server, tmp_path):
    nats_server.publish("bad", [*payloads(mixture(450)), b"[1, 2]"])
    command = ["online", f"{nats_server.url}/bad", *SETTINGS, "--out", tmp_path / "job"]
    assert jobs.run(command) == 1
    assert "bad/bad 451: 2 numbers, where 8 belong; --skip-bad puts" in jobs.said
    jobs.whole([*command, "--skip-bad"])
    assert ids_in(tmp_path / "job") == list(range(1, 451))


@pytest.mark.parametrize(
    ("paths", "how", "complaint"),
    [
        (["a.npy"], Reading(follow=True), "--follow is for brokers"),
        (["http://x/y"], Reading(), "is no source: name files, or one of nats://"),
        (["nats://x/y", "a.npy"], Reading(), "is no source"),
        (["nats://x/y"], Reading(columns="a,b"), "for a broker it is a number"),
    ],
)
def test_what_is_no_source(paths, how, complaint):
    pytest.importorskip("nats")
    with pytest.raises(InputError, match=complaint):
        open_any(paths, how)


def test_kafka_is_known():
    pytest.importorskip("confluent_kafka")
    how = Reading(columns="8", ids="key", format="f4", idle=1.0, patience=5.0)
    source = open_any(["kafka://127.0.0.1:1/topic"], how)
    assert (source.name, source.idle) == ("kafka://127.0.0.1:1/topic", 1.0)
