"""Jobs that are killed at random moments, and started again until they are done."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from streambits import load

KILLS = 100 if os.environ.get("STREAMBITS_SLOW") else 8
JOBS = """
import contextlib, json, os, select, signal, sys, traceback
from pathlib import Path
import numpy as np, pyarrow, pyarrow.parquet
import streambits.io.codes.parquet, streambits.io.codes.jsonl, streambits.io.codes.npy
import streambits.io.codes.index
with contextlib.suppress(ImportError):
    import streambits.io.codes.faiss, streambits.io.codes.postgres
from streambits import Codes
from streambits._files import replacing
from streambits.io.codes import open_sink
pyarrow.array(np.arange(3))  # which may import pandas

def keep(job, rows, sink):
    state = sink.state() if hasattr(sink, "state") else sink.commit()
    with replacing(Path(job["kept"])) as file:
        file.write(json.dumps({"rows": rows, "state": state}).encode())

def work(job):
    rng = np.random.default_rng(0)
    count = job["rows"]
    codes = Codes.from_bits(rng.random((count, 20)) < 0.5)
    if refine := job["options"].get("refine"):
        codes = Codes(codes.packed, 20, 0, rng.integers(0, 256, (count, refine), np.uint8))
    ids = rng.integers(count // 3, size=count) if job["repeats"] else np.arange(count)
    sink = open_sink(job["target"], 20, **job["options"])
    if Path(job["kept"]).exists():
        kept = json.loads(Path(job["kept"]).read_bytes())
        if kept["state"]:
            sink.resume(kept["state"])
    else:
        kept = {"rows": 0}
        keep(job, 0, sink)
    for turn, start in enumerate(range(kept["rows"], count, job["step"])):
        some = slice(start, start + job["step"])
        sink.write(ids[some], codes[some])
        if turn % 3 == 2:
            keep(job, min(start + job["step"], count), sink)
    sink.close()
    Path(job["kept"] + ".done").touch()

def run(job):
    child = os.fork()
    if not child:
        try:
            work(job)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    with os.fdopen(os.pidfd_open(child)) as ended:
        select.select([ended], [], [], job["seconds"])
    os.kill(child, signal.SIGKILL)  # if it has not ended
    return "killed" if os.waitpid(child, 0)[1] == signal.SIGKILL else "done"

for line in sys.stdin:
    print(run(json.loads(line)), flush=True)
"""


class Jobs:
    """Starts jobs in processes of their own, quickly: they are forked, not loaded anew."""

    def __init__(self):
        self.rng = np.random.default_rng(1)
        self.process = subprocess.Popen(
            [sys.executable, "-c", JOBS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, job, most=None):
        """Run a job, killed after at most some seconds; whether it was."""
        seconds = 60 if most is None else self.rng.uniform(0, most)
        self.process.stdin.write(json.dumps(job | {"seconds": seconds}) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() == "killed\n"


@pytest.fixture(scope="module")
def jobs():
    jobs = Jobs()
    yield jobs
    jobs.process.stdin.close()
    jobs.process.wait()
    jobs.process.stdout.close()


def job_of(folder, kind, repeats, **options):
    folder.mkdir()
    return {
        "target": f"{kind}:{folder / 'sink'}",
        "kept": f"{folder}.kept",
        "rows": 1000,
        "step": 100,
        "repeats": repeats,
        "options": options,
    }


def run_and_kill(jobs, job, most):
    """Until it is done; how often it was killed. Every time it goes in other steps."""
    kills = 0
    while jobs.run(job | {"step": int(jobs.rng.integers(30, 250))}, most):
        kills += 1
    assert Path(job["kept"] + ".done").exists()
    return kills


def timed(jobs, job):
    start = time.monotonic()
    assert not jobs.run(job)
    return min(time.monotonic() - start, 0.3)  # on a busy machine, rather kill too early


def content(folder):
    """All bytes of all files, but for the count of exchanges."""
    path = folder / "sink"
    files = sorted(path.iterdir()) if path.is_dir() else sorted(folder.glob("*sink*"))
    return {f.name: f.read_bytes() for f in files if not f.name.endswith(".generation")}


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("parquet", {"rows": 200}),
        ("parquet", {"rows": 200, "refine": 3}),
        ("jsonl", {}),
        ("jsonl", {"refine": 3}),
        ("npy", {}),
        ("npy", {"refine": 3}),
    ],
)
def test_files_are_the_same_to_the_byte(kind, options, repeats, jobs, tmp_path):
    alone = job_of(tmp_path / "alone", kind, repeats, **options)
    seconds = timed(jobs, alone)
    wanted = content(tmp_path / "alone")
    assert wanted
    kills = tries = 0
    while kills < KILLS:
        tries += 1
        folder = tmp_path / f"killed{tries}"
        kills += run_and_kill(jobs, job_of(folder, kind, repeats, **options), seconds)
        assert content(folder) == wanted


def pairs(coded):
    return {
        key: (code.epoch, code.packed.tobytes(), np.array(code.refinement).tobytes())
        for ids, codes in coded
        for key, code in zip(ids.tolist(), codes, strict=True)
    }


def read(kind, path):
    if kind == "index":
        return load(path).items()
    bridge = pytest.importorskip("streambits.interop.faiss")
    return bridge.from_faiss(bridge.faiss.read_index_binary(str(path)), bits=20).items()


@pytest.mark.parametrize(("kind", "refine"), [("index", 0), ("index", 3), ("faiss", 0)])
def test_indexes_hold_the_same(kind, refine, jobs, tmp_path):
    seconds = timed(jobs, job_of(tmp_path / "alone", kind, repeats=True, refine=refine))
    wanted = pairs(read(kind, tmp_path / "alone" / "sink"))
    kills = tries = 0
    while kills < KILLS:
        tries += 1
        folder = tmp_path / f"killed{tries}"
        again = job_of(folder, kind, repeats=True, refine=refine)
        kills += run_and_kill(jobs, again, seconds)
        assert pairs(read(kind, folder / "sink")) == wanted
        assert [path.name for path in folder.glob(".*")] == []


@pytest.mark.parametrize("refine", [0, 3])
def test_a_table_holds_the_same(refine, jobs, tmp_path, postgres_url, table):
    name, ask = table
    columns = "code::text, refinement, epoch" if refine else "code::text, epoch"

    def held():
        return dict(ask(f"SELECT id, ({columns})::text FROM TABLE_"))

    job = job_of(tmp_path / "alone", "", repeats=True, rows=300, refine=refine)
    job["target"] = f"{postgres_url}?table={name}"
    seconds = timed(jobs, job)
    wanted, kills, tries = held(), 0, 0
    assert len(wanted) > 250
    while kills < KILLS:
        ask("DROP TABLE TABLE_")
        tries += 1
        again = job_of(tmp_path / f"killed{tries}", "", repeats=True, rows=300, refine=refine)
        kills += run_and_kill(jobs, again | {"target": job["target"]}, seconds)
        assert held() == wanted
