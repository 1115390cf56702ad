"""A table whose writer is killed at random moments, and started again until it is done.

Parquet parts: `test_parquet_sink.py`, and jobs that are killed.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

KILLS = 100 if os.environ.get("STREAMBITS_SLOW") else 3
WORK = """
import json, sys
from pathlib import Path
import numpy as np
from streambits import Codes
from streambits._files import replacing
from streambits.io.codes import open_sink

target, kept, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
rng = np.random.default_rng(0)
codes = Codes.from_bits(rng.random((3000, 20)) < 0.5)
if options.get("refine"):
    codes = Codes(codes.packed, 20, 0, rng.integers(0, 256, (3000, options["refine"]), np.uint8))
ids = rng.integers(1000, size=3000)
sink = open_sink(target, 20, **options)

def keep(rows):
    with replacing(kept) as file:
        file.write(json.dumps({"rows": rows, "state": sink.state()}).encode())

if kept.exists():
    before = json.loads(kept.read_bytes())
    sink.resume(before["state"])
else:
    before = {"rows": 0}
    keep(0)
print("begins", flush=True)
for start in range(before["rows"], 3000, 60):
    sink.write(ids[start : start + 60], codes[start : start + 60])
    if start % 180 == 120:
        keep(start + 60)
sink.close()
"""


def run(target, kept, options, seconds=None):
    """Whether it was killed, so many seconds after it began."""
    command = [sys.executable, "-c", WORK, target, kept, json.dumps(options)]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return True
        assert code == 0
        return False


def killed(target, kept, options):
    """Run to its end, killed on the way."""
    rng = np.random.default_rng(1)
    for _ in range(KILLS):
        run(target, kept, options, rng.uniform(0, 0.2))
    assert not run(target, kept, options)


@pytest.mark.slow
def test_a_table_holds_the_same(tmp_path, postgres_url, table):
    name, ask = table
    target, options, held = f"{postgres_url}?table={name}", {"rows": 300, "refine": 3}, []
    for kind in (run, killed):
        kind(target, tmp_path / kind.__name__, options)
        query = "SELECT id, (code::text, refinement, epoch)::text FROM TABLE_"
        held.append(dict(ask(query)))
        ask("DROP TABLE TABLE_")
    assert len(held[0]) > 900
    assert held[0] == held[1]
