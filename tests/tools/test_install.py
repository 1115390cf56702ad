"""docs/install.md names every extra, and no other."""

import re
import tomllib

from tools.site import ROOT


def test_every_extra_is_explained():
    page = (ROOT / "docs" / "install.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    explained = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(explained) == sorted(project["optional-dependencies"])
