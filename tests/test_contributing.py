"""The recipes of CONTRIBUTING.md work when they are followed to the letter."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import streambits

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
USE = """
import numpy as np
import streambits as sb
from streambits.interop.sklearn import SSBC
from streambits.cli.reference import reference
rows = np.random.default_rng(0).random((600, 8), dtype=np.float32)
learner = sb.Settings(bits=16, method="rff_fd", count=50).learner([rows])
print(sb.__file__, learner.features.width, "`count`" in reference())
try:
    sb.Settings(count=50).checked()
except sb.errors.InputError as error:
    print(error)
"""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_recipe_passes_its_check():
    names = {}
    code = "".join(blocks("python"))
    assert {*re.findall(r"checks\.(check_\w+)\(", code)} == {
        *("check_learner", "check_features", "check_sketch", "check_source", "check_sink")
    }
    for block in blocks("python"):
        exec(block, names)  # what a reader does with it


def test_a_setting_is_one_line(tmp_path):
    shutil.copytree(Path(streambits.__file__).parent, tmp_path / "streambits")
    file = tmp_path / "streambits" / "methods" / "settings.py"
    before = "    epsilon: float | None = _setting("
    [line] = blocks("python-setting")
    text = file.read_text()
    assert text.count(before) == 1
    file.write_text(text.replace(before, line + before))
    done = subprocess.run(
        [sys.executable, "-c", USE],
        check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "numba")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first, refused = done.stdout.splitlines()
    assert first == f"{tmp_path / 'streambits' / '__init__.py'} 50 True"
    assert "ssbc has no setting 'count'" in refused
