"""Compiled code is kept on disk where that is possible, and never missed where it is not."""

import importlib.util
import shutil
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread

import numba
import pytest
from numba.core.compiler_lock import global_compiler_lock

import streambits
from forks import in_child

SOURCE = """
from streambits.kernels import compiled

@compiled
def inner(x):
    return x + 1

@compiled
def outer(x):
    return inner(x) * 2
"""

SEARCH = """
import numpy as np, streambits as sb
index = sb.HammingIndex(16)
codes = sb.Codes.from_bits(np.random.default_rng(0).random((50, 16)) < 0.5)
index.add(codes)
print(sb.__file__, index.search(codes[7], 1).ids[0, 0])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where numba keeps compiled code during a test."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    (tmp_path / "some_kernels.py").write_text(SOURCE)
    return tmp_path / "kept"


def process(folder):
    """The kernels as another process would find them: nothing is compiled yet."""
    spec = importlib.util.spec_from_file_location("some_kernels", folder.parent / "some_kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hits(kernel):
    return sum(kernel.stats.cache_hits.values())


def files(folder, kind):
    found = sorted(folder.rglob(f"*outer*.{kind}"))
    assert found
    return found


def test_compiled_code_is_kept_for_the_next_process(folder):
    assert process(folder).outer(20) == 42
    again = process(folder)
    assert again.outer(20) == 42
    assert hits(again.outer) == 1


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_damaged_files_are_compiled_again_and_mended(folder, kind):
    process(folder).outer(20)
    for path in files(folder, kind):
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
    damaged = process(folder)
    assert damaged.outer(20) == 42
    assert hits(damaged.outer) == 0
    mended = process(folder)
    assert mended.outer(20) == 42
    assert hits(mended.outer) == 1


def run(code, package):
    names = {"HOME": "/dev/null", "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=names, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def package(tmp_path):
    """A copy of the package whose folder of compiled code cannot be made."""
    source = Path(streambits.__file__).parent
    shutil.copytree(source, tmp_path / "streambits", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "streambits" / "kernels" / "__pycache__").write_text("not a folder")
    return tmp_path


@pytest.mark.slow
def test_nothing_needs_a_folder_that_can_be_written(package):
    code, out, err = run(SEARCH, package)
    assert (code, out.split()) == (0, [str(package / "streambits" / "__init__.py"), "7"])
    assert err.count("NUMBA_CACHE_DIR") == 1
    assert len(err.splitlines()) == 1
    code, out, err = run("import streambits.cli.app", package)
    assert (code, out, err) == (0, "", "")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_a_thread_compiles_can_compile(folder):
    compiling = Event()

    def compile_for_a_while():
        with global_compiler_lock:
            compiling.set()
            time.sleep(0.3)

    kernel = process(folder).outer
    thread = Thread(target=compile_for_a_while)
    thread.start()
    assert compiling.wait(30)
    assert in_child(lambda: kernel(20)) == "done"
    thread.join()
