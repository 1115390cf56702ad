"""Dask: 2 workers against 1, bytes that travel, memory of the scheduler, costs, and a large search.

    python -m benchmarks.engines                              # 5,000,000 x 64 rows, 16 partitions
    python -m benchmarks.engines --rows 200000 --only speed   # smaller, or some of it
    python -m benchmarks.engines --only search --codes 100000000 --shards 64

Rows are float32, normal around 100 centres, in .npy files that are made first, in --folder.
Learning has 500 landmarks and 64 bits and begins with `Settings`, so it reads the files twice: for
landmarks, and to learn. Workers have one thread each. Seconds are the best of the rounds, taken in
turns on clusters that stay up; starting them is not in it.

Traffic is what the workers' own counters say they have sent to each other, and the results that the
client fetches; beside it the bytes of one shard. The scheduler is a process of its own, whose
resident memory is asked for after jobs of more and more partitions.

The search writes codes of 64 random bits under sequential ids into Parquet files, asks the cluster
for 10 neighbours of 100 queries, and compares ids and distances with one index of all codes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import psutil

import streambits as sb
from benchmarks.timer import machine
from streambits.engines import dask
from streambits.engines.partitions import ArrayPartition, partition_files, survey
from streambits.engines.run import merge_bytes
from streambits.engines.shards import learn_partition
from streambits.io.codes.parquet import write_codes
from streambits.model.batches import CodeBatch
from streambits.storage import to_bytes

COLUMNS, LANDMARKS, BITS, CENTRES = 64, 500, 64, 100
SETTINGS = sb.Settings(bits=BITS, n_landmarks=LANDMARKS, method="ssbc")
QUERIES, K = 100, 10


def made(count: int, seed: int = 0) -> Any:
    """Rows around centres, which are the same for every seed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1234).standard_normal((CENTRES, COLUMNS), dtype=np.float32)
    rows = rng.standard_normal((count, COLUMNS), dtype=np.float32)
    return rows + 2 * centres[rng.integers(CENTRES, size=count)]


def write_rows(folder: Path, rows: int, partitions: int) -> str:
    """Files of rows, unless they are there."""
    folder = folder / f"rows-{rows}-{partitions}"
    folder.mkdir(parents=True, exist_ok=True)
    for number, count in enumerate(np.diff(np.linspace(0, rows, partitions + 1).astype(int))):
        path = folder / f"{number:05d}.npy"
        if not path.exists():
            np.save(path, made(int(count), number))
    return str(folder / "*.npy")


def best(seconds: list[float]) -> str:
    return f"{min(seconds):.2f} s (of {', '.join(f'{s:.2f}' for s in seconds)})"


def speed(folder: Path, rows: int, partitions: int, rounds: int) -> None:
    """Seconds of 1 and of 2 workers."""
    where = write_rows(folder, rows, partitions)
    taken: dict[tuple[str, int], list[float]] = {}
    models = set()
    with ExitStack() as stack:
        clients = {n: stack.enter_context(dask.local_cluster(n)) for n in (1, 2)}
        for client in clients.values():  # compiled code is loaded, files are in memory
            warm = dask.learn(client, where, SETTINGS)
        coder = warm.coder()
        for turn in range(rounds):
            for n, client in clients.items():
                start = time.perf_counter()
                models.add(to_bytes(dask.learn(client, where, SETTINGS)))
                taken.setdefault(("learn", n), []).append(time.perf_counter() - start)
                with tempfile.TemporaryDirectory(dir=folder) as out:
                    start = time.perf_counter()
                    dask.encode(client, coder, where, Path(out) / f"codes{turn}")
                    taken.setdefault(("encode", n), []).append(time.perf_counter() - start)
    same = len(models) == 1
    print(f"\n{rows:,} x {COLUMNS} rows, {partitions} partitions; models are equal: {same}")
    for verb in ("learn", "encode"):
        one, two = taken[verb, 1], taken[verb, 2]
        ratio = min(one) / min(two)
        print(f"{verb}: 1 worker {best(one)}, 2 workers {best(two)}, ratio {ratio:.2f}", flush=True)


@contextmanager
def cluster(workers: int) -> Iterator[distributed.Client]:
    """A scheduler and workers, each a process of its own."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "scheduler.json"
        here = ["--host", "127.0.0.1", "--scheduler-file", str(file)]
        calls = [["dask_scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0", *here]]
        more = ["--nthreads", "1", "--no-dashboard", "--no-nanny"]
        calls += [["dask_worker", *more, *here]] * workers
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        for module, *arguments in calls:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen(command, env=os.environ | threads, **quiet)  # type: ignore[call-overload]
            stack.callback(process.wait)
            stack.callback(process.kill)
            while not file.exists():
                time.sleep(0.1)
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
            yield client


def _memory() -> int:
    return int(psutil.Process().memory_info().rss)


def _sent(dask_worker: Any) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)


def traffic(folder: Path, rows: int, partitions: list[int]) -> None:
    """Bytes between workers, and the memory of the scheduler, for more and more partitions."""
    print(
        "\n| partitions | rows each | sent between workers | per partition | a shard | scheduler |"
    )
    print("|---:|---:|---:|---:|---:|---:|")
    begin = SETTINGS.learner([made(5000, 10**6)])
    with cluster(2) as client:
        before = client.run_on_scheduler(_memory)
        for count in partitions:
            where = write_rows(folder, rows, count)
            shard = len(to_bytes(learn_partition(begin, partition_files(where)[0])))
            start = sum(client.run(_sent).values())
            dask.learn(client, where, begin)
            sent = sum(client.run(_sent).values()) - start
            memory = client.run_on_scheduler(_memory)
            each, more = sent / count / 1e6, (memory - before) / 1e6
            print(
                f"| {count} | {rows // count:,} | {sent / 1e6:.1f} MB | {each:.2f} MB "
                f"| {shard / 1e6:.2f} MB | {memory / 1e6:.0f} MB ({more:+.0f}) |",
                flush=True,
            )


def costs(rows: int) -> None:
    """Seconds per row, per merge and per byte, in one thread."""
    some = made(rows)
    begin = SETTINGS.learner([some[:5000]])

    def timed(work: Any) -> tuple[float, Any]:
        work()
        start = time.perf_counter()
        found = work()
        return time.perf_counter() - start, found

    one = ArrayPartition(0, some)
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    with threadpool_limits(1):
        sampling, _ = timed(lambda: survey(one, SETTINGS.gathered))
        learning, shard = timed(lambda: learn_partition(begin, one))
        other = to_bytes(learn_partition(begin, ArrayPartition(1, some[::-1])))
        data = to_bytes(shard)
        merging, _ = timed(lambda: merge_bytes(data, other))
        coder = shard.learner.coder()
        encoding, _ = timed(lambda: coder.encode(some))
        packing, _ = timed(lambda: sb.from_bytes(to_bytes(shard)))
    shape = f"{COLUMNS} columns, {LANDMARKS} landmarks, {BITS} bits, {rows:,} rows"
    print(f"\ncosts by one thread, {shape}:")
    print(
        f"sample {1e6 * sampling / rows:.3f} us per row, learn {1e6 * learning / rows:.3f}, ",
        end="",
    )
    print(f"encode {1e6 * encoding / rows:.3f}; merge {1e3 * merging:.1f} ms ", end="")
    print(f"(packing and checks included); a shard is {len(data):,} bytes, ", end="")
    print(f"and to_bytes and from_bytes take {1e9 * packing / len(data):.2f} ns per byte")
    print(f"(reading rows is not in it: {4 * COLUMNS} bytes per row)", flush=True)


def search(folder: Path, codes: int, shards: int) -> None:
    """Whether shards answer as one index, and how fast."""
    folder = folder / f"codes-{codes}-{shards}"
    folder.mkdir(parents=True, exist_ok=True)
    starts = np.linspace(0, codes, shards + 1).astype(int).tolist()
    every = np.empty((codes, BITS // 8), np.uint8)
    for number, (start, stop) in enumerate(pairwise(starts)):
        rng = np.random.default_rng([number, codes])
        every[start:stop] = rng.integers(0, 256, (stop - start, BITS // 8), dtype=np.uint8)
        path = folder / f"part-{number:06d}.parquet"
        if not path.exists():
            batch = CodeBatch(np.arange(start, stop), sb.Codes(every[start:stop], BITS))
            write_codes([batch], BITS, path)
    size = sum(path.stat().st_size for path in folder.iterdir())
    drawn = np.random.default_rng(7).integers(0, 256, (QUERIES, BITS // 8), dtype=np.uint8)
    queries = sb.Codes(drawn, BITS)
    with dask.local_cluster(2) as client:
        start = time.perf_counter()
        found = dask.search(client, folder, queries, K)
        seconds = time.perf_counter() - start
    index = sb.HammingIndex(BITS, strategy="scan")
    index.add(sb.Codes(every, BITS))
    begun = time.perf_counter()
    wanted = index.search(queries, K)
    alone = time.perf_counter() - begun
    equal = (found.ids == wanted.ids).all() and (found.distances == wanted.distances).all()
    print(
        f"\n{codes:,} codes in {shards} shards of {size / 1e9:.2f} GB, {QUERIES} queries, k = {K}:"
    )
    print(
        f"ids and distances are those of one index: {bool(equal)}; 2 workers {seconds:.1f} s, ",
        end="",
    )
    print(f"files read and indexes built; the one index in memory {alone:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("speed", "traffic", "costs", "search")
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "streambits-engines"
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codes", type=int, default=100_000_000)
    parser.add_argument("--shards", type=int, default=64)
    options = parser.parse_args()
    print(f"{machine()}, dask {distributed.__version__}, load {os.getloadavg()[0]:.1f}")
    if "speed" in options.only:
        speed(options.folder, options.rows, options.partitions, options.rounds)
    if "traffic" in options.only:
        traffic(options.folder, min(options.rows, 1_024_000), [16, 64, 256])
    if "costs" in options.only:
        costs(min(options.rows, 400_000))
    if "search" in options.only:
        search(options.folder, options.codes, options.shards)


if __name__ == "__main__":
    main()
