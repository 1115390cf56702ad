"""Kafka: a topic as a source of rows."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar, Unpack

from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.io.rows.kafka_settings import (
    PREFIX,
    PROPERTIES,
    Properties,
    client_settings,
    secrets_of,
)
from streambits.io.rows.message_parser import Fetched, Message
from streambits.io.rows.messages import BrokerOptions, BrokerSource
from streambits.io.urls import Url, secrets_in, shown, without
from streambits.model.batches import Reject, RowBatch

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic
except ImportError:
    raise MissingExtraError("confluent-kafka", "kafka") from None

__all__ = [  # the client's names too: no other file imports it
    "ANSWER",
    "SETTINGS",
    "AdminClient",
    "Consumer",
    "KafkaError",
    "KafkaException",
    "KafkaSource",
    "NewTopic",
    "Producer",
    "TopicPartition",
    "client_refusal",
    "error_text",
]
T = TypeVar("T")
ANSWER = 5.0  # seconds for the answer to a question
WAIT = 1.0  # seconds for messages to come
SHIFT = 48  # bits of an id that are the offset; those above are the partition
EXAMPLE = "kafka://host:9092,host:9092/topic"
SETTINGS = {
    "group.id": "streambits",  # the client wants one; nothing is committed to it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "queued.max.messages.kbytes": 16384,  # the memory for what is read ahead
    "fetch.wait.max.ms": 100,  # else every change of partition takes half a second
    "reconnect.backoff.max.ms": 2000,
    "log_level": 0,
}


class KafkaSource(BrokerSource):
    """The messages of a topic, one row each.

    Parameters
    ----------
    servers
        host:port, several separated by commas.
    topic
        Its name.
    config
        More settings of the client, such as security.protocol; the names are librdkafka's.
    **options
        See `BrokerSource`.

    Notes
    -----
    A topic is read in rounds: the end of every partition is asked for, and then one partition
    after the other is read up to there, so the order of rows does not depend on chance. The offset
    of a batch says where every partition is and where the round ends; resuming from it finishes
    that round first. By default there is one round; with `follow` they do not end, and with `idle`
    they end after so many seconds without a message.

    Nothing is committed to a consumer group, so any number of jobs can read one topic. A row
    without an id of its own has the id partition * 2**48 + offset: with one partition, the offset.
    Brokers that go away are waited for. Messages that were removed before they were read are a
    reject. A message without a value removes the row whose id is its key.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[BrokerOptions],
    ) -> None:
        self.servers, self.topic = servers, topic
        path = options.get("properties")
        self.file = Properties({}, {}) if path is None else Properties.load(path)
        self.config = {**self.file.settings, **(config or {})}
        url = f"kafka://{servers}"
        secrets = (*secrets_in(url), *secrets_of(self.file.settings), *secrets_of(self.config))
        super().__init__(f"{shown(url)}/{topic}", secrets, **options)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[BrokerOptions],
    ) -> Self:
        """From kafka://host:port,host:port/topic.

        Settings of librdkafka, such as who logs in, are read from the environment, unless `config`
        has them: STREAMBITS_KAFKA_SASL_PASSWORD is sasl.password, and so on. What neither has is
        read from the file `properties`, or else from the one that STREAMBITS_KAFKA_PROPERTIES
        names.
        """
        parts = Url.parse(url, EXAMPLE)
        if parts.user is not None or parts.password is not None or parts.query:
            raise InputError(
                f"{shown(url)} must have hosts and a topic only: who logs in and other settings "
                f"come from the environment, such as {PREFIX}SASL_USERNAME, {PREFIX}SASL_PASSWORD, "
                f"{PREFIX}SASL_MECHANISM and {PREFIX}SECURITY_PROTOCOL, or from the file that "
                f"{PROPERTIES} names"
            )
        if options.get("properties") is None:
            options["properties"] = os.environ.get(PROPERTIES) or None
        config = client_settings(os.environ) | dict(config or {})
        return cls(parts.hosts, parts.path.strip("/"), config=config, **options)

    def identity(self) -> Any:
        """The topic, the cluster's own name, which asks the cluster, and what rows are made of."""
        consumer = _TopicConsumer(self, {})
        try:
            found = {"kafka": self.topic, "cluster": consumer.metadata().cluster_id}
            return found | self.parser.identity()
        finally:
            consumer.close()

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Batches from the oldest messages of the topic, or from an offset."""
        at = self.checked_offset(offset, dict) or {"next": {}, "end": {}}
        parser = self.parser.resumed(at)
        consumer = _TopicConsumer(self, _numbered(at["next"]), _numbered(at["end"]))
        try:
            consumer.metadata()
            for messages, lost in self._rounds(consumer):
                self.lag = consumer.lag
                place = {"next": _named(consumer.places), "end": _named(consumer.ends)}
                yield parser.batch(messages, place, lost)
        finally:
            consumer.close()

    def ask(self, question: Callable[[], T]) -> T:
        """Ask until there is an answer, or for as long as a cluster may be away."""
        retry = self.retry()
        while True:
            try:
                answer = question()
            except KafkaException as error:
                retry.wait(error_text(error))
            else:
                retry.answered()
                return answer

    def _rounds(self, consumer: "_TopicConsumer") -> Iterator[Fetched]:
        """Rounds, beginning with the rest of the one that an offset has left unfinished."""
        last = time.monotonic()
        resumed = consumer.behind
        while True:
            empty = True
            if not consumer.behind:
                consumer.ends = consumer.newest()
            for partition in sorted(consumer.ends):
                for fetched in consumer.fetch(partition, consumer.ends[partition]):
                    yield fetched
                    last, empty = time.monotonic(), False
            if not (resumed and empty):  # a resumed round with nothing left does not count
                quiet = time.monotonic() - last
                if not self.follow or (self.idle is not None and quiet >= self.idle):
                    return
                time.sleep(WAIT if quiet > WAIT else WAIT / 10)
            resumed = False


class _TopicConsumer:
    """A consumer of the topic, and how far it is.

    places: the next offset of every partition; ends: where the round ends in each; high: where
    they ended when last asked.
    """

    def __init__(
        self, source: KafkaSource, places: dict[int, int], ends: dict[int, int] | None = None
    ) -> None:
        self.source, self.places, self.ends = source, places, ends or {}
        self.high: dict[int, int] = {}
        self.reason: Any = "no message comes"
        settings = {**SETTINGS, "bootstrap.servers": source.servers, "error_cb": self._note}
        try:
            self._consumer = Consumer(settings | source.config)
        except KafkaException as error:
            raise InputError(
                f"{source.name} cannot be read: {client_refusal(error, source)}"
            ) from None

    @property
    def lag(self) -> int:
        """Messages not yet read."""
        return sum(max(0, end - self.places.get(p, 0)) for p, end in self.high.items())

    @property
    def behind(self) -> bool:
        """Whether the round is not finished."""
        return any(self.places.get(p, 0) < end for p, end in self.ends.items())

    def close(self) -> None:
        self._consumer.close()

    def metadata(self, *, wait: bool = False) -> Any:
        """What the cluster says of the topic; wait: for a cluster that is away."""
        try:
            found = self.source.ask(self._topics) if wait else self._topics()
        except KafkaException as error:
            raise self.source.retry().unreachable(error_text(error)) from error
        topic = found.topics.get(self.source.topic)
        if topic is None or not topic.partitions:
            raise InputError(f"there is no topic for {self.source.name}: check its name")
        return found

    def newest(self) -> dict[int, int]:
        """Where every partition ends now."""
        topic = self.source.ask(self._topics).topics[self.source.topic]
        found = {}
        for partition in topic.partitions:
            low, found[partition] = self._limits(partition)
            self.places.setdefault(partition, low)
        return found

    def fetch(self, partition: int, end: int) -> Iterator[Fetched]:
        """The messages of a partition from its place up to an end."""
        retry = self.source.retry()
        while self.places.get(partition, 0) < end:
            removed = self._assign(partition, end)
            if removed:
                yield [], removed
            healthy = True
            while healthy and self.places[partition] < end:
                start = self.places[partition]
                count = min(self.source.rows, end - start)
                found = self._consumer.consume(count, timeout=WAIT)
                messages, healthy = self._sort_out(found, partition, end)
                if messages:
                    yield messages, ()
                if self.places[partition] > start:
                    retry.answered()
                else:
                    retry.wait(self.reason)

    def _assign(self, partition: int, end: int) -> tuple[Reject, ...]:
        """Go to the place in a partition; returns what is no longer there."""
        low, _ = self._limits(partition)
        start = self.places.setdefault(partition, low)
        place = self.places[partition] = min(max(start, low), end)
        self._consumer.assign([TopicPartition(self.source.topic, partition, place)])
        if start == place:
            return ()
        where = f"{self.source.topic}, partition {partition}, offsets {start} to {place - 1}"
        return (Reject(where, "removed from the topic before they were read"),)

    def _sort_out(self, found: list[Any], partition: int, end: int) -> tuple[list[Message], bool]:
        """The messages that were asked for, and whether there was no error among them."""
        messages, healthy = [], True
        for one in found:
            error, offset, place = one.error(), one.offset(), self.places[partition]
            if one.partition() != partition:
                continue
            if error is None and place <= offset < end:
                where = f"{self.source.topic}, partition {partition}, offset {offset}"
                name = (partition << SHIFT) + offset
                messages.append(Message(name, where, one.value(), one.key()))
                self.places[partition] = offset + 1
            elif error is None or error.code() == KafkaError._PARTITION_EOF:
                self.places[partition] = max(place, min(offset, end))
            else:
                self.reason, healthy = error.str(), False
        return messages, healthy

    def _limits(self, partition: int) -> tuple[int, int]:
        """The oldest offset of a partition and the next that it will give."""
        which = TopicPartition(self.source.topic, partition)
        low, high = self.source.ask(
            lambda: self._consumer.get_watermark_offsets(which, timeout=ANSWER)
        )
        self.high[partition] = high
        place = self.places.get(partition, 0)
        if place > high:
            raise StorageError(
                f"{self.source.name} ends at {high} in partition {partition}, and was read up to "
                f"{place}: it is not the topic it was; begin a new job"
            )
        return low, high

    def _topics(self) -> Any:
        return self._consumer.list_topics(self.source.topic, timeout=ANSWER)

    def _note(self, error: KafkaError) -> None:
        self.reason = error.str()


def error_text(error: KafkaException) -> str:
    """What the client says."""
    reason = error.args[0] if error.args else error
    return str(reason.str()) if isinstance(reason, KafkaError) else str(reason)


def client_refusal(error: KafkaException, source: KafkaSource) -> str:
    """Why the client does not take its settings; where the one in question is, not its value."""
    text = error_text(error)
    for name, place in source.file.places.items():
        if f'"{name}"' in text and source.config[name] == source.file.settings[name]:
            rest = without(text.replace(f'"{name}"', "it"), (source.config[name], *source.secrets))
            return f"{place}: {name} is refused: {rest}"
    also = f" (more settings are in {source.properties})" if source.file.places else ""
    return without(text, source.secrets) + also


def _numbered(places: dict[str, int]) -> dict[int, int]:
    return {int(partition): place for partition, place in places.items()}


def _named(places: dict[int, int]) -> dict[str, int]:
    return {str(partition): place for partition, place in sorted(places.items())}
