"""The recipes of docs/engines.md, to the letter, where their engines are installed."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import streambits as sb

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()


def recipe(name):
    (found,) = re.findall(rf"^```python-{name}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return compile(found, f"docs/engines.md, {name}", "exec")


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
def test_ray(given):
    ray = pytest.importorskip("ray", reason="there is no ray: pip install ray")
    wanted = merged(given["learner"], given["paths"])
    source = str(Path(sb.__file__).parents[1])
    ray.init(num_cpus=1, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": source}})
    try:
        exec(recipe("ray"), given)
        assert sb.to_bytes(given["learner"]) == wanted
    finally:
        ray.shutdown()


@pytest.mark.filterwarnings("default")
def test_beam(given):
    pytest.importorskip("apache_beam", reason="there is no Beam: pip install apache-beam")
    wanted = merged(given["learner"], given["paths"])
    exec(recipe("beam"), given)
    assert sb.to_bytes(given["learner"]) == wanted


def test_spark(given, sail_server, tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("streambits.engines.spark", exc_type=ImportError)
    rows = given["rows"]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)
    pq.write_table(pa.table({"id": np.arange(3000), "vector": lists}), tmp_path / "v.parquet")
    names = {"remote": sail_server.url, "vectors": tmp_path / "v.parquet", "rows": rows}
    names["folder"] = tmp_path / "job"
    exec(recipe("spark"), names)
    assert (names["learner"].seen, names["hits"].ids.shape) == (3000, (3, 10))
    assert os.listdir(tmp_path / "job" / "codes") == ["part-000000.parquet"]
