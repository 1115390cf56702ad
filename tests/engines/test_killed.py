"""Workers that are killed in the middle: the job completes, and is the same to the byte.

2 kills; with STREAMBITS_SLOW=1 20.
"""

import os
import signal
import threading
import time

import numpy as np
import pytest

import streambits as sb
from streambits.engines import dask as engine

pytestmark = pytest.mark.slow
KILLS = 20 if os.environ.get("STREAMBITS_SLOW") else 2
SETTINGS = sb.Settings(bits=16, n_landmarks=60, refine=2)
PARTITIONS = 16


class Killer(threading.Thread):
    """Kills a worker process after some time, unless the job is over before."""

    def __init__(self, process, seconds):
        super().__init__()
        self.process, self.seconds, self.killed = process, seconds, False
        self.over = threading.Event()

    def run(self):
        if not self.over.wait(self.seconds):
            os.kill(self.process, signal.SIGKILL)
            self.killed = True

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def job(client, where, folder):
    """Learn and encode; what is killed in the middle may be either."""
    learner = engine.learn(client, where, SETTINGS, folder=folder / "model")
    parts = engine.encode(client, learner.coder(), where, folder / "codes")
    assert [part.number for part in parts] == list(range(PARTITIONS))


def test_a_worker_is_killed_at_random_moments(tmp_path, mixture, cluster, *, files, content):
    """Each in a cluster of its own: Dask does not always start a worker again that was killed."""
    rows = mixture(PARTITIONS * 4000)
    where = files(rows, PARTITIONS)
    rng = np.random.default_rng(0)
    job(cluster, where, tmp_path / "warm")
    start = time.monotonic()
    job(cluster, where, tmp_path / "alone")
    seconds = time.monotonic() - start
    wanted = content(tmp_path / "alone")
    assert sum(name.startswith("codes/codes/part-") for name in wanted) == PARTITIONS
    kills = tries = 0
    while kills < KILLS:
        tries += 1
        assert tries <= 3 * KILLS
        folder = tmp_path / f"killed{tries}"
        with engine.local_cluster(2) as client:
            process = rng.choice(sorted(client.run(os.getpid).values()))
            with Killer(process, rng.uniform(0, 1.5 * seconds)) as killer:
                job(client, where, folder)
        kills += killer.killed
        found = content(folder)
        assert found.keys() == wanted.keys()  # nothing missing, doubled or left over
        assert [name for name in wanted if found[name] != wanted[name]] == []
