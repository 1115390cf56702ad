"""What the built pages must be: no dead link, nothing from elsewhere, all of it near the start."""

from collections import deque
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

CLICKS = 3
_LOADED = {  # what a browser fetches by itself, by element and attribute
    "img": ("src", "srcset"),
    "script": ("src",),
    "link": ("href",),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src",),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
}


class Page(HTMLParser):
    """The links of a page, what it loads, its anchors, and pictures without a description.

    Attributes
    ----------
    links, loads : list of str
    anchors : set of str
    undescribed : list of str
        Pictures whose `alt` is missing or empty.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.undescribed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element says."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "img" and not found.get("alt"):
            self.undescribed.append(found.get("src", ""))
        self.loads += [found[name] for name in _LOADED.get(tag, ()) if name in found]


def check(site: Path) -> list[str]:
    """What is wrong with a built site, one line each; none if all is well."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    shown = {path: page for path, page in pages.items() if path.name != "404.html"}
    wrong: list[str] = []
    for path, page in shown.items():
        name = path.relative_to(site).as_posix()
        wrong += [f"{name}: the link {one} is dead" for one in _dead(page, path, site, pages)]
        wrong += [f"{name}: a picture without a text, {one}" for one in page.undescribed]
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        wrong += [f"{name} loads {one}" for one in page.loads if _is_outside(one)]
    for sheet in sorted(site.rglob("*.css")):
        text = sheet.read_text()
        if "url(http" in text or "url(//" in text or "@import" in text:
            wrong.append(f"{sheet.relative_to(site)} loads something from elsewhere")
    far = set(shown) - set(distances(site, shown, CLICKS))
    wrong += [f"{path.relative_to(site)}: more than {CLICKS} clicks away" for path in sorted(far)]
    return wrong


def distances(site: Path, pages: dict[Path, Page], most: int) -> dict[Path, int]:
    """Clicks from the start to each page that can be reached by at most so many."""
    start = site / "index.html"
    found, queue = {start: 0}, deque([start])
    while queue:
        path = queue.popleft()
        for link in pages[path].links:
            target, _ = _target(link, path, site)
            if target in pages and target not in found and found[path] < most:
                found[target] = found[path] + 1
                queue.append(target)
    return found


def _dead(page: Page, path: Path, site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    for link in page.links:
        if not _is_outside(link) and not link.startswith("mailto:"):
            target, anchor = _target(link, path, site)
            known = target in pages and (not anchor or anchor in pages[target].anchors)
            if not known and not (target.is_file() and not anchor):
                yield link


def _target(link: str, path: Path, site: Path) -> tuple[Path, str]:
    """The file that a link of a page leads to, and the anchor in it."""
    parts = urlsplit(link)
    place = unquote(parts.path)
    target = site / place.lstrip("/") if place.startswith("/") else path.parent / place
    target = path if not place else Path(target).resolve()
    return (target / "index.html" if target.is_dir() else target), unquote(parts.fragment)


def _is_outside(link: str) -> bool:
    return urlsplit(link).scheme in ("http", "https") or link.startswith("//")
