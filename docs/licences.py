"""The licences of what streambits needs, from the metadata of what is installed.

python docs/licences.py > docs/licences.md
"""

import re
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
OURS = "streambits"
NOT_FOR_USERS = ("dev", "paper")
LONG = 60  # characters; a longer text is the licence itself, not its name
HEAD = (
    "# Licences of what is installed with streambits\n\n"
    "streambits is under the BSD-3-Clause licence (`LICENSE`) and contains no code of others. What "
    "pip installs with it has these licences, as its own metadata say (`python docs/licences.py > "
    "docs/licences.md`).\nNumPy, SciPy, pyarrow and PyTorch bring further libraries in their "
    "wheels, listed in the files of licences beside them.\n"
)


def normal(name: str) -> str:
    """A name as pip compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> tuple[list[Requirement], dict[str, list[Requirement]]]:
    """Core dependencies, and those of the extras for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    core = [Requirement(need) for need in project["dependencies"]]
    return core, {
        extra: [Requirement(need) for need in needs]
        for extra, needs in extras.items()
        if extra not in NOT_FOR_USERS
    }


def needed_by(needs: Iterable[Requirement]) -> dict[str, str]:
    """All that these need, directly or not, and is installed: normal name to name."""
    found: dict[str, str] = {}
    waiting = [(need.name, need.extras) for need in needs]
    while waiting:
        name, extras = waiting.pop()
        try:
            installed = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # as where a package is for other systems
        if normal(name) in found or normal(name) == OURS:
            continue
        found[normal(name)] = installed.metadata["Name"]
        for text in installed.requires or ():
            need = Requirement(text)
            wanted = [{"extra": extra} for extra in ("", *extras)]
            if need.marker is None or any(need.marker.evaluate(one) for one in wanted):
                waiting.append((need.name, need.extras))
    return found


def licence(name: str) -> str:
    """By its SPDX expression, or by classifiers, or by what the field says."""
    found = metadata.metadata(name)
    if "License-Expression" in found:
        return str(found["License-Expression"])
    classified = [
        text.rpartition(" :: ")[2]
        for text in found.get_all("Classifier") or ()
        if text.startswith("License ::")
    ]
    field = found["License"].strip() if "License" in found else ""
    if field and len(field) <= LONG and "\n" not in field:
        return field
    return ", ".join(dict.fromkeys(classified)) or field.splitlines()[0][:LONG]


def table(names: dict[str, str]) -> str:
    """A line per package."""
    lines = [f"| {names[key]} | {licence(key)} |" for key in sorted(names)]
    return "\n".join(["| package | licence |", "|---|---|", *lines])


def page() -> str:
    """All of the page."""
    core, extras = declared()
    always = needed_by(core)
    parts = [HEAD, f"## Always\n\n{table(always)}\n"]
    for extra in sorted(extras):
        more = {k: v for k, v in needed_by(extras[extra]).items() if k not in always}
        if more:
            parts.append(f"## With the extra `{extra}`\n\n{table(more)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - this is what the script is for
