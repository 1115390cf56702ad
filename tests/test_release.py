"""What is released: sdist and wheel are built, hold what they should, and install without extras.

Dependencies are linked into the clean environment from the one that runs the tests, so this needs
no network; `make test-wheel` has pip resolve them, and runs every verb. With STREAMBITS_SLOW=1 the
README's example also runs here, which compiles everything anew.
"""

import email
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import streambits as sb

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = {Requirement(need).name for need in PROJECT["dependencies"]}
SOURCE = ("README.md", "LICENSE", "CHANGELOG.md", "Makefile", "pyproject.toml", "SECURITY.md")
SOURCE = (*SOURCE, "CITATION.cff", "constraints.txt", "tests/golden/digests.json", "docs/design.md")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of a wheel and an sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout + done.stderr
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built):
    [wheel] = built.glob("*.whl")
    assert wheel.name == f"streambits-{sb.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = ROOT / "src"
    package = {
        path.relative_to(source).as_posix()
        for path in (source / "streambits").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == package
    assert "streambits/py.typed" in package
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_metadata_are_those_of_the_project(built):
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        head = f"streambits-{sb.__version__}.dist-info/METADATA"
        found = email.message_from_bytes(archive.read(head))
    assert found["Version"] == sb.__version__
    assert found["License-Expression"] == "BSD-3-Clause"
    assert set(found["Requires-Python"].split(",")) == set(PROJECT["requires-python"].split(","))
    needed = [Requirement(need) for need in found.get_all("Requires-Dist")]
    assert {need.name for need in needed if need.marker is None} == CORE
    assert set(found.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])


def test_the_sdist_has_what_it_takes_to_test_it(built):
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(SOURCE) <= names
    assert not [name for name in names if name.startswith((".venv", ".git/", "build/", "dist/"))]


@pytest.fixture(scope="module")
def clean(built, tmp_path_factory):
    """The interpreter of an environment with the wheel and its core dependencies, without pip."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    script, _ = licences()
    for name in script.needed_by(script.declared()[0]):
        for file in importlib.metadata.files(name):
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (packages / top).exists():
                (packages / top).symlink_to(file.locate().parents[len(file.parts) - 1] / top)
    command = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install"]
    command += ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    done = subprocess.run(
        [*command, *built.glob("*.whl")], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return folder / "bin" / "python"


def run(*command):
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd="/")
    assert not done.returncode, done.stderr
    return done.stdout


def test_the_installed_wheel_has_no_extra_and_its_command_works(clean):
    assert run(clean.parent / "streambits", "--version").split() == ["streambits", sb.__version__]
    extras = "torch", "faiss", "sklearn", "fastapi", "pandas", "pytest", "matplotlib"
    code = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    assert run(clean, "-c", code, *extras).strip() == "[]"
    where = run(clean, "-c", "import streambits; print(streambits.__file__)")
    assert Path(where.strip()).is_relative_to(clean.parents[1])


@pytest.mark.skipif(not os.environ.get("STREAMBITS_SLOW"), reason="compiles all: STREAMBITS_SLOW=1")
def test_the_example_of_the_readme_works_there(clean):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    assert run(clean, "-c", blocks[0])


def licences():
    """The script that lists licences, and its page."""
    spec = importlib.util.spec_from_file_location("licences", ROOT / "docs" / "licences.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, (ROOT / "docs" / "licences.md").read_text()


def test_licences_of_all_core_dependencies_are_listed():
    script, page = licences()
    always = page.partition("## Always")[2].partition("\n## ")[0]
    listed = {
        script.normal(line.split("|")[1].strip())
        for line in always.splitlines()
        if line.startswith("| ")
    }
    assert {script.normal(name) for name in CORE} <= listed
    assert set(script.needed_by(script.declared()[0])) <= listed
    assert "UNKNOWN" not in page
    assert not re.search(r"\|  \|", page)


def test_the_citation_names_this_version_and_the_paper():
    text = (ROOT / "CITATION.cff").read_text()
    lines = dict(re.findall(r"^([\w-]+): (.+)$", text, re.MULTILINE))
    assert lines["cff-version"] == "1.2.0"
    assert lines["version"] == sb.__version__
    assert lines["license"] == PROJECT["license"]
    assert {"message", "title", "type"} <= set(lines)
    assert re.search(r"^authors:\n  - name: ", text, re.MULTILINE)
    assert "arXiv:1503.06271" in text


def test_the_change_log_has_this_version_first_behind_what_is_not_released():
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (\S+)", text, re.MULTILINE)
    assert next(name for name in versions if name != "Unreleased:") == sb.__version__
