"""`streambits online` over a large Parquet file: peak memory, whether it is flat, and speed.

    python benchmarks/jobs.py [--rows 10000000]

The file (64 columns, float32, made in a temporary folder) is read by the command in a process of
its own, whose resident memory is looked at while it runs. Its speed is compared with `learn` and
`encode` of rows that are in memory already, in turns with it, on the same machine.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import streambits as sb

COLUMNS, BITS, LANDMARKS, PIECE = 64, 64, 500, 200_000


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
    """Rows a second of `learn` and `encode`, and a second of the processor."""
    rows = np.concatenate([rows_of(piece) for piece in range(3)])
    start, used = time.perf_counter(), time.process_time()
    learner = sb.ssbc(rows[:LANDMARKS], BITS).learn(rows)
    learner.coder().encode(rows)
    count = len(rows)
    return count / (time.perf_counter() - start), count / (time.process_time() - used)


def resident(process: int) -> float:
    """Resident memory of a process in MB, as Linux tells it."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def online(path: Path, out: Path, *more: str) -> tuple[float, list[float]]:
    """Rows a second of the command, and its resident memory in MB, every half second."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--online", nargs="*", default=[], help="more for the command, without --")
    options = parser.parse_args()
    more = [f"--{word}" if i % 2 == 0 else word for i, word in enumerate(options.online)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        make(path, options.rows)
        print(f"{options.rows:,} x {COLUMNS} float32 rows, {path.stat().st_size / 1e9:.2f} GB")
        before, busy = in_memory()
        speed, seen = online(path, Path(folder) / "job", *more)
        after, busy_after = in_memory()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = options.rows / (used.ru_utime + used.ru_stime)
    half = len(seen) // 2
    print(f"peak resident memory  {max(seen):8.0f} MB")
    print(f"  first half, second  {max(seen[:half]):8.0f} MB {max(seen[half:]):8.0f} MB")
    print(f"online                {speed:8,.0f} rows/s")
    print(f"in memory             {before:8,.0f} rows/s before, {after:,.0f} after")
    print(f"ratio                 {2 * speed / (before + after):8.2f}")
    print(f"ratio by processor    {2 * own / (busy + busy_after):8.2f}")


if __name__ == "__main__":
    main()
