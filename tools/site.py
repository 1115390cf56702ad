"""The documentation site: plain Markdown of this repository, built by Zensical.

    python -m tools.site           # build/site, strictly: a dead link is an error

Pages are first put together in build/docs, as `mkdocs.yml` names it: the Markdown files of docs/;
README.md as the start, CHANGELOG.md, CONTRIBUTING.md and others beside it under their own names,
with links as they are from there; and the reference of the library, from docstrings. Nothing is
kept twice. After that, `zensical serve` shows the site while build/docs is edited.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools import api

ROOT = Path(__file__).parents[1]
START = {"README.md": "index.md", "CHANGELOG.md": "changes.md"}
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
_PICTURE = re.compile(
    r"(!\[[^\]]*\]\(([^)\s]+\.(?:svg|png))\))"
)  # becomes a link to itself, in full size
_SESSION = re.compile(r"^```python\n(>>> )", re.MULTILINE)  # prompts are not copied: site.css
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def stage(root: Path, folder: Path) -> None:
    """Put all pages and pictures of a repository into a folder, from nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    docs = root / "docs"
    scripts = set(docs.glob("*.py"))  # which write pages, and are none
    found = [p for p in sorted(docs.rglob("*")) if p.is_file() and p.suffix != ".pyc"]
    places = {page: folder / page.relative_to(docs) for page in found if page not in scripts}
    beside = [*sorted(root.glob("*.md")), root / "CITATION.cff"]
    places |= {page: folder / _name(page) for page in beside}
    for page, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".md":
            text = page.read_text()
            if page == docs / api.PAGE.name:
                text = api.with_table(text, linked=True)
            place.write_text(_moved(text, page, places))
        else:
            shutil.copyfile(page, place)
    (folder / "api").mkdir()
    for file, text in api.pages().items():
        (folder / "api" / file).write_text(text)


def build(root: Path = ROOT) -> Path:
    """Stage the pages below the folder of `mkdocs.yml`, build the site strictly, and check it.

    Raises
    ------
    RuntimeError
        If Zensical finds a dead link or a page that is missing.
    """
    stage(ROOT, root / "build" / "docs")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(
        [*command, "--config-file", str(root / "mkdocs.yml")],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    if done.returncode:
        raise RuntimeError(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr))
    return root / "build" / "site"


def _name(page: Path) -> str:
    """What a page beside docs/ is called in the site."""
    return START.get(page.name, page.name.lower() if page.suffix == ".md" else page.name)


def _moved(text: str, page: Path, places: dict[Path, Path]) -> str:
    """The text with links that lead from where the page is in the site."""

    def moved(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / match[2]))
        if target not in places:  # of another site, or dead: Zensical says so
            return match[0]
        found = os.path.relpath(places[target], places[page].parent)
        return f"{match[1]}{found}{match[3] or ''})"

    parts = _FENCE.split(text)
    parts[1::2] = [_SESSION.sub("```pycon\n\\1", part) for part in parts[1::2]]
    parts[::2] = [_PICTURE.sub(r"[\1](\2)", _LINK.sub(moved, part)) for part in parts[::2]]
    return "".join(parts)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("this takes no arguments: it writes build/site")
    try:
        print(build() / "index.html")  # noqa: T201
    except RuntimeError as error:
        sys.exit(str(error))
