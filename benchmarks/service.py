"""The service on the loopback device: searches, ingestion and mixed traffic.

    python -m benchmarks.service [--minutes 1] [--codes 1000000] [--columns 32]

Searches are compared with a bare FastAPI endpoint that reads and writes bodies of the same size,
ingestion with `StreamIndex.add` on a folder; both take turns with what they are compared with. All
of it runs on one machine, so the load is made by the same cores that answer it.
"""

import argparse
import asyncio
import json
import multiprocessing as mp
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streambits import StreamIndex
from streambits.service import Client

TOKEN = "a-token-for-the-benchmark"
RAW = "application/octet-stream"
ROUNDS, SECONDS = 3, 4.0
LINKS = 32  # connections of the load
BARE = """
import sys, uvicorn
from fastapi import FastAPI, Request, Response
app = FastAPI()
ANSWER = b"x" * int(sys.argv[2])
@app.post("/v1/search")
async def search(request: Request):
    await request.body()
    return Response(ANSWER, media_type="application/json")
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""
SERVE = "from streambits.cli.app import main; main()"


class Load(NamedTuple):
    """Requests per second, and how long they took in milliseconds."""

    rate: float
    p50: float
    p99: float
    statuses: dict[int, int]


def request(path: str, body: bytes, method: str = "POST") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: {RAW}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _one(port: int, asked: list[bytes], end: float, found: list[tuple[int, float]]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    i = 0
    while time.perf_counter() < end:
        started = time.perf_counter()
        writer.write(asked[i % len(asked)])
        i += 1
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        found.append((int(head[9:12]), time.perf_counter() - started))
    writer.close()


async def _load(port: int, asked: list[bytes], seconds: float, links: int) -> Load:
    found: list[tuple[int, float]] = []
    started = time.perf_counter()
    each = [asked[i::links] or asked for i in range(links)]
    await asyncio.gather(*(_one(port, part, started + seconds, found) for part in each))
    took = time.perf_counter() - started
    return summary(found, took)


def summary(found: list[tuple[int, float]], took: float) -> Load:
    times = np.array([t for _, t in found]) * 1e3
    statuses: dict[int, int] = {}
    for status, _ in found:
        statuses[status] = statuses.get(status, 0) + 1
    p50, p99 = np.percentile(times, [50, 99]) if len(times) else (0.0, 0.0)
    return Load(statuses.get(200, 0) / took, float(p50), float(p99), statuses)


def load(port: int, asked: list[bytes], seconds: float = SECONDS, links: int = LINKS) -> Load:
    """Send requests over some connections, each the next when it has an answer."""
    return asyncio.run(_load(port, asked, seconds, links))


class Server:
    """A process that serves."""

    def __init__(self, *command: str) -> None:
        variables = os.environ | {"STREAMBITS_TOKEN": TOKEN}
        self.process = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, text=True, env=variables
        )

    def stop(self) -> int:
        """End it; the exit code."""
        self.process.terminate()
        return self.process.wait()


def serve(folder: Path, *options: str) -> tuple[Server, int]:
    server = Server("-c", SERVE, "serve", str(folder), "--port", "0", *options)
    assert server.process.stdout is not None
    return server, int(server.process.stdout.readline().rpartition(":")[2])


def free_port() -> int:
    import socket  # noqa: PLC0415

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(port: int) -> None:
    import socket  # noqa: PLC0415

    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


def built(folder: Path, rows: NDArray[np.float32], count: int) -> None:
    with StreamIndex.open(folder, bits=64, n_landmarks=200) as index:
        for start in range(0, count, 20_000):
            some = rows[np.arange(start, start + 20_000) % len(rows)] + np.float32(start / 1e9)
            index.add(some, np.arange(start, start + 20_000))


def searches(folder: Path, rows: NDArray[np.float32], columns: int) -> None:
    """Requests per second of one query each, beside a bare endpoint."""
    server, port = serve(folder)
    queries = [rows[i : i + 1].tobytes() for i in range(1000)]
    with Client(f"http://127.0.0.1:{port}", TOKEN) as client:
        count = client.status()["rows"]
        size = len(json.dumps(client.search(rows[:1], 10).ids.tolist())) * 2
    bare_port = free_port()
    bare = Server("-c", BARE, str(bare_port), str(size))
    wait_for(bare_port)
    plain = [request("/v1/search", body) for body in queries]
    try:
        for by in ("default", "hamming"):
            asked = [request(f"/v1/search?k=10&columns={columns}&by={by}", b) for b in queries]
            load(port, asked)
            pairs = [(load(port, asked), load(bare_port, plain)) for _ in range(ROUNDS)]
            ratio = statistics.median(ours.rate / other.rate for ours, other in pairs)
            ours, other = pairs[-1]
            print(
                f"search, {count:,} codes, by {by}: {ours.rate:,.0f} requests per second "
                f"(p50 {ours.p50:.1f} ms, p99 {ours.p99:.1f} ms, {ours.statuses}); bare FastAPI "
                f"{other.rate:,.0f}; ratio {ratio:.2f} (bar 0.5)",
                flush=True,
            )
    finally:
        bare.stop()
        print("exit code of the service:", server.stop())


def ingestion(place: Path, rows: NDArray[np.float32], columns: int, links: int) -> None:
    """Rows per second through HTTP, 1,000 per request, beside `StreamIndex.add`."""
    blocks = [rows[start : start + 1000] for start in range(0, 50_000, 1000)]
    ids = [np.arange(start, start + 1000) for start in range(0, 50_000, 1000)]
    ratios = []
    for turn in range(ROUNDS):
        own = place / f"own-{turn}"
        with StreamIndex.open(own, bits=64, n_landmarks=200) as index:
            index.add(np.concatenate(blocks[:10]), np.arange(10_000))
            started, done = time.perf_counter(), 0
            while time.perf_counter() - started < SECONDS:
                index.add(blocks[done % 50], ids[done % 50])
                done += 1
            alone = 1000 * done / (time.perf_counter() - started)
        server, port = serve(place / f"http-{turn}", "--bits", "64", "--set", "n_landmarks=200")
        path = f"/v1/rows?columns={columns}&ids=int64"
        asked = [request(path, i.tobytes() + b.tobytes()) for i, b in zip(ids, blocks, strict=True)]
        load(port, asked[:10], 1.0, 1)
        found = load(port, asked, SECONDS, links)
        server.stop()
        ratios.append(1000 * found.rate / alone)
    print(
        f"ingestion, 1,000 rows per request, {links} connections: {1000 * found.rate:,.0f} rows "
        f"per second (p99 {found.p99:.0f} ms, {found.statuses}); StreamIndex.add {alone:,.0f}; "
        f"ratio {statistics.median(ratios):.2f} (bar 0.6)",
        flush=True,
    )


def mixed(place: Path, rows: NDArray[np.float32], columns: int, minutes: float) -> None:
    """Searches, additions and removals at once: errors, memory and times."""
    server, port = serve(place / "mixed", "--bits", "64", "--set", "n_landmarks=200")
    raw = f"columns={columns}"
    # ids are drawn from 100,000, so that the number of rows settles
    rng = np.random.default_rng(1)
    add, gone, seek = [], [], []
    for _ in range(200):
        ids = rng.integers(0, 100_000, 200)
        some = rows[rng.integers(0, len(rows), 200)]
        add.append(request(f"/v1/rows?{raw}&ids=int64", ids.tobytes() + some.tobytes()))
        gone.append(request("/v1/rows", rng.integers(0, 100_000, 50).tobytes(), "DELETE"))
        seek.append(
            request(f"/v1/search?{raw}&k=10", rows[rng.integers(0, len(rows), 1)].tobytes())
        )
    memory: list[int] = []
    for turn in range(max(2, round(minutes * 6))):
        with mp.get_context("fork").Pool(1) as pool:
            writes = pool.apply_async(load, (port, [*add, *gone], 10.0, 4))
            found = load(port, seek, 10.0, 8)
            changed = writes.get()
        with Client(f"http://127.0.0.1:{port}", TOKEN) as client:
            status = client.status()
        memory.append(status["memory"])
        print(
            f"mixed, {10 * turn + 10} s: search {found.rate:,.0f}/s p50 {found.p50:.0f} p99 "
            f"{found.p99:.0f} ms {found.statuses}; changes {changed.rate:,.0f}/s p50 "
            f"{changed.p50:.0f} p99 {changed.p99:.0f} ms {changed.statuses}; "
            f"{status['rows']:,} rows, {memory[-1] >> 20} MiB",
            flush=True,
        )
    warm = memory[len(memory) // 3 :]
    print(
        f"mixed: memory after warm-up {min(warm) >> 20} to {max(warm) >> 20} MiB "
        f"({max(warm) / min(warm) - 1:.1%}); exit code {server.stop()}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--codes", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--only", choices=("search", "ingestion", "mixed"))
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200_000, options.columns), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if options.only in (None, "search"):
            built(place / "index", rows, options.codes)
            searches(place / "index", rows, options.columns)
        if options.only in (None, "ingestion"):
            for links in (1, 4):
                ingestion(place / str(links), rows, options.columns, links)
        if options.only in (None, "mixed"):
            mixed(place, rows, options.columns, options.minutes)


if __name__ == "__main__":
    main()
