"""Sail, a Spark Connect server without a JVM, by the pysail wheel; its tasks run in its process."""

import contextlib
import os
import socket
import subprocess
import sys
import time

import pytest

from servers import free_port

SERVER = """
import sys
from pysail.spark import SparkConnectServer

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "streambits":
            raise ModuleNotFoundError("No module named 'streambits'", name="streambits")

if sys.argv[2] == "without":
    sys.meta_path.insert(0, Nothing())
SparkConnectServer("127.0.0.1", int(sys.argv[1])).start(background=False)
"""


class Sail:
    """A server.

    mode: local, or local-cluster, which repeats tasks that fail; without: whether its workers are
    not to find streambits.
    """

    def __init__(self, mode="local", without=False):
        self.mode, self.without, self.process = mode, without, None
        self.port = free_port()
        self.url = f"sc://127.0.0.1:{self.port}"

    def start(self):
        assert self.process is None
        quiet = {"SAIL_MODE": self.mode, "RUST_LOG": "off"}
        quiet["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(self.port), "without" * self.without],
            env=os.environ | quiet,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(400):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            time.sleep(0.05)
        raise RuntimeError("Sail does not start")

    def stop(self):
        """End it at once: it has nothing to keep, and waits for its sessions otherwise."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextlib.contextmanager
def _served(**options):
    """A server that is stopped at the end."""
    server = Sail(**options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def sail():
    """What starts servers: `with sail(mode=..., without=...) as server`."""
    pytest.importorskip("pysail", reason="there is no pysail: pip install pysail")
    pytest.importorskip("pyarrow.compute")
    return _served


@pytest.fixture(scope="session")
def sail_server(sail):
    """A server that all tests may use."""
    with sail() as server:
        yield server
