"""NATS JetStream: a stream as a source of rows."""

import asyncio
import concurrent.futures
import os
import threading
import time
from collections.abc import Coroutine, Iterator
from typing import Any, Self

from streambits.errors import InputError, MissingExtraError, StorageError
from streambits.io.rows.message_parser import Fetched, Message
from streambits.io.rows.messages import BrokerSource
from streambits.io.urls import Url, redact, redact_url, secrets_in
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
    """The messages of a JetStream stream, in the order of their sequence numbers.

    Parameters
    ----------
    url
        nats://user:password@host:port,host:port/stream?subject=name; without the last, messages of
        all subjects. Who logs in may also be said by the environment, in STREAMBITS_NATS_USER and
        STREAMBITS_NATS_PASSWORD, in STREAMBITS_NATS_TOKEN, or by a file of credentials in
        STREAMBITS_NATS_CREDENTIALS; the URL goes before it.
    **options
        See `BrokerSource`.

    Notes
    -----
    Nothing is acknowledged and the server keeps nothing for us: the offset says where to resume,
    so any number of jobs can read one stream, and reading it again gives the same rows. The offset
    of a message is its sequence number. A server that goes away is waited for, and reading resumes
    after the last message that came. Messages that the stream's limits removed before they were
    read are a reject. By default reading ends at the message that was the last one when it began.
    """

    def __init__(self, url: str, **options: Any) -> None:
        parts = Url.parse(url, EXAMPLE)
        if parts.query.keys() - {"subject"}:
            raise InputError(f"{redact_url(url)} must have no setting but subject: write {EXAMPLE}")
        self.servers = [f"{parts.scheme}://{host}" for host in parts.hosts.split(",")]
        self.stream, self.subject = parts.path.strip("/"), parts.query.get("subject")
        self.login = _login(parts)
        secrets = [self.login[name] for name in ("password", "token") if name in self.login]
        name = f"{parts.scheme}://{parts.hosts}/{self.stream}"
        super().__init__(name, (*secrets_in(url), *secrets), **options)
        if self.parser.by_key:
            raise InputError(
                f"ids={self.parser.id_key!r} is for Kafka: {self.name} has messages of NATS"
            )

    def identity(self) -> Any:
        """The stream, when it was created, which asks the server, and what rows are made of."""
        with _StreamReader(self) as reader:
            try:
                info = reader.run(reader.info())
            except LOST as error:
                raise self.retry().unreachable(error) from error
        created = info.created.isoformat() if info.created else None
        identity = {"nats": self.stream, "subject": self.subject, "created": created}
        return identity | self.parser.identity()

    def read(self, offset: Any = None) -> Iterator[RowBatch]:
        """Batches from the first message of the stream, or from an offset.

        An offset also says where its reading was to end, so resuming ends there too; if that is
        where it was, reading ends at what is the last message now.
        """
        at = self.checked_offset(offset, int)
        parser = self.parser.resumed(at)
        unfinished = bool(not self.follow and at and at["next"] <= (at["end"] or 0))
        with _StreamReader(self, at.get("next"), at["end"] if unfinished else None) as reader:
            for messages, lost in self._fetched(reader):
                unfinished = False
                self.lag = reader.pending
                place = {"next": reader.next, "end": reader.end}
                yield parser.batch(messages, place, lost)
        if unfinished:  # there was nothing left up to the old end
            yield from self.read({**at, "end": None})

    def _fetched(self, reader: "_StreamReader") -> Iterator[Fetched]:
        retry, last = self.retry(), time.monotonic()

        def reason(error: Exception) -> Exception:
            """Close the connection; a server that never answered is not waited for."""
            reader.run(reader.close())
            if not reader.opened:
                raise retry.unreachable(reader.reason or error) from error
            return reader.reason or error

        while not reader.finished:
            messages, lost = retry.run(lambda: reader.run(reader.fetch()), LOST, reason)
            if messages or lost:
                yield messages, lost
                last = time.monotonic()
            elif self.idle is not None and time.monotonic() - last >= self.idle:
                return


class _StreamReader:
    """Fetches messages in order over a connection, which is opened whenever there is none.

    The client's event loop is in a thread of its own, so that it works beside any other, and
    answers the server while nobody fetches.

    next: the sequence number to resume with; end: the last to read; both None until it is opened,
    and `end` always if following. pending: messages in the stream after `next`.
    """

    def __init__(
        self, source: NatsSource, start: int | None = None, end: int | None = None
    ) -> None:
        self.source, self.next, self.end = source, start, end
        self.pending, self.opened = 0, False
        self.reason: Exception | None = None  # of the last trouble with the connection
        self._link: Any = None
        self._messages: Any = None
        self._delivered = 0  # by the present consumer, which counts them too
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run one of the coroutines below."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def finished(self) -> bool:
        """Whether all is read, as far as it is to be read."""
        if self.end is None or self.next is None:
            return False
        return self.next > self.end or (self._messages is not None and not self.pending)

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

    async def fetch(self) -> Fetched:
        """The next messages, none if none come for a second; and what is lost before them."""
        lost: tuple[Reject, ...] = ()
        if self._messages is None:
            lost = await self._open()
        if self.finished:
            return [], lost
        try:
            count = min(self.source.rows, max(self.pending, 1))
            messages = await self._messages.fetch(count, timeout=WAIT)
        except TimeoutError:
            self.pending = (await self._messages.consumer_info()).num_pending
            return [], lost
        return self._in_sequence(messages), lost

    async def close(self) -> None:
        link, self._link, self._messages = self._link, None, None
        if link is not None:
            await link.close()

    async def _connect(self) -> Any:
        async def note(error: Exception) -> None:
            self.reason = error

        link = nats.NATS()
        try:
            await link.connect(
                self.source.servers,
                error_cb=note,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                **self.source.login,
            )
        except LOST:  # one that is not let in is left open
            await link.close()
            raise
        return link

    async def _open(self) -> tuple[Reject, ...]:
        """Begin to read at `next`; returns what is no longer there."""
        try:
            state = (await self.info()).state
            lost = self._locate(state.first_seq, state.last_seq)
            config = api.ConsumerConfig(
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self.next,
                ack_policy=api.AckPolicy.NONE,
                inactive_threshold=UNUSED,
                mem_storage=True,
            )
            messages = await self._link.jetstream().pull_subscribe(
                self.source.subject, stream=self.source.stream, config=config, pending_bytes_limit=0
            )
            self.pending = (await messages.consumer_info()).num_pending
        except REFUSED as error:
            reason = redact(error, self.source.secrets)
            raise InputError(f"{self.source.name} refuses to be read: {reason}") from error
        self._messages, self.opened, self._delivered = messages, True, 0
        return lost

    def _locate(self, first: int, last: int) -> tuple[Reject, ...]:
        """Know where to begin and to end in the stream as it is; returns what was removed."""
        if self.next is not None and self.next > last + 1:
            raise StorageError(
                f"{self.source.name} ends at {last}, and was read up to {self.next - 1}: it is not "
                f"the stream it was; begin a new job"
            )
        if self.end is None and not self.source.follow:
            self.end = last
        start, self.next = self.next, max(first, 1, self.next or 0)
        if start in (None, self.next):
            return ()
        where = f"{self.source.stream}, sequences {start} to {self.next - 1}"
        return (Reject(where, "removed from the stream before they were read"),)

    def _in_sequence(self, delivered: list[Any]) -> list[Message]:
        messages = []
        for message in delivered:
            about = message.metadata
            sequence = int(about.sequence.stream)
            self._delivered += 1
            if about.sequence.consumer != self._delivered:  # one was dropped on its way
                self._messages = None
                break
            self.next, self.pending = sequence + 1, about.num_pending
            if self.end is not None and sequence > self.end:
                self.next = self.end + 1
                break
            where = f"{message.subject}/{self.source.stream} {sequence}"
            messages.append(Message(sequence, where, message.data))
        return messages


def _login(url: Url) -> dict[str, str]:
    """Who logs in, as `nats.connect` wants it: by the URL, or else by the environment."""
    login = {name: os.environ[key] for key, name in VARIABLES.items() if os.environ.get(key)}
    if url.user is None:
        return login
    password = login.get("password") if url.password is None else url.password
    return {"token": url.user} if password is None else {"user": url.user, "password": password}
