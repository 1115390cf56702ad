"""Services in processes of their own, on the loopback device, which can be killed."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="there is no FastAPI: pip install 'streambits[serve]'")
pytest.importorskip("uvicorn")

from streambits.service import Client

TOKEN = "a-token-for-the-tests"
SMALL = ("--bits", "32", "--set", "n_landmarks=50", "--set", "seed=1")
COMMAND = "import sys; from streambits.cli.app import main; main()"


class Serving:
    """A service in a folder; address: where it is."""

    def __init__(self, folder, *options, token=TOKEN):
        self.folder, self.options, self.token = Path(folder), options, token
        self.log = self.folder.with_name(f"{self.folder.name}.log")
        self.start()

    def start(self):
        variables = {} if self.token is None else {"STREAMBITS_TOKEN": self.token}
        words = ["serve", str(self.folder), "--port", "0", *map(str, self.options)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *words],
                stdout=log,
                stderr=log,
                env={**os.environ, **variables},
            )
        while "token in" not in self.said:
            assert self.process.poll() is None, f"it does not start: {self.said}"
            time.sleep(0.025)
        self.address = self.said.split("serving at ")[1].split()[0]

    @property
    def said(self):
        return self.log.read_text()

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    def stop(self, number=signal.SIGTERM):
        """End it by a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)

    def client(self, token=TOKEN, **more):
        return Client(self.address, token, **more)

    def ask(self, method, path, body=b"", kind=None, token=None, **headers):
        """Status, headers and body of any request."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if kind:
            named["Content-Type"] = kind
        if token:
            named["Authorization"] = f"Bearer {token}"
        try:
            link.request(method, path, body, named)
            found = link.getresponse()
            return found.status, {n.lower(): v for n, v in found.getheaders()}, found.read()
        finally:
            link.close()

    def json(self, method, path, value=None, token=None, **headers):
        """Status and JSON of a request with JSON."""
        body = b"" if value is None else json.dumps(value).encode()
        status, _, content = self.ask(method, path, body, "application/json", token, **headers)
        return status, json.loads(content)


@pytest.fixture
def serving(tmp_path):
    """serving(*options): a service that is stopped at the end."""
    started = []

    def serve(*options, **more):
        started.append(Serving(tmp_path / "index", *options, **more))
        return started[-1]

    yield serve
    for one in started:
        one.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def vectors():
    return np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def service(vectors, tmp_path_factory):
    """One that keeps raw rows and has 3,000 of them."""
    found = Serving(tmp_path_factory.mktemp("service") / "index", *SMALL, "--keep-rows")
    with found.client() as client:
        client.add(vectors, np.arange(3000))
    yield found
    code, said = found.stop(), found.said
    assert code == 0, said
    assert "Traceback" not in said, said
