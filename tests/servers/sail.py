"""Sail, a Spark Connect server without a JVM, by the pysail wheel; its tasks run in its process."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from servers import free_port

SERVER = """
import sys
from pysail.spark import SparkConnectServer
SparkConnectServer("127.0.0.1", int(sys.argv[1])).start(background=False)
"""


@pytest.fixture(scope="session")
def sail_server():
    """A server, with its url; it is killed at the end, for it has nothing to keep."""
    pytest.importorskip("pysail", reason="there is no pysail: pip install pysail")
    port = free_port()
    quiet = {"SAIL_MODE": "local", "RUST_LOG": "off"}
    quiet["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)],
        env=os.environ | quiet,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            for _ in range(400):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                time.sleep(0.05)
            yield SimpleNamespace(url=f"sc://127.0.0.1:{port}")
        finally:
            server.kill()
