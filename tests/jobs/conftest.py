"""Commands run in this process, some beside what happens to them; rows that move."""

import gc
import io
import logging
import os
import signal
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
import typer.main
from pyarrow import parquet

from streambits.cli import app as cli
from streambits.io.rows import open_source
from streambits.jobs import reader
from streambits.jobs.folder import JobFolder
from streambits.model.batches import RowBatch


class Source:
    """Rows in memory, so many a chunk."""

    name = "memory"

    def __init__(self, rows, step=100):
        self.rows, self.length, self.step = rows, len(rows), step

    def identity(self):
        return self.name

    def read(self, offset=None):
        for start in range(offset or 0, len(self.rows), self.step):
            some = self.rows[start : start + self.step]
            yield RowBatch(np.arange(start, start + len(some)), some, start + len(some))


class Jobs:
    """Runs commands as a process would run them. said: what the last one has printed."""

    def __init__(self, app):
        self._app, self._out = app, io.StringIO()

    @property
    def said(self):
        return self._out.getvalue()

    def run(self, arguments, *, rows=500):
        """The exit code. rows: in a chunk of the source."""
        self._out, code = io.StringIO(), 0
        usual = open_source.__kwdefaults__
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cli, "app", self._app)
            patch.setattr(sys, "argv", ["streambits", *map(str, arguments)])
            patch.setattr(sys, "stdout", self._out)
            patch.setattr(sys, "stderr", self._out)
            patch.setattr(reader, "TOGETHER", rows)
            patch.setattr(open_source, "__kwdefaults__", {**usual, "rows": rows})
            warnings = logging.StreamHandler(self._out)  # as of a process without handlers
            warnings.setLevel(logging.WARNING)
            logging.getLogger().addHandler(warnings)
            try:
                cli.main()
            except SystemExit as stopped:
                code = stopped.code or 0
            finally:
                logging.getLogger().removeHandler(warnings)
        gc.collect()  # an error holds the sink, and so its lock, which the end of a process frees
        return code

    def whole(self, arguments):
        """Run to the end."""
        assert self.run(arguments) == 0, self.said

    def during(self, arguments, act, *, stop=False, which=signal.SIGTERM):
        """Run while act() is done beside it; the exit code. stop: then ask it to end."""
        over, wrong = threading.Event(), []

        def beside():
            try:
                act()
            except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
                wrong.append(error)
            while (stop or wrong) and not over.wait(0.1):
                os.kill(os.getpid(), which)

        before = signal.signal(which, lambda *_: None)  # one that comes too early or too late
        thread = threading.Thread(target=beside)
        thread.start()
        try:
            code = self.run(arguments)
        finally:
            over.set()
            thread.join()
            signal.signal(which, before)
        if wrong:
            raise wrong[0]
        return code

    def says(self, words):
        """Wait until it has said that, at most half a minute."""
        for _ in range(600):
            if words in self.said:
                return
            time.sleep(0.05)
        raise AssertionError(f"it has not said {words!r}, but {self.said}")


@pytest.fixture(scope="session")
def jobs():
    """The command line, as a function that knows what it printed."""
    return Jobs(typer.main.get_command(cli.app))


def _content(folder):
    """Bytes of all that a job leaves for others; of its codes the rows, in their order."""
    names = ("model.safetensors", "coders.safetensors", "rejects.jsonl")
    files = [folder / name for name in names if (folder / name).exists()]
    files += sorted((folder / "epochs").glob("*"))
    found = {str(file.relative_to(folder)): file.read_bytes() for file in files}
    if (folder / "codes").exists():
        found["codes"] = parquet.read_table(folder / "codes").to_pylist()
    return found


@pytest.fixture(scope="session")
def content():
    """content(folder): all that a job leaves for others."""
    return _content


def _committed(folder, rows):
    """Wait until a job has committed so many rows, at most half a minute."""
    found = None
    for _ in range(600):
        found = JobFolder(folder, {}).checkpoint()
        if found is not None and found.counts["rows"] >= rows:
            return
        time.sleep(0.05)
    raise AssertionError(f"{found and found.counts} are committed, not {rows} rows")


@pytest.fixture(scope="session")
def committed():
    """committed(folder, rows): wait for that."""
    return _committed


@pytest.fixture(scope="session")
def moving(mixture):
    """(9000, 8) rows that move in the middle; every 500th is bad."""
    rows = mixture(9000, seed=3)
    rows[4500:] += 8
    rows[77::500, 3] = np.nan
    return rows


def write_parquet(path, rows, group=1000):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(rows)), np.shape(rows)[1])
    parquet.write_table(pa.table({"v": lists}), path, row_group_size=group)


@pytest.fixture(scope="session")
def as_parquet():
    """as_parquet(path, rows)."""
    return write_parquet


@pytest.fixture(scope="session")
def moving_files(moving, tmp_path_factory):
    """The same in two Parquet files."""
    folder = tmp_path_factory.mktemp("moving")
    write_parquet(folder / "a.parquet", moving[:5200])
    write_parquet(folder / "b.parquet", moving[5200:])
    return folder
