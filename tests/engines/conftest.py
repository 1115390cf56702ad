"""Clusters of Dask, files of rows, and what one process makes of partitions."""

import distributed
import numpy as np
import pytest

import streambits as sb
from streambits.engines.partitions import ArrayPartition, sample_partition
from streambits.engines.shards import MergeTree, finished, learn_partition


@pytest.fixture(scope="session")
def client():
    """A client of two workers of two threads each, in this process."""
    with distributed.Client(
        processes=False, n_workers=2, threads_per_worker=2, dashboard_address="127.0.0.1:0"
    ) as client:
        yield client


@pytest.fixture(scope="session")
def cluster():
    """cluster(n): so many worker processes on the loopback device, of one thread each."""

    def cluster(workers):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        )

    return cluster


@pytest.fixture(scope="session")
def arrays():
    """arrays(rows, cuts): partitions of rows that are in memory."""
    return lambda rows, cuts: [
        ArrayPartition(number, part) for number, part in enumerate(np.split(rows, cuts))
    ]


@pytest.fixture(scope="session")
def learn_here():
    """learn_here(partitions, learner or settings): what one process learns, as a cluster must."""

    def learn_here(partitions, learner):
        if isinstance(learner, sb.Settings):
            settings = learner.checked()
            tree = MergeTree(len(partitions))
            for one in partitions:
                tree.add(one.number, sample_partition(one, settings.gathered, settings.seed))
            learner = settings.learner([tree.result().rows])
        tree = MergeTree(len(partitions))
        for one in partitions:
            tree.add(one.number, learn_partition(learner, one))
        return finished(learner, tree.result())

    return learn_here


@pytest.fixture
def files(tmp_path):
    """files(rows, count): so many .npy files of rows, and their glob."""

    def files(rows, count):
        (tmp_path / "parts").mkdir()
        for number, part in enumerate(np.array_split(rows, count)):
            np.save(tmp_path / f"parts/part{number:03d}.npy", part)
        return str(tmp_path / "parts/*.npy")

    return files
