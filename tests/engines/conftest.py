"""A cluster of two workers, files of rows, and what lies in a folder."""

import numpy as np
import pytest

from streambits.engines import dask as engine


@pytest.fixture(scope="session")
def cluster():
    """A client of two worker processes on the loopback device, of one thread each."""
    with engine.local_cluster(2) as client:
        yield client


@pytest.fixture
def files(tmp_path):
    """files(rows, count): so many .npy files of rows, and their glob."""

    def files(rows, count, name="part"):
        folder = tmp_path / f"{name}s"
        folder.mkdir()
        for number, part in enumerate(np.array_split(rows, count)):
            np.save(folder / f"{name}{number:03d}.npy", part)
        return str(folder / "*.npy")

    return files


@pytest.fixture
def content():
    """content(folder): the bytes of all files in it but the lock."""

    def content(folder):
        found = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in found
            if path.name != "lock"
        }

    return content
