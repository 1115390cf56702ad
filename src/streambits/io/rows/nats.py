"""NATS JetStream: a stream as a source of rows."""

import asyncio
import concurrent.futures
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Self, Unpack

from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.io.rows.message_parser import Fetched, Message
from streambits.io.rows.messages import BrokerOptions, BrokerSource
from streambits.io.urls import Url, secrets_in, shown, without
from streambits.model.batches import Reject, RowBatch

try:
    import nats
    from nats.js import api
    from nats.js.errors import BadRequestError, NotFoundError
except ImportError:
    raise MissingExtraError("nats-py", "nats") from None

LOST = (nats.errors.Error, OSError, concurrent.futures.CancelledError)
REFUSED = (nats.errors.AuthorizationError, BadRequestError)
EXAMPLE = "nats://host:4222/stream?subject=name"
VARIABLES = {  # in the environment, and what `nats.connect` calls it
    "STREAMBITS_NATS_USER": "user",
    "STREAMBITS_NATS_PASSWORD": "password",
    "STREAMBITS_NATS_TOKEN": "token",
    "STREAMBITS_NATS_CREDENTIALS": "user_credentials",
}
WAIT = 1.0  # seconds for messages to come
UNUSED = 300.0  # seconds after which the server forgets a reader that was killed


class NatsSource(BrokerSource):
    """The messages of a JetStream stream, in the order of their sequence numbers, one row each.

    Parameters
    ----------
    server
        Its URL, or several separated by commas.
    stream
        Its name.
    subject
        Only messages with this subject.
    connection
        More arguments of `nats.connect`, such as user_credentials.
    **options
        See `BrokerSource`.

    Notes
    -----
    Nothing is acknowledged and the server keeps nothing for us: the offset says where to resume,
    so any number of jobs can read one stream, and reading it again gives the same rows. A row
    without an id of its own has its sequence number as its id. A server that goes away is waited
    for, and reading resumes after the last message that came. Messages that the stream's limits
    removed before they were read are a reject. By default reading ends at the message that was the
    last one when it began.
    """

    def __init__(
        self,
        server: str,
        stream: str,
        *,
        subject: str | None = None,
        connection: Mapping[str, Any] | None = None,
        **options: Unpack[BrokerOptions],
    ) -> None:
        self.servers = [one.strip() for one in server.split(",")]
        for one in self.servers:
            Url.parse(one if "://" in one else f"nats://{one}", EXAMPLE)
        self.stream, self.subject = stream, subject
        self.connection = dict(connection or {})
        url = server if "://" in server else f"nats://{server}"
        hidden = [self.connection.get(name) for name in ("password", "token")]
        secrets = (*secrets_in(url), *(text for text in hidden if isinstance(text, str)))
        super().__init__(f"{shown(url).rstrip('/')}/{stream}", secrets, **options)
        if self.parser.by_key or self.properties is not None:
            wrong = f"ids={self.parser.id_key!r}" if self.parser.by_key else "properties"
            raise InputError(f"{wrong} is for Kafka: {self.name} has messages of NATS")

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        connection: Mapping[str, Any] | None = None,
        **options: Unpack[BrokerOptions],
    ) -> Self:
        """From nats://user:password@host:port,host:port/stream?subject=name.

        Who logs in may also be said by the environment, in STREAMBITS_NATS_USER and
        STREAMBITS_NATS_PASSWORD, in STREAMBITS_NATS_TOKEN, or by a file of credentials in
        STREAMBITS_NATS_CREDENTIALS; `connection`, and then the URL, go before it.
        """
        parts = Url.parse(url, EXAMPLE)
        if parts.query.keys() - {"subject"}:
            raise InputError(f"{shown(url)} must have no setting but subject: write {EXAMPLE}")
        servers = ",".join(f"{parts.scheme}://{host}" for host in parts.hosts.split(","))
        return cls(
            servers,
            parts.path.strip("/"),
            subject=parts.query.get("subject"),
            connection=_login(parts) | dict(connection or {}),
            **options,
        )

    def identity(self) -> Any:
        """The stream, when it was created, which asks the server, and what rows are made of."""
        consumer = _StreamConsumer(self, None, None)
        with Loop() as loop:
            try:
                info = loop.do(consumer.info())
            except LOST as error:
                raise self.retry().unreachable(error) from error
            finally:
                loop.do(consumer.close())
        created = info.created.isoformat() if info.created else None
        found = {"nats": self.stream, "subject": self.subject, "created": created}
        return found | self.parser.identity()

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Batches from the first message of the stream, or from an offset.

        An offset also says where its reading was to end, so resuming ends there too; if that is
        where it was, reading ends at what is the last message now.
        """
        at = self.checked_offset(offset, int)
        parser = self.parser.resumed(at)
        unfinished = bool(not self.follow and at and at["next"] <= (at["end"] or 0))
        consumer = _StreamConsumer(self, at.get("next"), at["end"] if unfinished else None)
        with Loop() as loop:
            try:
                for messages, lost in self._fetched(loop, consumer):
                    unfinished = False
                    self.lag = consumer.pending
                    place = {"next": consumer.next, "end": consumer.end}
                    yield parser.batch(messages, place, lost)
                if unfinished:  # there was nothing left up to the old end
                    yield from self.read({**at, "end": None})
            finally:
                loop.do(consumer.close())

    def _fetched(self, loop: "Loop", consumer: "_StreamConsumer") -> Iterator[Fetched]:
        retry, last = self.retry(), time.monotonic()
        while not consumer.finished:
            try:
                messages, lost = loop.do(consumer.fetch())
            except LOST as error:
                loop.do(consumer.close())
                if not consumer.opened:
                    raise retry.unreachable(consumer.reason or error) from error
                retry.wait(consumer.reason or error)
                continue
            retry.answered()
            if messages or lost:
                yield messages, lost
                last = time.monotonic()
            elif self.idle is None:
                continue
            elif time.monotonic() - last >= self.idle:
                return


class _StreamConsumer:
    """Fetches messages in order over a connection, which is opened whenever there is none.

    next: the sequence number to resume with; end: the last to read; both None until it is opened,
    and `end` always if following. pending: messages in the stream after `next`.
    """

    def __init__(self, source: NatsSource, start: int | None, end: int | None) -> None:
        self.source, self.next, self.end = source, start, end
        self.pending = 0
        self.opened = False
        self.reason: Exception | None = None
        self._link: Any = None
        self._messages: Any = None
        self._over = False  # a message after the end has come
        self._came = 0  # from the present consumer, which counts them too

    @property
    def finished(self) -> bool:
        """Whether all is read, as far as it is to be read."""
        if self.end is None or self.next is None:
            return False
        if self._over or self.next > self.end:
            return True
        return self._messages is not None and not self.pending

    async def info(self) -> Any:
        """What the server says of the stream."""
        if self._link is None:
            self._link = await self._connect()
        try:
            return await self._link.jetstream().stream_info(self.source.stream)
        except NotFoundError:
            raise InputError(
                f"the server has no stream for {self.source.name}: check its name, or create it"
            ) from None

    async def _connect(self) -> Any:
        return await connect(self.source, self._note)

    async def fetch(self) -> Fetched:
        """The next messages, few or none if none come for a second; and what is lost before."""
        lost: tuple[Reject, ...] = ()
        if self._messages is None:
            lost = await self._open()
        if self.finished:
            return [], lost
        count = min(self.source.rows, max(self.pending, 1))
        try:
            found = await self._messages.fetch(count, timeout=WAIT)
        except TimeoutError:
            self.pending = (await self._messages.consumer_info()).num_pending
            return [], lost
        return self._in_sequence(found), lost

    async def close(self) -> None:
        link, self._link, self._messages = self._link, None, None
        if link is None:
            return
        await link.close()

    async def _open(self) -> tuple[Reject, ...]:
        """Begin to read at `next`; returns what is no longer there."""
        try:
            state = (await self.info()).state
            lost = self._find(state.first_seq, state.last_seq)
            config = api.ConsumerConfig(
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self.next,
                ack_policy=api.AckPolicy.NONE,
                filter_subject=self.source.subject,
                inactive_threshold=UNUSED,
                mem_storage=True,
            )
            stream = self._link.jetstream()
            info = await stream.add_consumer(self.source.stream, config)
            self._messages = await stream.pull_subscribe_bind(
                info.name, self.source.stream, pending_bytes_limit=0
            )
        except REFUSED as error:
            reason = without(error, self.source.secrets)
            raise InputError(f"{self.source.name} refuses to be read: {reason}") from error
        self.opened, self.pending, self._came = True, info.num_pending, 0
        return lost

    def _find(self, first: int, last: int) -> tuple[Reject, ...]:
        if self.next is not None and self.next > last + 1:
            raise StorageError(
                f"{self.source.name} ends at {last}, and was read up to {self.next - 1}: it is not "
                f"the stream it was; begin a new job"
            )
        if self.end is None and not self.source.follow:
            self.end = last
        start, self.next = self.next, max(first, 1, self.next or 0)
        if start is None or start == self.next:
            return ()
        where = f"{self.source.stream}, sequences {start} to {self.next - 1}"
        return (Reject(where, "removed from the stream before they were read"),)

    def _in_sequence(self, found: list[Any]) -> list[Message]:
        messages = []
        for message in found:
            about = message.metadata
            sequence = int(about.sequence.stream)
            if about.sequence.consumer != self._came + 1:  # one was dropped on its way
                self._messages = None
                break
            if self.end is not None and sequence > self.end:
                self._over = True
                break
            where = f"{message.subject}/{self.source.stream} {sequence}"
            messages.append(Message(sequence, where, message.data))
            self._came += 1
            self.next, self.pending = sequence + 1, about.num_pending
        return messages

    async def _note(self, error: Exception) -> None:
        self.reason = error


async def connect(source: NatsSource, note: Callable[[Exception], Any]) -> Any:
    """A connection to the servers of a source, which does not try by itself; note: of trouble."""
    link = nats.NATS()
    try:
        await link.connect(
            source.servers,
            error_cb=note,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            **source.connection,
        )
    except LOST:  # one that is not let in is left open
        await link.close()
        raise
    return link


def _login(url: Url) -> dict[str, str]:
    """Who logs in, as `nats.connect` wants it: by the URL, or else by the environment."""
    found = {name: os.environ[key] for key, name in VARIABLES.items() if os.environ.get(key)}
    if url.user is None:
        return found
    password = found.get("password") if url.password is None else url.password
    return {"token": url.user} if password is None else {"user": url.user, "password": password}


class Loop:
    """An event loop in a thread of its own, so that it works beside any other.

    >>> with Loop() as loop:
    ...     loop.do(asyncio.sleep(0, "done"))
    'done'
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
