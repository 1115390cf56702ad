"""What others judge us by: their own package, and stand-ins for layouts that are not installed."""

import json
import os

import numpy as np
import pytest
import yaml

from benchmarks.outside import bitbudget, hamming, layouts, runbooks
from benchmarks.runbooks import read, sliding_window

LONG = pytest.mark.skipif(
    not os.environ.get("STREAMBITS_SLOW"), reason="compiles much: STREAMBITS_SLOW=1"
)
ROWS = np.random.default_rng(0).standard_normal((1400, 32)).astype(np.float32)
SIZED = ("streambits", "pq", "FAISS OPQ")


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setattr(bitbudget, "opq", bitbudget.pq)  # OPQ takes half a minute to train
    np.savez(tmp_path / "text.npz", X=ROWS * 3)
    return tmp_path / "text.npz"


def test_bitbudget_counts_our_bytes_and_ranks_by_our_answers(text, capsys):
    corpus = bitbudget.load(text, seed=0)
    assert np.allclose(np.linalg.norm(corpus.rows, axis=1), 1)
    assert (len(corpus.rows), len(corpus.queries)) == (900, 500)
    found = bitbudget.judge(corpus, [4, 8])
    assert {name: result["bytes"] for name, result in found.items()} == {
        **{f"{who}, {size} bytes": size for size in (4, 8) for who in SIZED},
        **{f"streambits, online, {size} bytes": 128 for size in (4, 8)},  # it still gathers rows
        "rabitq": 4,
        "binary-mean": 4,
        "float32": 128,
    }
    assert found["float32"]["recall"] == 1
    assert found["streambits, 8 bytes"]["recall"] > found["streambits, 4 bytes"]["recall"] > 0.05
    assert not [name for name in bitbudget.bitbudget.METHODS if "streambits" in name]


def test_bitbudget_lines_and_a_corpus_of_beir(text, tmp_path, monkeypatch):
    monkeypatch.setattr(bitbudget, "QUERIES", 50)
    [line] = bitbudget.lines(text, [4], 1)
    assert line.startswith("| text | 4 | 0.")
    judged = {"q0": {"d3": 1}, "q1": {"d4": 2}}
    np.savez(
        tmp_path / "beir.npz",
        demb=ROWS,
        qemb=ROWS[3:5],
        cids=[f"d{i}" for i in range(len(ROWS))],
        qids=["q0", "q1"],
        qrels=json.dumps(judged),
    )
    found = bitbudget.judge(bitbudget.load(tmp_path / "beir.npz", 0), [8])
    assert found["float32"]["ndcg"] == found["streambits, 8 bytes"]["ndcg"] == 1


def test_hamming_module_of_ann_benchmarks():
    data = hamming.random_bits(32, 600, queries=20)
    algorithm = layouts.ann_module().StreambitsHamming("hamming")
    assert isinstance(algorithm, layouts.BaseANN)
    judged = hamming.judge(data, algorithm)
    assert judged.recall == 1
    assert judged == hamming.judge(data, hamming.FaissFlat())._replace(
        name="streambits-hamming", rate=judged.rate, bytes_per_row=judged.bytes_per_row
    )
    algorithm.batch_query(data.test, 10)
    single = [algorithm.query(query, 10).tolist() for query in data.test]
    assert algorithm.get_batch_results().tolist() == single
    with pytest.raises(NotImplementedError):
        layouts.ann_module().StreambitsHamming("jaccard")


def test_every_definition_of_ann_benchmarks_can_be_run():
    """As its `definitions.py` reads the file: base_args, then one of each list of args."""
    module = layouts.ann_module()
    config = yaml.safe_load((layouts.ANN / "config.yml").read_text())
    assert set(config) == {"bit", "float"}
    for kinds in config.values():
        for [entry] in kinds.values():
            assert entry["module"] == "ann_benchmarks.algorithms.streambits"
            for group in entry["run_groups"].values():
                metric = "hamming" if "bit" in config and kinds is config["bit"] else "angular"
                base = [metric if arg == "@metric" else arg for arg in entry["base_args"]]
                algorithm = getattr(module, entry["constructor"])(
                    *base, *(values[0] for values in group["args"])
                )
                rows = ROWS > 0 if metric == "hamming" else ROWS
                algorithm.fit(rows)
                for [value] in zip(*group.get("query_args", [])):
                    algorithm.set_query_arguments(value)
                assert algorithm.query(rows[3], 5)[0] == 3
                assert algorithm.get_additional()["bytes_per_row"] >= 4
                assert str(algorithm).startswith("streambits")


def test_streaming_module_plays_a_file_of_the_track(tmp_path, monkeypatch, capsys):
    sliding_window(1000, 20, dataset="random-xs").write(tmp_path / "runbook.yaml")
    rows, queries = ROWS[:1000], ROWS[1000:1020]
    task = runbooks.Task("xs", rows, queries, read(tmp_path / "runbook.yaml", "random-xs"))
    printed = list(runbooks.lines(task))
    recalls = [float(line.split("|")[4]) for line in printed]
    assert len(printed) == 2
    assert recalls[1] > 0.95
    assert 0.3 < recalls[0] <= recalls[1]


def test_streaming_module_and_its_definitions():
    module = layouts.streaming_module()
    config = yaml.safe_load((layouts.STREAMING / "config.yaml").read_text())
    for entry in (found["streambits"] for found in config.values()):
        assert entry["module"] == "neurips23.streaming.streambits.streambits_index"
        group = entry["run-groups"]["base"]
        for params in json.loads(group["args"]):
            algorithm = getattr(module, entry["constructor"])("euclidean", params)
            algorithm.setup("float32", 100, 32)
            algorithm.insert(ROWS[:8], np.arange(8, dtype=np.uint32))
            algorithm.replace(ROWS[8:9], np.array([3], np.uint32))
            algorithm.delete(np.array([0], np.uint32))
            for asked in json.loads(group["query-args"]):
                algorithm.set_query_arguments(asked)
                algorithm.query(ROWS[8:9], 10)
                assert algorithm.get_results()[0, 0] == 3
                assert set(algorithm.get_results()[0]) == {-1, *range(1, 8)}
            assert algorithm.track() == "stream"
            assert str(algorithm).startswith("streambits(")
