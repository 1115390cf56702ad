"""Against the mock cluster inside librdkafka: the real protocol on loopback."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed: pip install 'streambits[kafka]'"
)

from streambits.errors import InputError, StorageError, UnreachableError
from streambits.io.rows import kafka
from streambits.io.rows.kafka import KafkaSource


def payloads(count, start=0):
    return [json.dumps([i / 4, i]).encode() for i in range(start, count)]


def all_of(chunks):
    chunks = list(chunks)
    ids = [i for chunk in chunks for i in chunk.ids.tolist()]
    rows = [r for chunk in chunks for r in chunk.rows.tolist()]
    return ids, rows, [reject for chunk in chunks for reject in chunk.rejects]


def ids_of(partition, *offsets):
    return [(partition << 48) + offset for offset in offsets]


def test_partitions_are_read_in_rounds_and_again_from_any_offset(kafka_cluster):
    """The walk: bad messages, an end that goes with the offset, and what comes later."""
    bad = [b"nothing", None, b"[1]", b""]
    name = kafka_cluster.new(payloads(20), [*payloads(2), *bad], payloads(12))
    source = KafkaSource(f"{kafka_cluster.url}/{name}", rows=7)
    assert (source.lag, source.length) == (None, None)
    ids = [*range(20), *ids_of(1, 0, 1), *ids_of(2, *range(12))]
    chunks = source.read()
    first = next(chunks)
    assert source.lag == 38 - len(first.ids)
    kafka_cluster.publish(name, payloads(25, 20), 0)
    kafka_cluster.publish(name, payloads(3), 1)
    chunks = [first, *chunks]
    found, rows, rejects = all_of(chunks)
    assert found == ids
    assert rows[:20] == [json.loads(message) for message in payloads(20)]
    assert max(len(chunk.ids) for chunk in chunks) <= 7
    assert [r.where for r in rejects] == [kafka_cluster.where(name, i, 1) for i in range(2, 6)]
    assert [r.reason[:20] for r in rejects] == [
        "it is not JSON: inva",
        "it has no value, so ",
        "expected 2 values, g",
        "the message is empty",
    ]
    for count, chunk in enumerate(chunks[:-1], 1):
        offset = json.loads(json.dumps(chunk.offset))
        assert all_of([*chunks[:count], *source.read(offset)])[0] == ids  # the end goes with it
    more = [*range(20, 25), *ids_of(1, 6, 7, 8)]
    *_, last = source.read(chunks[-1].offset)
    assert all_of(source.read(chunks[-1].offset))[0] == more
    assert all_of(source.read(last.offset)) == ([], [], [])
    assert json.loads(json.dumps(source.identity())) == source.identity()


@pytest.mark.slow
def test_keys_are_ids_in_any_partition_and_format(kafka_cluster, table_of):
    one, two = [1, 2], [3, 4]
    raw = [np.array(row, "<f4").tobytes() for row in (one, two)]
    name = kafka_cluster.new([(b"a", raw[0]), (b"b", raw[1])], [(b"c", raw[0]), (b"a", None)])
    options = {"format": "f4", "columns": 2}
    source = KafkaSource(f"{kafka_cluster.url}/{name}", id_key="@key", **options)
    assert table_of(source.read()) == {"b": [two, None], "c": [one, None]}
    by_place = all_of(KafkaSource(f"{kafka_cluster.url}/{name}", **options).read())
    assert by_place[0] == [0, 1 << 16, 1 << 48]  # row 0 of each
    assert [reject.where for reject in by_place[2]] == [kafka_cluster.where(name, 1, 1)]


@pytest.mark.slow
def test_another_topic_of_the_same_name_is_noticed(kafka_cluster):
    name = kafka_cluster.new(payloads(5))
    source = KafkaSource(f"{kafka_cluster.url}/{name}")
    offset = {"next": {"0": 9}, "end": {"0": 9}, "columns": 2}
    with pytest.raises(StorageError, match="ends at 5 in partition 0, and was read up to 9"):
        list(source.read(offset))


def test_settings_of_the_client_come_from_the_environment(monkeypatch):
    url = "kafka://127.0.0.1:1/topic"
    monkeypatch.setenv("STREAMBITS_KAFKA_CLIENT_ID", "somebody")
    monkeypatch.setenv("STREAMBITS_KAFKA_SASL_USERNAME", "me")
    monkeypatch.setenv("STREAMBITS_KAFKA_SASL_PASSWORD", "hunter2")
    settings = {"client.id": "somebody", "sasl.username": "me", "sasl.password": "hunter2"}
    assert KafkaSource(url).config == settings
    monkeypatch.setenv("STREAMBITS_KAFKA_SECURITY_PROTOCOL", "hunter2")  # by mistake
    with pytest.raises(InputError, match=r"security\.protocol") as caught:
        next(KafkaSource(url).read())
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None  # the client's own words have the value
    monkeypatch.setenv("STREAMBITS_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("STREAMBITS_KAFKA_SASL_MECHANISM", "PLAIN")
    monkeypatch.setattr(kafka, "ANSWER", 0.1)
    with pytest.raises(UnreachableError) as caught:
        KafkaSource(url).identity()
    assert "hunter2" not in str(caught.value)
    monkeypatch.setenv("STREAMBITS_KAFKA_PROPERTIES", "file")  # of older versions
    with pytest.raises(InputError, match=r'cannot be read: .*"properties"'):
        KafkaSource(url).identity()


class Fake:
    """What librdkafka may do: a client, with a log of each partition, that hands out odd things.

    logs: for each partition, its offsets; ends: where a partition ends, if not after its last;
    before: what `consume` gives first, once for each list: (partition, offset, error code).
    """

    def __init__(self, logs, ends=None, before=()):
        self.logs, self.before = logs, list(before)
        self.ends = {p: log[-1] + 1 for p, log in logs.items() if log} | (ends or {})
        self.lows = {p: log[0] if log else 0 for p, log in logs.items()}
        self.settings, self.asked, self.place = None, 0, (0, 0)

    def __call__(self, settings):
        self.settings = settings
        return self

    def list_topics(self, topic, **_):
        found = SimpleNamespace(partitions=dict.fromkeys(self.logs))
        return SimpleNamespace(topics={topic: found}, cluster_id="fake")

    def get_watermark_offsets(self, which, **_):
        return self.lows[which.partition], self.ends[which.partition]

    def assign(self, which):
        self.place = which[0].partition, which[0].offset

    def consume(self, count, **_):
        self.asked += 1
        assert self.asked < 100, "it asks again and again"
        if self.before:
            return [self.message(*one) for one in self.before.pop(0)]
        partition, place = self.place
        found = [i for i in self.logs[partition] if i >= place][:count]
        self.place = partition, found[-1] + 1 if found else place
        return [self.message(partition, offset) for offset in found]

    def message(self, partition, offset, code=None):
        error = code and SimpleNamespace(code=lambda: code, str=lambda: "trouble")
        parts = {"partition": partition, "offset": offset, "error": error, "key": None}
        parts["value"] = b"[1, 2]"
        return SimpleNamespace(**{name: lambda part=part: part for name, part in parts.items()})

    def close(self):
        pass


@pytest.fixture
def fake(monkeypatch):
    """fake(...): a source whose client is a Fake."""

    def of(*logs, **odd):
        client = Fake(dict(enumerate(map(list, logs))), **odd)
        monkeypatch.setattr(kafka, "Consumer", client)
        return KafkaSource("kafka://host/topic", retry_seconds=0), client

    return of


def test_the_client_keeps_no_place_and_chooses_none(fake):
    source, client = fake(range(2), range(2), range(2))
    client.logs = {p: client.logs[p] for p in (2, 0, 1)}  # however they are listed
    assert all_of(source.read())[0] == ids_of(0, 0, 1) + ids_of(1, 0, 1) + ids_of(2, 0, 1)
    assert client.settings["enable.auto.commit"] is False
    assert client.settings["enable.auto.offset.store"] is False
    assert client.settings["auto.offset.reset"] == "error"


def test_a_partition_that_gives_nothing_ends_the_retry(fake):
    source, client = fake([], ends={0: 5})
    with pytest.raises(UnreachableError, match="no message comes"):
        list(source.read())
    assert client.asked == 1


def test_what_was_removed_beyond_the_end_of_a_round_belongs_to_the_next(fake):
    source, _ = fake(range(30, 33))
    [chunk] = source.read({"next": {"0": 10}, "end": {"0": 20}, "columns": 2})
    assert chunk.offset["next"] == {"0": 20}
    assert [reject.where for reject in chunk.rejects] == ["topic, partition 0, offsets 10 to 19"]
    ids, _, rejects = all_of(source.read(chunk.offset))
    assert ids == [30, 31, 32]
    assert [reject.where for reject in rejects] == ["topic, partition 0, offsets 20 to 29"]


def test_messages_that_are_not_meant_are_left_out(fake):
    """Of the partition before, older ones and later ones, which the client had in its queue."""
    at = {"next": {"0": 3, "1": 4}, "end": {"0": 6, "1": 8}, "columns": 2}
    odd = [(1, 3), (0, 2), (0, 3), (0, 0), (0, 4), (1, 9), (0, 3), (0, 5), (0, 6), (0, 7)]
    source, _ = fake(range(9), range(10), before=[odd])
    chunks = list(source.read(at))
    assert all_of(chunks)[0] == ids_of(0, 3, 4, 5) + ids_of(1, 4, 5, 6, 7)
    assert chunks[-1].offset["next"] == {"0": 6, "1": 8}
    assert all_of(source.read(chunks[-1].offset))[0] == ids_of(0, 6, 7, 8) + ids_of(1, 8, 9)


def test_an_end_that_has_moved_on_does_not_skip_what_came_since(fake):
    """Where the last offsets of a round hold no messages, the client tells of the end it sees."""
    log, end = [*range(15), *range(20, 25)], kafka.KafkaError._PARTITION_EOF
    seen = [(0, offset) for offset in range(15)]
    source, _ = fake(log, before=[[*seen, (0, 25, end)]])
    *_, last = source.read({"next": {"0": 0}, "end": {"0": 20}, "columns": 2})
    assert last.offset["next"] in ({"0": 15}, {"0": 20})
    assert all_of(source.read({**last.offset, "next": {"0": 20}}))[0] == list(range(20, 25))
