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

from forks import WARM
from streambits.service import Client

TOKEN = "a-token-for-the-tests"
SMALL = ("--bits", "32", "--set", "n_landmarks=50", "--set", "seed=1")
FORKS = (
    WARM
    + """
import json, os
import streambits.service.server
with contextlib.suppress(ImportError):
    import streambits.io.rows.nats

def work(job):
    out = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ.update(job["variables"])
    os._exit(ended(job["arguments"]))

for line in sys.stdin:
    job = json.loads(line)
    if "wait" in job:
        print(os.waitstatus_to_exitcode(os.waitpid(job["wait"], 0)[1]), flush=True)
        continue
    child = os.fork()
    if not child:
        work(job)
    print(child, flush=True)
"""
)


class Forks:
    """Starts commands quickly: they are forked, not loaded anew."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Serving:
    """A service in a folder; address: where it is."""

    def __init__(self, forks, folder, *options, token=TOKEN):
        self.forks, self.folder, self.options = forks, Path(folder), options
        self.log = self.folder.with_name(f"{self.folder.name}.log")
        self.token, self.pid, self.address = token, None, None
        self.start()

    def start(self):
        variables = {} if self.token is None else {"STREAMBITS_TOKEN": self.token}
        arguments = ["serve", str(self.folder), "--port", "0", *map(str, self.options)]
        self.log.write_text("")
        self.pid = self.forks.ask(arguments=arguments, log=str(self.log), variables=variables)
        for _ in range(1200):
            if "token in" in self.said:
                break
            if not alive(self.pid):
                raise AssertionError(f"it does not start: {self.said}")
            time.sleep(0.025)
        self.address = self.said.split("serving at ")[1].split()[0]
        return self

    @property
    def said(self):
        return self.log.read_text()

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    def stop(self, number=signal.SIGTERM):
        """End it by a signal; the exit code."""
        if self.pid is None:
            return None
        os.kill(self.pid, number)
        pid, self.pid = self.pid, None
        return self.forks.ask(wait=pid)

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


def alive(pid):
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture(scope="session")
def forks():
    found = Forks()
    yield found
    found.close()


@pytest.fixture
def serving(forks, tmp_path):
    """serving(*options, folder=None): a service that is stopped at the end."""
    started = []

    def serve(*options, folder=None, **more):
        started.append(Serving(forks, folder or tmp_path / "index", *options, **more))
        return started[-1]

    yield serve
    for one in started:
        one.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def vectors():
    return np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def service(forks, vectors, tmp_path_factory):
    """One that keeps raw rows and has 3,000 of them."""
    found = Serving(forks, tmp_path_factory.mktemp("service") / "index", *SMALL, "--keep-rows")
    with found.client() as client:
        client.add(vectors, np.arange(3000))
    yield found
    code, said = found.stop(), found.said
    assert code == 0, said
    assert "Traceback" not in said, said
