"""Against a NATS server that these tests start on loopback, and stop."""

import asyncio
import io
import json
from types import SimpleNamespace
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("nats", reason="there is no nats-py: pip install 'streambits[nats]'")

from servers.nats import Nats
from streambits.errors import InputError, StorageError, StreambitsError
from streambits.io.rows import nats as module
from streambits.io.rows.nats import NatsSource

ODD = "h#unte[r2"  # a password


def payloads(count, columns=3, start=0):
    return [json.dumps([i / 4 + j for j in range(columns)]).encode() for i in range(start, count)]


def all_of(chunks):
    """ids, rows and rejects of many chunks."""
    chunks = list(chunks)
    ids = [i for chunk in chunks for i in chunk.ids.tolist()]
    rows = [r for chunk in chunks for r in chunk.rows.tolist()]
    return ids, rows, [reject for chunk in chunks for reject in chunk.rejects]


def test_a_stream_is_read_in_order_and_again_from_any_offset(nats_server):
    """The walk: bad messages, an end that goes with the offset, and what comes later."""
    name = nats_server.new([*payloads(50), b"[1, 2]", *payloads(99, start=50)])
    source = NatsSource(f"{nats_server.url}/{name}?subject={name}.rows", rows=7)
    chunks = source.read()
    first = next(chunks)
    nats_server.publish(name, payloads(5))
    nats_server.publish(name, payloads(5), "others")
    chunks = [first, *chunks]
    ids, rows, rejects = all_of(chunks)
    assert ids == [*range(1, 51), *range(52, 101)]
    assert rows == [json.loads(payload) for payload in payloads(99)]
    assert [reject.where for reject in rejects] == [nats_server.where(name, 51)]
    assert (max(len(chunk.ids) for chunk in chunks), source.length) == (7, None)
    for chunk in chunks[:-1:4]:
        offset = json.loads(json.dumps(chunk.offset))
        rest = [i for i in range(offset["next"], 101) if i != 51]
        assert all_of(source.read(offset))[0] == rest  # the end goes with it
    *_, last = source.read(chunks[-1].offset)
    assert (last.ids.tolist(), source.lag) == ([*range(101, 106)], 0)
    assert all_of(source.read(last.offset)) == ([], [], [])
    assert source.name == f"nats://127.0.0.1:{nats_server.port}/{name}"


def test_messages_of_many_rows_are_whole_in_every_batch(nats_server):
    rows = np.arange(300, dtype="<f4").reshape(100, 3)
    parts = np.split(rows, [1, 30, 31, 90])
    name = nats_server.new([*(part.tobytes() for part in parts), b"12345"])
    source = NatsSource(f"{nats_server.url}/{name}", format="f4", columns=3, rows=2)
    chunks = list(source.read())
    ids, read, rejects = all_of(chunks)
    assert np.array_equal(read, rows)
    assert ids == [((n + 1) << 16) + i for n, part in enumerate(parts) for i in range(len(part))]
    assert [reject.where for reject in rejects] == [nats_server.where(name, 6)]
    assert [len(chunk.ids) for chunk in chunks] == [30, 60, 10]
    for count, chunk in enumerate(chunks[:-1], 1):
        assert all_of([*chunks[:count], *source.read(chunk.offset)])[0] == ids
    sink = io.BytesIO()
    table = pa.table({"id": ["a", "b"], "v": [[1.0], [2.0]]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    name = nats_server.new([sink.getvalue(), b"nothing"])
    ids, read, rejects = all_of(NatsSource(f"{nats_server.url}/{name}", format="arrow").read())
    assert (ids, read) == (["a", "b"], [[1], [2]])
    assert [reject.where for reject in rejects] == [nats_server.where(name, 2)]


def test_keys_are_for_kafka():
    with pytest.raises(InputError, match="is for Kafka: nats://host/rows has messages of NATS"):
        NatsSource("nats://host/rows", id_key="@key")


@pytest.mark.slow
def test_another_stream_of_the_same_name_is_noticed(nats_server):
    name = nats_server.new(payloads(10))
    source = NatsSource(f"{nats_server.url}/{name}")
    *_, last = source.read()
    before = source.identity()
    assert json.loads(json.dumps(before)) == source.identity()

    async def again(jetstream, _):
        await jetstream.delete_stream(name)
        await jetstream.add_stream(name=name, subjects=[f"{name}.*"])

    nats_server.ask(again)
    assert source.identity() != before
    with pytest.raises(StorageError, match="ends at 0, and was read up to 10: it is not the"):
        list(source.read(last.offset))


@pytest.mark.slow
def test_a_reader_that_the_server_has_forgotten_is_made_again(nats_server):
    name = nats_server.new(payloads(30))
    chunks = NatsSource(f"{nats_server.url}/{name}", rows=10).read()
    first = next(chunks)

    async def forget(jetstream, _):
        for consumer in await jetstream.consumers_info(name):
            await jetstream.delete_consumer(name, consumer.name)

    nats_server.ask(forget)
    assert all_of([first, *chunks])[0] == list(range(1, 31))


@pytest.fixture(scope="module")
def guarded(nats_program, tmp_path_factory):
    """A server that lets in nobody but `me`; and a stream in it."""
    server = Nats(nats_program, tmp_path_factory.mktemp("guarded"), "me", ODD)
    server.start()
    yield server, server.new(payloads(4))
    server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("login", [f"me:{ODD}@", f"me:{quote(ODD)}@", "me@", ""])
def test_who_logs_in_is_said_by_the_url_or_the_environment(login, guarded, monkeypatch):
    server, name = guarded
    host = f"127.0.0.1:{server.port}"
    if ":" not in login:
        monkeypatch.setenv("STREAMBITS_NATS_PASSWORD", ODD)
        monkeypatch.setenv("STREAMBITS_NATS_USER", "somebody" if login else "me")
    for hosts in (host, f"{host},{host}"):
        source = NatsSource(f"nats://{login}{hosts}/{name}")
        assert all_of(source.read())[0] == [1, 2, 3, 4]
        assert source.name == f"nats://{hosts}/{name}"


@pytest.mark.slow
def test_who_is_not_let_in_is_told_without_a_password(guarded, monkeypatch):
    server, name = guarded
    url = f"nats://me:hunter2@127.0.0.1:{server.port}/{name}"
    monkeypatch.setenv("STREAMBITS_NATS_TOKEN", "hunter2")
    for where in (url, url.replace("me:hunter2@", "")):
        with pytest.raises(StreambitsError, match="Authorization Violation") as caught:
            NatsSource(where).identity()
        assert "hunter2" not in str(caught.value)


@pytest.mark.slow
def test_it_works_inside_a_running_loop(nats_server):
    name = nats_server.new(payloads(4))

    async def inside():
        return all_of(NatsSource(f"{nats_server.url}/{name}").read())[0]

    assert asyncio.run(inside()) == [1, 2, 3, 4]


class Fake:
    """A connection whose client drops messages: once those of `lost`, and all above its limit."""

    def __init__(self, count, lost=()):
        self.numbers, self.lost, self.opened = range(1, count + 1), set(lost), 0
        self.queue, self.delivered, self.limit = [], 0, 0

    def jetstream(self):
        return self

    async def close(self):
        pass

    async def stream_info(self, _stream):
        return SimpleNamespace(state=SimpleNamespace(first_seq=1, last_seq=len(self.numbers)))

    async def pull_subscribe(self, _subject, *, config, pending_bytes_limit=64, **_):
        self.queue, self.delivered = list(self.numbers)[config.opt_start_seq - 1 :], 0
        self.opened, self.limit = self.opened + 1, pending_bytes_limit
        assert self.opened < 20, "it begins again and again"
        return self

    async def fetch(self, count, **_):
        messages, held = [], 0
        for _ in range(min(count, len(self.queue))):
            number, self.delivered = self.queue.pop(0), self.delivered + 1
            held += 16
            if number in self.lost or (self.limit and held > self.limit):
                self.lost.discard(number)
                continue
            messages.append(self.message(number))
        if not messages:
            raise TimeoutError
        return messages

    async def consumer_info(self):
        return SimpleNamespace(num_pending=len(self.queue))

    def message(self, number):
        sequence = SimpleNamespace(stream=number, consumer=self.delivered)
        about = SimpleNamespace(sequence=sequence, num_pending=len(self.queue))
        return SimpleNamespace(metadata=about, subject="rows", data=b"[1, 2]")


@pytest.mark.parametrize("lost", [{}, {1}, {5}, {4, 5, 17}])
def test_messages_that_are_dropped_on_their_way_are_read_again(lost, monkeypatch):
    """The client has no limit of its own above which it drops messages."""
    link = Fake(20, lost=lost)

    async def connect(_):
        return link

    monkeypatch.setattr(module._StreamReader, "_connect", connect)
    assert all_of(NatsSource("nats://host/rows").read())[0] == list(range(1, 21))
    assert link.opened > 1 if lost else link.opened == 1
    assert link.limit == 0
