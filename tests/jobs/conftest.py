"""Commands in processes of their own that can be killed; rows that move."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from signal import SIGTERM

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from forks import WARM
from streambits.jobs.folder import JobFolder

LOADED = (
    WARM
    + """
import json, os, select, signal, time
import streambits.jobs.reader
import streambits.io.codes.parquet, streambits.io.codes.convert
from streambits.io import rows as sources
with contextlib.suppress(ImportError):
    import streambits.io.rows.kafka as kafka
    kafka.ANSWER = 1.0
with contextlib.suppress(ImportError):
    import streambits.io.codes.postgres

def work(job):
    streambits.jobs.reader.TOGETHER = job["rows"]
    sources.open_source.__kwdefaults__["rows"] = job["rows"]
    streambits.io.codes.parquet.ParquetSink.__init__.__kwdefaults__["rows"] = 2000
    out = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os._exit(ended(job["arguments"]))
"""
)
FORKS = (
    LOADED
    + """
def run(job):
    child = os.fork()
    if not child:
        work(job)
    end = time.monotonic() + job["seconds"]
    with os.fdopen(os.pidfd_open(child)) as ended:
        while (left := end - time.monotonic()) > 0 and not os.path.exists(job["stop"]):
            if select.select([ended], [], [], min(left, 0.02))[0]:
                break
        else:
            os.kill(child, job["signal"])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for line in sys.stdin:
    print(run(json.loads(line)), flush=True)
"""
)


class Jobs:
    """Runs commands in processes of their own, quickly: they are forked, not loaded anew."""

    def __init__(self, folder):
        self.rng = np.random.default_rng(1)
        self.log, self.stop = folder / "log", folder / "stop"
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, arguments, *, seconds=120.0, signal=9, rows=500):
        """The exit code; negative, if a signal ended it.

        The signal comes after so many seconds, or when there is a file `stop`. rows: in a chunk.
        """
        self.log.write_bytes(b"")
        job = {"arguments": [str(a) for a in arguments], "seconds": seconds, "signal": int(signal)}
        job |= {"log": str(self.log), "stop": str(self.stop), "rows": rows}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def during(self, arguments, act, *, stop=False):
        """Run while act() is done; the exit code. stop: ask it to end after that."""
        ask = True
        try:
            with ThreadPoolExecutor(1) as pool:
                running = pool.submit(self.run, arguments, signal=SIGTERM)
                try:
                    act()
                    ask = stop
                finally:
                    if ask:
                        self.stop.touch()
                return running.result()
        finally:
            self.stop.unlink(missing_ok=True)

    @property
    def said(self):
        return self.log.read_text()

    def says(self, words):
        """Wait until it has said that, at most half a minute."""
        for _ in range(600):
            if words in self.said:
                return
            time.sleep(0.05)
        raise AssertionError(f"it has not said {words!r}, but {self.said}")

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
                [*arguments, "--set", f"commit_rows={commit}"],
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
    """Bytes of all that a job leaves for others; of its codes the rows, in their order."""
    names = ("model.safetensors", "coders.safetensors", "rejects.jsonl")
    files = [folder / name for name in names if (folder / name).exists()]
    files += sorted((folder / "epochs").glob("*"))
    found = {str(file.relative_to(folder)): file.read_bytes() for file in files}
    if (folder / "codes").exists():
        found["codes"] = parquet.read_table(folder / "codes").to_pylist()
    return found


@pytest.fixture(scope="session")
def content():
    """content(folder): all that a job leaves for others."""
    return _content


def _committed(folder, rows):
    """Wait until a job has committed so many rows, at most half a minute."""
    found = None
    for _ in range(600):
        found = JobFolder(folder, {}).checkpoint()
        if found is not None and found.counts["rows"] >= rows:
            return
        time.sleep(0.05)
    raise AssertionError(f"{found and found.counts} are committed, not {rows} rows")


@pytest.fixture(scope="session")
def committed():
    """committed(folder, rows): wait for that."""
    return _committed


@pytest.fixture(params=["nats_server", "kafka_cluster"])
def broker(request):
    """A broker of each kind, with new(), publish(), stop() and start()."""
    return request.getfixturevalue(request.param)


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
