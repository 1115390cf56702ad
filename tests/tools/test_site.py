"""The documentation site: built strictly once, checked as files, and read in a real browser."""

import re
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browsers import started
from tools import site as tool

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
FOCUS = "Autofocus processing was blocked"  # what Chromium says of the theme's search field
SECTIONS = ["Start", "How do I ...", "Understand", "Run it", "Evidence", "Reference", "Changes"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built pages; `build` raises where Zensical's strict mode objects."""
    root = tmp_path_factory.mktemp("site")
    shutil.copyfile(tool.ROOT / "mkdocs.yml", root / "mkdocs.yml")
    return tool.build(root)


@pytest.fixture(scope="module")
def address(site):
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    """Files, without a log."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def browser():
    with started() as running:
        yield running


@pytest.fixture
def visit(browser, address):
    """visit(page): opened; the console stays empty, and all requests go to this site."""
    contexts, messages, requests = [], [], []

    def opened(name="index.html"):
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.on(
            "response", lambda one: one.status < 400 or messages.append(f"{one.status} {one.url}")
        )
        page.goto(address + name)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [message for message in messages if not message.startswith(FOCUS)] == []
    assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.slow
def test_every_page_of_the_repository_is_there(site):
    for page in (tool.ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").is_file(), f"{page.name}: is it in mkdocs.yml?"
    for name in ("index", "changes", "contributing"):
        assert (site / f"{name}.html").is_file()


@pytest.mark.parametrize("broken", ["[x](design.md#nowhere)"])
def test_a_dead_link_stops_the_build(broken, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(tool, "stage", partial(_stage_one, text=f"# A\n\n{broken}\n"))
    text = "site_name: a\ndocs_dir: build/docs\nsite_dir: build/site\nuse_directory_urls: false\n"
    (tmp_path / "mkdocs.yml").write_text(text + "theme: {name: material, font: false}\n")
    with pytest.raises(RuntimeError, match="nowhere"):
        tool.build(tmp_path)


def _stage_one(_, folder, text):
    folder.mkdir(parents=True)
    (folder / "index.md").write_text(text)
    (folder / "design.md").write_text("# Design\n\n[a](index.md)\n")


@pytest.mark.slow
def test_the_start_page_reads_well(visit):
    page = visit()
    expect(page.locator("h1")).to_have_text(re.compile("streambits"))
    shown = [one.strip() for one in page.locator(".md-tabs__link").all_inner_texts()]
    assert shown == SECTIONS
    assert page.locator("img").evaluate_all("all => all.every(one => one.naturalWidth > 0)")
    found = Axe().run(page, options={"runOnly": WCAG}).response  # the theme decides on landmarks
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
    assert {"color-contrast", "image-alt", "link-name"} <= {one["id"] for one in found["passes"]}


@pytest.mark.slow
def test_the_search_finds_a_name(visit):
    page = visit()
    page.click(".md-search__button")
    page.get_by_role("combobox").fill("encode_online")
    page.get_by_role("option").first.click()
    expect(page).to_have_url(re.compile(r"api/learning\.html.*#streambits\.encode_online"))
