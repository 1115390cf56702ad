"""Kafka: a topic as a source of rows."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from streambits._arrays import as_count, as_number
from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.io.retry import DEFAULT, Retry
from streambits.io.rows.messages import Message, Parser
from streambits.io.urls import Url, secrets_in, shown, without
from streambits.model.batches import Reject, RowBatch

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
except ImportError:
    raise MissingExtraError("confluent-kafka", "kafka") from None

Some = tuple[list[Message], tuple[Reject, ...]]
ANSWER = 5.0  # seconds for the answer to a question
WAIT = 1.0  # seconds for messages to come
SHIFT = 48  # bits of an id that are the offset; those above are the partition
EXAMPLE = "kafka://host:9092,host:9092/topic"
PREFIX = "STREAMBITS_KAFKA_"  # of variables, such as STREAMBITS_KAFKA_SASL_PASSWORD
SECRET = ("password", "secret", "jaas", "key.pem", "token")  # in names of librdkafka's settings
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


class KafkaSource:
    """The messages of a topic, one row each.

    Read in rounds: how far every partition goes is looked up, and then one partition after the
    other is read up to there, so the order of rows does not depend on chance. The offset of a
    chunk says where every partition is and where the round ends; going on from it finishes that
    round first. By default there is one round; with follow=True they do not end, and with `idle`
    they end after so many seconds without a message.

    Nothing is committed to a consumer group, so any number of jobs can read one topic. A row that
    brings no id has partition * 2**48 + offset as its id: with one partition, the offset. Brokers
    that go away are waited for. Messages that were removed before they were read are a reject.

    servers: host:port, several with commas between. batch: most messages at a time.
    retry_seconds: how long a broker is waited for. config: more for the client, such as
    security.protocol; its names are librdkafka's. The rest: see `Parser`.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        batch: int = 1024,
        follow: bool = False,
        idle: float | None = None,
        retry_seconds: float = DEFAULT,
        config: Mapping[str, Any] | None = None,
        **parsing: Any,
    ) -> None:
        self.servers, self.topic = servers, topic
        self.batch = as_count(batch, "batch")
        self.idle = None if idle is None else as_number(idle, "idle", least=0)
        self.follow = follow or idle is not None
        self.config = dict(config or {})
        self.name = f"{shown(f'kafka://{servers}')}/{topic}"
        self.secrets = secrets_in(f"kafka://{servers}") + tuple(
            str(value) for name, value in self.config.items() if any(s in name for s in SECRET)
        )
        self.retry_seconds = self.waiting(retry_seconds).seconds
        self._parser = Parser(**parsing)
        self._lag: int | None = None

    @classmethod
    def from_url(cls, url: str, **settings: Any) -> Self:
        """From kafka://host:port,host:port/topic.

        Settings of librdkafka, such as who logs in, are taken from the environment, unless `config`
        has them: STREAMBITS_KAFKA_SASL_PASSWORD is sasl.password, and so on.
        """
        parts = Url.parse(url, EXAMPLE)
        if parts.user is not None or parts.password is not None or parts.query:
            raise InputError(
                f"{shown(url)} must have hosts and a topic only: who logs in and other settings "
                f"come from the environment, such as {PREFIX}SASL_USERNAME, {PREFIX}SASL_PASSWORD, "
                f"{PREFIX}SASL_MECHANISM and {PREFIX}SECURITY_PROTOCOL"
            )
        config = from_environment(os.environ) | dict(settings.pop("config", None) or {})
        return cls(parts.hosts, parts.path.strip("/"), config=config, **settings)

    @property
    def length(self) -> None:
        """Not known: a topic grows."""

    def waiting(self, seconds: float | None = None) -> Retry:
        """Retry for the brokers, by default as much as this was given."""
        return Retry(self.retry_seconds if seconds is None else seconds, self.name, self.secrets)

    @property
    def lag(self) -> int | None:
        """Messages in the topic after those that were read; None before the first."""
        return self._lag

    def identity(self) -> Any:
        """The topic, the cluster's own name, which asks the cluster, and what rows are made of."""
        link = _Link(self, {})
        try:
            found = {"kafka": self.topic, "cluster": link.look().cluster_id}
            return found | self._parser.identity()
        finally:
            link.close()

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Chunks from the oldest messages of the topic, or from an offset."""
        at = offset or {"next": {}, "end": {}}
        parser = self._parser.again(at.get("columns"))
        ends = _numbered(at["end"])
        link = _Link(self, _numbered(at["next"]))
        try:
            link.look()
            for messages, lost in self._rounds(link, ends):
                self._lag = link.lag
                place = {"next": _named(link.places), "end": _named(ends)}
                yield parser.chunk(messages, place, lost)
        finally:
            link.close()

    def _rounds(self, link: "_Link", ends: dict[int, int]) -> Iterator[Some]:
        """Rounds up to `ends`, which is filled anew for each."""
        heard, came = time.monotonic(), False
        while True:
            old = any(link.places.get(p, 0) < end for p, end in ends.items())
            if not old:
                ends.clear()
                ends.update(link.ends())
            for partition in sorted(ends):
                for some in link.stretch(partition, ends[partition]):
                    yield some
                    heard, came = time.monotonic(), True
            if old and not came:  # nothing was left of that round
                continue
            if not self.follow or (self.idle is not None and _since(heard) >= self.idle):
                return
            time.sleep(WAIT if _since(heard) > WAIT else WAIT / 10)


class _Link:
    """A consumer, and how far it is.

    places: the next offset of every partition; known: where they ended when last looked up.
    """

    def __init__(self, source: KafkaSource, places: dict[int, int]) -> None:
        self.source, self.places = source, places
        self.known: dict[int, int] = {}
        self.reason: Any = "no message comes"
        settings = {**SETTINGS, "bootstrap.servers": source.servers, "error_cb": self._note}
        try:
            self._consumer = Consumer(settings | source.config)
        except KafkaException as error:
            reason = without(_said(error), source.secrets)
            raise InputError(f"{source.name} cannot be read: {reason}") from error

    @property
    def lag(self) -> int:
        """Messages not yet read."""
        return sum(max(0, end - self.places.get(p, 0)) for p, end in self.known.items())

    def close(self) -> None:
        self._consumer.close()

    def look(self) -> Any:
        """What the cluster says of the topic; does not wait for it."""
        try:
            found = self._topics()
        except KafkaException as error:
            raise self.source.waiting(0).unreachable(_said(error)) from error
        topic = found.topics.get(self.source.topic)
        if topic is None or not topic.partitions:
            raise InputError(f"there is no topic for {self.source.name}: check its name")
        return found

    def ends(self) -> dict[int, int]:
        """Where every partition ends now."""
        topic = self._ask(self._topics).topics[self.source.topic]
        found = {}
        for partition in topic.partitions:
            low, found[partition] = self._limits(partition)
            self.places.setdefault(partition, low)
        return found

    def stretch(self, partition: int, end: int) -> Iterator[Some]:
        """A partition from where it is up to an end."""
        retry = self.source.waiting()
        while self.places.get(partition, 0) < end:
            gone, well = self._start(partition, end), True
            if gone:
                yield [], gone
            while well and self.places[partition] < end:
                start = self.places[partition]
                found = self._consumer.consume(min(self.source.batch, end - start), timeout=WAIT)
                messages, well = self._sorted_out(found, partition, end)
                if messages:
                    yield messages, ()
                if self.places[partition] > start:
                    retry.answered()
                else:
                    retry.wait(self.reason)

    def _start(self, partition: int, end: int) -> tuple[Reject, ...]:
        """Go to the place in a partition; gives what is no longer there."""
        low, _ = self._limits(partition)
        start = self.places.setdefault(partition, low)
        place = self.places[partition] = min(max(start, low), end)
        self._consumer.assign([TopicPartition(self.source.topic, partition, place)])
        if start == place:
            return ()
        where = f"{self.source.topic}, partition {partition}, offsets {start} to {place - 1}"
        return (Reject(where, "removed from the topic before they were read"),)

    def _sorted_out(self, found: list[Any], partition: int, end: int) -> tuple[list[Message], bool]:
        """The messages that are meant, and whether all is well."""
        messages, well = [], True
        for one in found:
            error, offset, place = one.error(), one.offset(), self.places[partition]
            if one.partition() != partition:
                continue
            if error is None and place <= offset < end:
                where = f"{self.source.topic}, partition {partition}, offset {offset}"
                name = (partition << SHIFT) + offset
                messages.append(Message(name, where, one.value() or b""))
                self.places[partition] = offset + 1
            elif error is None or error.code() == KafkaError._PARTITION_EOF:
                self.places[partition] = max(place, min(offset, end))
            else:
                self.reason, well = error.str(), False
        return messages, well

    def _limits(self, partition: int) -> tuple[int, int]:
        """The oldest offset of a partition and the next that it will give."""
        which = TopicPartition(self.source.topic, partition)
        low, high = self._ask(lambda: self._consumer.get_watermark_offsets(which, timeout=ANSWER))
        self.known[partition] = high
        place = self.places.get(partition, 0)
        if place > high:
            raise StorageError(
                f"{self.source.name} ends at {high} in partition {partition}, and was read up to "
                f"{place}: it is not the topic it was; begin a new job"
            )
        return low, high

    def _topics(self) -> Any:
        return self._consumer.list_topics(self.source.topic, timeout=ANSWER)

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Ask until there is an answer, until the deadline."""
        retry = self.source.waiting()
        while True:
            try:
                answer = question()
            except KafkaException as error:
                retry.wait(_said(error))
            else:
                retry.answered()
                return answer

    def _note(self, error: KafkaError) -> None:
        self.reason = error.str()


def from_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Settings of librdkafka that variables give: small letters, with dots for the underscores.

    >>> from_environment({"STREAMBITS_KAFKA_SASL_USERNAME": "me", "HOME": "/"})
    {'sasl.username': 'me'}
    """
    return {
        name.removeprefix(PREFIX).lower().replace("_", "."): value
        for name, value in variables.items()
        if name.startswith(PREFIX) and value
    }


def _said(error: KafkaException) -> str:
    reason = error.args[0] if error.args else error
    return str(reason.str()) if isinstance(reason, KafkaError) else str(reason)


def _since(moment: float) -> float:
    return time.monotonic() - moment


def _numbered(places: dict[str, int]) -> dict[int, int]:
    return {int(partition): place for partition, place in places.items()}


def _named(places: dict[int, int]) -> dict[str, int]:
    return {str(partition): place for partition, place in sorted(places.items())}
