"""Kafka: a topic as a source of rows."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.io.rows.message_parser import SHIFT, Fetched, Message
from streambits.io.rows.messages import BrokerSource
from streambits.io.urls import Url, redact, redact_url
from streambits.model.batches import Reject, RowBatch

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
except ImportError:
    raise MissingExtraError("confluent-kafka", "kafka") from None

T = TypeVar("T")
ANSWER = 5.0  # seconds for the answer to a question
WAIT = 1.0  # seconds for messages to come
PREFIX = "STREAMBITS_KAFKA_"  # of variables, such as STREAMBITS_KAFKA_SASL_PASSWORD
EXAMPLE = "kafka://host:9092,host:9092/topic"
SECRET = ("password", "secret", "jaas", "key.pem", "token", "oauthbearer.config", "user.info")
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
    """The messages of a topic.

    Parameters
    ----------
    url
        kafka://host:port,host:port/topic. Settings of librdkafka, such as who logs in, are read
        from the environment: STREAMBITS_KAFKA_SASL_PASSWORD is sasl.password, and so on.
    **options
        See `BrokerSource`.

    Notes
    -----
    A topic is read in rounds: the end of every partition is asked for, and then one partition
    after the other is read up to there, so the order of rows does not depend on chance. The offset
    of a batch says where every partition is and where the round ends; resuming from it finishes
    that round first. By default there is one round; with `follow` they do not end, and with `idle`
    they end after so many seconds without a message.

    The client is assigned partitions at our offsets, and nothing is committed to a consumer group,
    so any number of jobs can read one topic. Brokers that go away are waited for. Messages that
    were removed before they were read are a reject. A message without a value removes the row whose
    id is its key.
    """

    def __init__(self, url: str, **options: Any) -> None:
        parts = Url.parse(url, EXAMPLE)
        if parts.user is not None or parts.password is not None or parts.query:
            raise InputError(
                f"{redact_url(url)} must have hosts and a topic only: who logs in and other "
                f"settings come from the environment, such as {PREFIX}SASL_USERNAME, "
                f"{PREFIX}SASL_PASSWORD, {PREFIX}SASL_MECHANISM and {PREFIX}SECURITY_PROTOCOL"
            )
        self.servers, self.topic = parts.hosts, parts.path.strip("/")
        self.config = {
            name.removeprefix(PREFIX).lower().replace("_", "."): value
            for name, value in os.environ.items()
            if name.startswith(PREFIX) and value
        }
        secrets = [value for name, value in self.config.items() if any(s in name for s in SECRET)]
        super().__init__(f"kafka://{self.servers}/{self.topic}", tuple(secrets), **options)

    def identity(self) -> Any:
        """The topic, the cluster's own name, which asks the cluster, and what rows are made of."""
        with _TopicReader(self) as reader:
            identity = {"kafka": self.topic, "cluster": reader.metadata().cluster_id}
        return identity | self.parser.identity()

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Batches from the oldest messages of the topic, or from an offset."""
        at = self.checked_offset(offset, dict) or {"next": {}, "end": {}}
        parser = self.parser.resumed(at)
        with _TopicReader(self, _by_number(at["next"]), _by_number(at["end"])) as reader:
            reader.metadata()
            for messages, lost in self._rounds(reader):
                self.lag = reader.lag
                place = {"next": _by_text(reader.next), "end": _by_text(reader.ends)}
                yield parser.batch(messages, place, lost)

    def _rounds(self, reader: "_TopicReader") -> Iterator[Fetched]:
        """Rounds, beginning with the rest of the one that an offset has left unfinished."""
        last, resumed = time.monotonic(), reader.behind
        while True:
            empty = True
            if not reader.behind:
                reader.find_ends()
            for partition in sorted(reader.ends):
                for fetched in reader.fetch(partition):
                    yield fetched
                    last, empty = time.monotonic(), False
            if not (resumed and empty):  # a resumed round with nothing left does not count
                quiet = time.monotonic() - last
                if not self.follow or (self.idle is not None and quiet >= self.idle):
                    return
                time.sleep(WAIT if quiet > WAIT else WAIT / 10)
            resumed = False


class _TopicReader:
    """A consumer of the topic, and how far it is.

    next: the next offset of every partition; ends: where the round ends in each; high: where they
    ended when last asked.
    """

    def __init__(
        self,
        source: KafkaSource,
        start: dict[int, int] | None = None,
        ends: dict[int, int] | None = None,
    ) -> None:
        self.source, self.next, self.ends = source, start or {}, ends or {}
        self.high: dict[int, int] = {}
        self.reason: Any = "no message comes"
        settings = {**SETTINGS, "bootstrap.servers": source.servers, "error_cb": self._note}
        try:
            self._consumer = Consumer(settings | source.config)
        except KafkaException as error:
            reason = redact(_text_of(error), source.secrets)
            raise InputError(f"{source.name} cannot be read: {reason}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def lag(self) -> int:
        """Messages not yet read."""
        return sum(max(0, end - self.next.get(p, 0)) for p, end in self.high.items())

    @property
    def behind(self) -> bool:
        """Whether the round is not finished."""
        return any(self.next.get(p, 0) < end for p, end in self.ends.items())

    def metadata(self) -> Any:
        """What the cluster says of the topic; a cluster that is away is not waited for."""
        try:
            answer = self._topics()
        except KafkaException as error:
            raise self.source.retry().unreachable(_text_of(error)) from error
        topic = answer.topics.get(self.source.topic)
        if topic is None or not topic.partitions:
            raise InputError(f"there is no topic for {self.source.name}: check its name")
        return answer

    def find_ends(self) -> None:
        """Begin a round: ask where every partition ends now."""
        topic = self._ask(self._topics).topics[self.source.topic]
        limits = {partition: self._limits(partition) for partition in topic.partitions}
        self.ends = {partition: high for partition, (_, high) in limits.items()}
        self.next = {partition: low for partition, (low, _) in limits.items()} | self.next

    def fetch(self, partition: int) -> Iterator[Fetched]:
        """The messages of a partition from its next offset to the end of the round."""
        retry, end = self.source.retry(), self.ends[partition]
        while self.next.get(partition, 0) < end:
            removed = self._assign(partition, end)
            if removed:
                yield [], removed
            healthy = True
            while healthy and self.next[partition] < end:
                start = self.next[partition]
                delivered = self._consumer.consume(min(self.source.rows, end - start), timeout=WAIT)
                messages, healthy = self._in_sequence(delivered, partition, end)
                if messages:
                    yield messages, ()
                if self.next[partition] > start:
                    retry.answered()
                else:
                    retry.wait(self.reason)

    def _assign(self, partition: int, end: int) -> tuple[Reject, ...]:
        """Go to the next offset of a partition; returns what is no longer there."""
        low, _ = self._limits(partition)
        start = self.next.get(partition, low)
        offset = self.next[partition] = min(max(start, low), end)
        self._consumer.assign([TopicPartition(self.source.topic, partition, offset)])
        if start == offset:
            return ()
        where = f"{self.source.topic}, partition {partition}, offsets {start} to {offset - 1}"
        return (Reject(where, "removed from the topic before they were read"),)

    def _in_sequence(
        self, delivered: list[Any], partition: int, end: int
    ) -> tuple[list[Message], bool]:
        """The messages that were asked for, and whether there was no error among them."""
        messages, healthy = [], True
        for one in delivered:
            error, offset, start = one.error(), one.offset(), self.next[partition]
            if one.partition() != partition:
                continue
            if error is None and start <= offset < end:
                where = f"{self.source.topic}, partition {partition}, offset {offset}"
                name = (partition << SHIFT) + offset
                messages.append(Message(name, where, one.value(), one.key()))
                self.next[partition] = offset + 1
            elif error is None or error.code() == KafkaError._PARTITION_EOF:
                self.next[partition] = max(start, min(offset, end))
            else:
                self.reason, healthy = error.str(), False
        return messages, healthy

    def _limits(self, partition: int) -> tuple[int, int]:
        """The oldest offset of a partition and the next that it will give."""
        which = TopicPartition(self.source.topic, partition)
        low, high = self._ask(lambda: self._consumer.get_watermark_offsets(which, timeout=ANSWER))
        self.high[partition] = high
        if self.next.get(partition, 0) > high:
            raise StorageError(
                f"{self.source.name} ends at {high} in partition {partition}, and was read up to "
                f"{self.next[partition]}: it is not the topic it was; begin a new job"
            )
        return low, high

    def _ask(self, question: Callable[[], T]) -> T:
        """Ask until there is an answer, or for as long as a cluster may be away."""
        return self.source.retry().run(question, KafkaException, _text_of)

    def _topics(self) -> Any:
        return self._consumer.list_topics(self.source.topic, timeout=ANSWER)

    def _note(self, error: KafkaError) -> None:
        self.reason = error.str()


def _text_of(error: KafkaException) -> str:
    """What the client says."""
    reason = error.args[0] if error.args else error
    return str(reason.str()) if isinstance(reason, KafkaError) else str(reason)


def _by_number(offsets: dict[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items()}


def _by_text(offsets: dict[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}
