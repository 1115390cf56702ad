"""`streambits online`: speed and memory over a large Parquet file, and what an epoch costs a job.

    python -m benchmarks.jobs rows [--rows 10000000]
    python -m benchmarks.jobs epochs [--epochs 400] [--columns 16] [--n-landmarks 50]

rows: the file (64 columns, float32, made in a temporary folder) is read by the command in a
process of its own, whose resident memory is looked at while it runs. Its speed is compared with
`learn` and `encode` of rows in memory, once before it and once after it, on the same machine.

epochs: a stream of random rows with a new epoch every 600 of them, and commits every 24,000. At
every commit: rows, epoch, resident memory, size of the checkpoint, and how long the commit took.
Then the time of a search of five queries over all epochs, twice: the second finds them in memory.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import streambits as sb
from benchmarks.timer import machine, seconds
from streambits.io.codes import open_sink
from streambits.io.codes.parquet import read_codes
from streambits.io.rows import open_source
from streambits.jobs.folder import JobFolder
from streambits.jobs.job import Job, Pace
from streambits.jobs.progress import Progress
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Online
from streambits.methods.settings import Settings

COLUMNS, BITS, LANDMARKS, PIECE = 64, 64, 500, 200_000
SHORT, EVERY, COMMIT = 32, 600, 24_000  # of the job with many epochs: bits, rows


def rows_of(piece: int) -> np.ndarray:
    """Rows around fifty centres."""
    centres = np.random.default_rng(0).uniform(-2, 2, (50, COLUMNS)).astype(np.float32)
    rng = np.random.default_rng([1, piece])
    noise = rng.standard_normal((PIECE, COLUMNS), dtype=np.float32)
    return centres[rng.integers(50, size=PIECE)] + noise


def make(path: Path, rows: int) -> None:
    kind = pa.list_(pa.float32(), COLUMNS)
    schema = pa.schema([pa.field("vector", kind)])
    with parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for piece in range(rows // PIECE):
            values = pa.array(rows_of(piece).ravel())
            lists = pa.FixedSizeListArray.from_arrays(values, COLUMNS)
            writer.write_table(pa.Table.from_arrays([lists], schema=schema), PIECE // 4)


def in_memory() -> tuple[float, float]:
    """Rows per second of `learn` and `encode`, and per second of the processor."""
    rows = np.concatenate([rows_of(piece) for piece in range(3)])

    def work() -> None:
        sb.ssbc(rows[:LANDMARKS], BITS).learn(rows).coder().encode(rows)

    used = time.process_time()
    taken = seconds(work)
    return len(rows) / taken, len(rows) / (time.process_time() - used)


def resident(process: int) -> float:
    """Resident memory of a process in MB, as Linux tells it."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def online(path: Path, out: Path, *more: str) -> tuple[float, list[float]]:
    """Rows per second of the command, and its resident memory in MB, every half second."""
    code = "import sys; from streambits.cli.app import main; sys.argv[0] = 'streambits'; main()"
    command = [sys.executable, "-c", code, "online", str(path), "--quiet", "--json"]
    command += ["--bits", str(BITS), "--n-landmarks", str(LANDMARKS), "--out", str(out), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        seen = []
        while process.poll() is None:
            seen.append(resident(process.pid))
            time.sleep(0.5)
        assert process.stdout is not None
        summary = json.loads(process.stdout.read())
    return float(summary["rows_per_second"]), seen[:-1]


def of_rows(folder: Path, count: int, more: list[str]) -> None:
    path = folder / "rows.parquet"
    make(path, count)
    print(f"{count:,} x {COLUMNS} float32 rows, {path.stat().st_size / 1e9:.2f} GB")
    before, busy = in_memory()
    speed, seen = online(path, folder / "job", *more)
    after, busy_after = in_memory()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = count / (used.ru_utime + used.ru_stime)
    half = len(seen) // 2
    print(f"peak resident memory  {max(seen):8.0f} MB")
    print(f"  first half, second  {max(seen[:half]):8.0f} MB {max(seen[half:]):8.0f} MB")
    print(f"online                {speed:8,.0f} rows/s")
    print(f"in memory             {before:8,.0f} rows/s before, {after:,.0f} after")
    print(f"ratio                 {2 * speed / (before + after):8.2f}")
    print(f"ratio by processor    {2 * own / (busy + busy_after):8.2f}")


class Timed(JobFolder):
    """Takes the time of every checkpoint."""

    seconds = 0.0

    def commit(self, checkpoint: Any) -> None:
        """As it is, with a look at the clock."""
        self.seconds = seconds(lambda: super(Timed, self).commit(checkpoint))


def of_epochs(folder: Path, epochs: int, columns: int, landmarks: int) -> None:
    rng = np.random.default_rng(0)
    np.save(folder / "rows.npy", rng.standard_normal((EVERY * epochs, columns), dtype=np.float32))
    queries = np.load(folder / "rows.npy", mmap_mode="r")[:5].copy()
    settings = Settings(SHORT, n_landmarks=landmarks, epochs=EVERY).checked()
    with Timed(folder / "job", {}) as job:

        def tell(event: str, progress: Progress) -> None:
            if event == "commit":
                size = job.checkpoint_file.stat().st_size
                print(
                    f"rows {progress.rows:8,}  epoch {progress.epoch:4}  "
                    f"resident {resident(os.getpid()):5.0f} MB  checkpoint {size / 1024:7,.0f} KiB"
                    f"  commit {1e3 * job.seconds:6.1f} ms",
                    flush=True,
                )

        sink = open_sink(job.codes, SHORT)
        work, rejects = Online(settings), Rejects(None, skip=False)
        source = open_source(folder / "rows.npy")
        Job(source, work, sink, rejects, job, pace=Pace(COMMIT), watchers=[tell]).run()
    search(folder / "job", queries)


def search(out: Path, queries: Any) -> None:
    index, coders = sb.HammingIndex(SHORT), sb.load(out / "coders.safetensors")
    for ids, codes in read_codes(out / "codes"):
        index.add(codes, ids)
    for which in ("first", "second"):
        taken = seconds(lambda: coders.search(index, queries, 10))
        print(f"{which} search of {len(queries)} queries, {len(coders)} epochs: {taken:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    verbs = parser.add_subparsers(dest="verb", required=True)
    rows, epochs = verbs.add_parser("rows"), verbs.add_parser("epochs")
    rows.add_argument("--rows", type=int, default=10_000_000)
    rows.add_argument("--online", nargs="*", default=[], help="more for the command, without --")
    epochs.add_argument("--epochs", type=int, default=400)
    epochs.add_argument("--columns", type=int, default=16)
    epochs.add_argument("--n-landmarks", type=int, default=50)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        if options.verb == "rows":
            words = [f"--{word}" if i % 2 == 0 else word for i, word in enumerate(options.online)]
            of_rows(Path(name), options.rows, words)
        else:
            of_epochs(Path(name), options.epochs, options.columns, options.n_landmarks)


if __name__ == "__main__":
    main()
