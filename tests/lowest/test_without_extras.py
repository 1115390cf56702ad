"""Without extras: the README's example works, and whatever needs an extra names it in one sentence.

`make test-wheel` and `make test-lowest` run this where no extra is installed; elsewhere the
packages are hidden from the processes that are started.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import streambits as sb

ROOT = Path(__file__).parents[2]
HIDDEN = (
    *("sklearn", "faiss", "confluent_kafka", "nats", "psycopg", "prometheus_client", "torch"),
    *("fastapi", "uvicorn", "starlette", "dask", "distributed", "pyspark", "pandas", "polars"),
    "langchain_core",
)
WITHOUT = f"""
import sys

class Hiding:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {HIDDEN}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hiding())
"""
COMMANDS = (
    WITHOUT
    + """
import contextlib, io, json
from streambits.cli.app import main

told = {}
for name, arguments in json.loads(sys.argv[1]).items():
    sys.argv = ["streambits", *arguments]
    with contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as end:
            told[name] = end.code, err.getvalue()
print(json.dumps(told))
"""
)


def python(code, *arguments, folder):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with rows and a model of them."""
    path = tmp_path_factory.mktemp("without")
    rows = np.random.default_rng(0).random((300, 4), dtype=np.float32)
    np.save(path / "rows.npy", rows)
    sb.save(sb.methods.METHODS["itq"](rows, 4), path / "model.safetensors")
    return path


VERBS = {
    "faiss": ("encode", "model.safetensors", "rows.npy", "--out", "a", "--to", "codes.faiss"),
    "postgres": (
        *("encode", "model.safetensors", "rows.npy", "--out", "b"),
        *("--to", "postgresql://localhost/nothing"),
    ),
    "kafka": ("online", "kafka://localhost:1/topic", "--out", "c"),
    "nats": ("online", "nats://localhost:1/subject", "--out", "d"),
    "metrics": ("online", "rows.npy", "--out", "e", "--set", "metrics_port=0"),
    "serve": ("serve", "f"),
}
CALLS = {
    "sklearn": "import streambits.interop.sklearn",
    "langchain": "import streambits.interop.langchain",
    "gpu": "import streambits as sb; sb.load('model.safetensors').on('cuda')",
}


def test_a_verb_that_needs_an_extra_names_it_in_one_sentence(folder):
    done = python(COMMANDS, json.dumps(VERBS), folder=folder)
    told = json.loads(done.stdout)
    assert told.keys() == VERBS.keys()
    for extra, (code, text) in told.items():
        assert code == 1, text
        assert f"pip install 'streambits[{extra}]'" in " ".join(text.split())
        assert "Traceback" not in text
        assert len(text.strip().splitlines()) <= 2


@pytest.mark.parametrize("extra", CALLS)
def test_a_call_that_needs_an_extra_names_it(folder, extra):
    done = python(WITHOUT + CALLS[extra], folder=folder)
    assert "MissingExtraError: this needs the package" in done.stderr
    assert f"pip install 'streambits[{extra}]'" in done.stderr


def test_every_extra_for_users_is_named_somewhere_in_the_source():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = set(extras["optional-dependencies"]) - {"dev", "docs", "paper"}  # of the repository
    source = "".join(path.read_text() for path in Path(sb.__file__).parent.rglob("*.py"))
    assert wanted <= set(re.findall(r"""MissingExtraError\([^)]*"([\w-]+)"\)""", source))


def test_the_example_of_the_readme_works(folder):
    [example] = re.findall(
        r"^```python\n((?:(?!>>>).)*?)^```$",
        (ROOT / "README.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    done = python(WITHOUT + "exec(sys.argv[1])", example, folder=folder)
    assert not done.returncode, done.stderr
    *ids, recall = done.stdout.strip().splitlines()
    assert [int(line.strip(" []").split()[0]) for line in ids] == [0, 1, 2]
    assert 0.8 < float(recall) < 1


def test_importing_loads_no_package_of_an_extra(folder):
    loaded = "import streambits, sys; print([n for n in sys.argv[1:] if n in sys.modules])"
    assert python(loaded, *HIDDEN, folder=folder).stdout.strip() == "[]"
