"""The reference has every public name, from its docstring, and the page in docs/ is not stale."""

from importlib import import_module

import pytest

import streambits as sb
from tools import api

MODULES = (
    "streambits.methods",
    "streambits.features",
    "streambits.sketches",
    "streambits.errors",
    "streambits.service",
    "streambits.bandwidth",
    "streambits.io.rows",
    "streambits.io.codes",
    "streambits.interop.faiss",
)
PATHS = {one.path for one in api.names()}


def test_every_public_name_has_a_place():
    covered = PATHS | {path for group in api.GROUPS for path in group.names}
    assert {f"streambits.{name}" for name in sb.__all__} <= covered


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_public_module_has_a_place(module):
    found = sb.bandwidth if module == "streambits.bandwidth" else import_module(module)
    public = [n for n in getattr(found, "__all__", []) if n not in ("faiss",)]
    assert {f"{module}.{name}" for name in public} <= PATHS
    assert any(path.startswith(f"{module}.") for path in PATHS)


def test_the_page_in_the_repository_is_up_to_date():
    text = api.PAGE.read_text()
    assert text == api.with_table(text), "python -m tools.api"


def test_every_name_has_an_anchor_a_summary_and_a_call():
    pages = api.pages()
    for one in api.names():
        page = pages[one.group.file]
        assert f"{{ #{one.path} }}" in page
        assert one.summary
        for name, _ in one.members if one.first is one else ():
            assert f"{{ #{one.path}.{name} }}" in page
    assert "ssbc(\n    landmarks,\n    bits=64,\n    *,\n" in pages["methods.md"]
    assert "StreamIndex.add(rows, ids=None, *, note=None)" in pages["stream-index.md"]
    assert "class InputError(StreambitsError, ValueError)" in pages["errors.md"]
