"""docs/scale.md and docs/examples/spark.py, to the letter, where their engines are installed."""

import re
import runpy
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import streambits as sb

DOCS = Path(__file__).parents[2] / "docs"
PAGE, EXAMPLES = (DOCS / "scale.md").read_text(), DOCS / "examples"


def recipe(name):
    (found,) = re.findall(rf"^```python-{name}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return compile(found, f"docs/scale.md, {name}", "exec")


def test_the_code_of_the_page_runs(capsys):
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, names)
    first, second = capsys.readouterr().out.splitlines()
    assert (first, second) == ("8000 [2000, 2000, 2000, 2000] [0 1 2]", "8000")


@pytest.fixture
def given(tmp_path):
    """Three files of rows, a learner, and where a model goes."""
    rows = np.random.default_rng(0).random((3000, 8), dtype=np.float32)
    paths = [str(tmp_path / f"{number}.npy") for number in range(3)]
    for path, part in zip(paths, np.split(rows, 3), strict=True):
        np.save(path, part)
    learner = sb.ssbc(rows[::60], bits=16, epochs="never")
    return {"paths": paths, "learner": learner, "out": str(tmp_path / "model"), "rows": rows}


def merged(learner, paths):
    whole = sb.from_bytes(sb.to_bytes(learner))
    for number, path in enumerate(paths):
        whole.merge(learner.shard(number).learn(np.load(path)))
    return sb.to_bytes(whole)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("name", "module"), [("ray", "ray"), ("beam", "apache_beam")])
def test_ray_and_beam(name, module, given):
    engine = pytest.importorskip(module, reason=f"there is no {module}: pip install {module}")
    wanted = merged(given["learner"], given["paths"])
    with ExitStack() as stack:
        if name == "ray":
            source = {"env_vars": {"PYTHONPATH": str(Path(sb.__file__).parents[1])}}
            engine.init(num_cpus=1, include_dashboard=False, runtime_env=source)
            stack.callback(engine.shutdown)
        exec(recipe(name), given)
    assert sb.to_bytes(given["learner"]) == wanted


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_spark(*, given, sail_server, arrays, learn_here, tmp_path, monkeypatch):
    """The same model as in this process, and the codes of its coder."""
    # A main module without a file, as in a worker of xdist, is a doctest to pyspark.
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    sql = pytest.importorskip("pyspark.sql", reason="there is no pyspark-client")
    rows, order = given["rows"], np.random.default_rng(1).permutation(3000)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows[order].ravel()), 8)
    pq.write_table(pa.table({"id": order, "vector": lists}), tmp_path / "rows.parquet")
    recipe = runpy.run_path(str(EXAMPLES / "spark.py"), run_name="__main__")
    session = sql.SparkSession.builder.remote(sail_server.url).create()
    try:
        frame = session.read.parquet(str(tmp_path / "rows.parquet"))
        learner = recipe["learn"](frame, given["learner"], 4)
        coder = learner.coder()
        codes = recipe["encode"](frame, coder).toArrow().sort_by("id")
    finally:
        session.stop()
    which = np.array([zlib.crc32(str(one).encode()) % 4 for one in range(3000)])
    parts = arrays(rows[np.argsort(which, kind="stable")], np.cumsum(np.bincount(which))[:-1])
    wanted = learn_here(parts, given["learner"]).coder()
    assert sb.to_bytes(coder) == sb.to_bytes(wanted)
    assert codes["id"].to_pylist() == list(range(3000))
    assert b"".join(codes["code"].to_pylist()) == wanted.encode(rows).packed.tobytes()
