"""What holds for every broker, against servers on loopback: waiting, following, and what is gone.

Their own ways, partitions and keys or subjects and logins: `test_kafka.py`, `test_nats.py`.
"""

import json
import threading
import time

import numpy as np
import pytest

from streambits.errors import InputError, UnreachableError
from streambits.io.protocols import Source
from streambits.io.rows import open_source


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A client that asks a cluster waits a second for the answer."""
    kafka = pytest.importorskip("streambits.io.rows.kafka", exc_type=ImportError)
    pytest.importorskip("streambits.io.rows.nats", exc_type=ImportError)
    monkeypatch.setattr(kafka, "ANSWER", 1)


def payloads(count, start=0):
    return [json.dumps([i / 4, i]).encode() for i in range(start, count)]


@pytest.mark.slow
def test_following_goes_on_until_it_is_idle(broker, gather):
    name = broker.new(payloads(3))
    late = threading.Timer(0.3, lambda: broker.publish(name, payloads(7, 3)))
    late.start()
    source = open_source(f"{broker.url}/{name}", idle=1)
    assert isinstance(source, Source)
    ids, rows, _ = gather(source.read())
    late.join()
    assert ids == list(range(broker.first, broker.first + 7))
    assert rows[:, 1].tolist() == list(range(7))
    chunks = open_source(f"{broker.url}/{name}", follow=True).read()
    assert len(next(chunks).ids) == 7
    chunks.close()


@pytest.mark.slow
def test_messages_removed_before_they_were_read_are_a_reject(broker, gather):
    name, first = broker.new(payloads(30)), broker.first
    source = open_source(f"{broker.url}/{name}", rows=10)
    begun = next(source.read())
    broker.cut(name, first + 25)
    ids, _, rejects = gather(source.read(begun.offset))
    assert ids == list(range(first + 25, first + 30))
    [reject] = rejects
    assert reject.where.startswith(f"{name}, ")
    assert reject.where.endswith(f"s {first + len(begun.ids)} to {first + 24}")
    assert gather(source.read())[2] == []  # who begins now has missed nothing


@pytest.mark.slow
def test_a_server_that_comes_back_is_read_on_from(broker, gather):
    name = broker.new(payloads(20_000))
    chunks = open_source(f"{broker.url}/{name}", rows=500).read()
    found = [next(chunks), next(chunks)]
    broker.stop()
    back = threading.Timer(1, broker.start)
    back.start()
    found += list(chunks)
    back.join()
    assert np.array_equal(gather(found)[0], np.arange(20_000) + broker.first)


@pytest.mark.slow
def test_a_server_that_stays_away_is_told_in_a_sentence(broker, gather, caplog):
    name = broker.new(payloads(20_000))
    source = open_source(f"{broker.url}/{name}", rows=500, retry_seconds=1)
    chunks = source.read()
    first = next(chunks)
    broker.stop()
    try:
        said = r"for [12] s .*committed is safe, and the same command"
        with pytest.raises(UnreachableError, match=said):
            list(chunks)
        assert "cannot be reached" in caplog.text
        start = time.monotonic()
        for work in (lambda: list(source.read(first.offset)), source.identity):
            with pytest.raises(UnreachableError, match=f"{broker.url}/{name} cannot"):
                work()
        assert time.monotonic() - start < 8  # nobody waits at the start
    finally:
        broker.start()
    ids = gather(source.read(first.offset))[0]
    assert np.array_equal([*first.ids, *ids], np.arange(20_000) + broker.first)


@pytest.mark.slow
def test_an_unknown_name_is_told(broker):
    with pytest.raises(InputError, match=r"no (stream|topic) for .*/nothing: check its name"):
        list(open_source(f"{broker.url}/nothing").read())


@pytest.mark.parametrize("url", ["nats://host/rows", "kafka://host/rows"])
@pytest.mark.parametrize("offset", ["no", [1, 2], {"no": "offset"}, {"next": "5", "end": 7}])
def test_offsets_of_something_else(url, offset):
    with pytest.raises(InputError, match=f"is not an offset of {url}"):
        next(open_source(url).read(offset))


@pytest.mark.parametrize(
    "url",
    [
        "nats://me:hunter2@host:port/rows",
        "nats://me:hunter2@host:99999/rows",
        "nats://me:hunter2/4@host/rows",
        "nats://a:hunter2@h1,b:hunter3@h2/rows",
        "kafka://me:hunter2/topic",
    ],
)
def test_a_url_that_cannot_be_read_is_told_without_a_password(url):
    """More of them: `tests/jobs/test_secrets.py`."""
    with pytest.raises(InputError, match="is not a URL such as") as caught:
        open_source(url)
    assert "hunter" not in str(caught.value)
