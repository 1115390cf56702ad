"""What an epoch costs a job of `streambits online`: memory, checkpoint and commits over 400 epochs.

    python benchmarks/epochs_growth.py [--epochs 400] [--columns 16] [--n-landmarks 50]

A stream of random rows with a new epoch every 600 of them, and commits every 24,000. At every
commit: rows, epoch, resident memory, size of the checkpoint, and how long the commit took. Then
the time of a search of five queries over all epochs, twice: the second finds them in memory.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import streambits as sb
from streambits.io.codes import open_sink
from streambits.io.codes.parquet import read_codes
from streambits.io.rows import open_source
from streambits.jobs.folder import JobFolder
from streambits.jobs.job import Job, Pace
from streambits.jobs.progress import Progress
from streambits.jobs.rejects import Rejects
from streambits.jobs.work import Online
from streambits.methods.settings import Settings

BITS, EVERY, COMMIT = 32, 600, 24_000


class Timed(JobFolder):
    """Takes the time of every checkpoint."""

    seconds = 0.0

    def commit(self, checkpoint: Any) -> None:
        """As it is, with a look at the clock."""
        start = time.perf_counter()
        super().commit(checkpoint)
        self.seconds = time.perf_counter() - start


def resident() -> float:
    """Resident memory in MB, as Linux tells it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def run(rows: Path, out: Path, landmarks: int) -> None:
    settings = Settings(BITS, n_landmarks=landmarks, epochs=EVERY).checked()
    with Timed(out, {}) as folder:

        def tell(event: str, standing: Progress) -> None:
            if event == "commit":
                size = folder.checkpoint_file.stat().st_size
                print(
                    f"rows {standing.rows:8,}  epoch {standing.epoch:4}  "
                    f"resident {resident():5.0f} MB  checkpoint {size / 1024:7,.0f} KiB  "
                    f"commit {1e3 * folder.seconds:6.1f} ms",
                    flush=True,
                )

        sink = open_sink(f"parquet:{folder.codes}", BITS)
        work, rejects = Online(settings), Rejects(None, skip=False)
        source = open_source(rows)
        Job(source, work, sink, rejects, folder, pace=Pace(COMMIT), watchers=[tell]).run()


def search(out: Path, queries: Any) -> None:
    index, coders = sb.HammingIndex(BITS), sb.load(out / "coders.safetensors")
    for ids, codes in read_codes(out / "codes"):
        index.add(codes, ids)
    for which in ("first", "second"):
        start = time.perf_counter()
        coders.search(index, queries, 10)
        seconds = time.perf_counter() - start
        print(f"{which} search of {len(queries)} queries, {len(coders)} epochs: {seconds:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--columns", type=int, default=16)
    parser.add_argument("--n-landmarks", type=int, default=50)
    options = parser.parse_args()
    shape = (EVERY * options.epochs, options.columns)
    rows = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "rows.npy", rows)
        queries = rows[:5].copy()
        del rows
        run(Path(folder) / "rows.npy", Path(folder) / "job", options.landmarks)
        search(Path(folder) / "job", queries)


if __name__ == "__main__":
    main()
