"""The files that one row of a Parquet file passes in `streambits online`, as docs/design.md says.

Counted are files of the package in which a Python function was entered, by any thread, while some
batches went through a job that had been set up long before: no refresh, commit or report.
"""

import re
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import streambits
from streambits.io.rows import open_source
from streambits.jobs import job as jobs
from streambits.jobs.work import Online

PACKAGE = Path(streambits.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "design.md"
BATCH, BATCHES = 8192, 22
FIRST, LAST = 9, 13  # batches that are watched: after 65,536 rows, where refreshes are rare


class Entered:
    """Files of the package that threads enter while it is on."""

    def __init__(self):
        self.on, self.files = False, set()

    def __call__(self, frame, event, _argument):
        if self.on and event == "call":
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(PACKAGE):
                self.files.add(path.relative_to(PACKAGE).as_posix())


@pytest.fixture
def entered():
    found = Entered()
    before = sys.getprofile()
    threading.setprofile(found)
    sys.setprofile(found)
    yield found
    sys.setprofile(before)
    threading.setprofile(None)


class Watched(Online):
    """Switches the profile on for some batches."""

    def __init__(self, settings, entered):
        super().__init__(settings)
        self._entered, self._batches = entered, 0

    def process(self, batch):
        self._batches += 1
        self._entered.on = FIRST <= self._batches < LAST
        yield from super().process(batch)


def test_files_that_a_row_passes(entered, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "REPORT", 1e9)
    rows = np.random.default_rng(0).random((BATCH * BATCHES, 8), dtype=np.float32)
    columns = {"id": np.arange(len(rows)), "vector": list(rows)}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=BATCH)
    settings = streambits.Settings(bits=16, n_landmarks=50).checked()
    plan = jobs.JobPlan(
        verb="online",
        source=open_source(tmp_path / "rows.parquet", ids="id"),
        work=Watched(settings, entered),
        settings=settings.plain(),
        out=tmp_path / "job",
        bits=16,
    )
    jobs.run_job(plan)
    section = PAGE.read_text().partition("## The way of one row")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\S+?\.py)`", section, re.MULTILINE)
    if sys.version_info >= (3, 12):  # numba does not tell a profile there what it enters
        listed = [name for name in listed if not name.startswith("kernels/")]
    assert sorted(entered.files) == sorted(listed)
