"""The page of the service in a real browser, against a real service.

The tests know it by its address, its token and its API alone: its index keeps raw rows of 8
columns, has codes of 64 bits with refinement, and 20,000 rows with the ids doc-0, doc-1, ...
"""

import json
import re
import time
from typing import NamedTuple

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browsers import started
from service.conftest import Serving
from streambits import StreamIndex
from streambits.service import Client

pytestmark = pytest.mark.slow
COLUMNS, ROWS = 8, 20_000
WIDE = {"width": 1280, "height": 900}
HTML = '<img src=x onerror="document.title=1"><b>bold</b>'
WAYS = ("Hamming distance", "Refined distance", "True distance")


class Service(NamedTuple):
    """A running service."""

    url: str
    token: str
    columns: int

    def add(self, **rows):
        with Client(self.url, self.token) as client:
            client.add(list(rows.values()), list(rows))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "index"
    rng = np.random.default_rng(0)
    centres = 4 * rng.standard_normal((6, COLUMNS))
    rows = centres[rng.integers(6, size=ROWS)] + rng.standard_normal((ROWS, COLUMNS))
    rows = rows.astype(np.float32)
    with StreamIndex.open(folder, bits=64, refine=8, n_landmarks=100, keep_rows=True) as index:
        names = [f"doc-{i}" for i in range(ROWS)]
        index.add(rows[:-500], names[:-500])
        index.renew()
        index.add(rows[-500:], names[-500:])  # so codes of two epochs are there
    found = Serving(folder)
    with found.client() as client:
        while client.get("/v1/recall")["mean"] is None:  # the first takes long
            time.sleep(0.2)
    yield Service(f"{found.address}/", found.token, COLUMNS)
    assert found.stop() == 0


@pytest.fixture(scope="module")  # no longer: while it runs, other tests cannot call asyncio.run
def browser():
    with started() as running:
        yield running


@pytest.fixture
def visit(browser, service):
    """visit(...): the page, opened; the console and all requests are checked in the end."""
    contexts, messages, requests = [], [], []

    def opened(before=None, quiet=True):
        context = browser.new_context(viewport=WIDE)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        if quiet:
            page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        if before is not None:
            before(page)
        page.goto(service.url)
        page.wait_for_selector("#sentence.good, #sentence.bad")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert messages == []
    assert requests, "no page was visited"
    assert [url for url in requests if not url.startswith(service.url)] == []


def _search(page, what, *, vector=False):
    kind = "vector" if vector else "id"
    page.check(f"input[name=kind][value={kind}]")
    page.fill(f"#try-{kind}", what)
    page.click("#try-form button")
    expect(page.locator("#try-words")).to_have_text(re.compile(r"\.$|: "))


def _answers(page):
    return {
        box.locator("h3").inner_text(): box.locator(".id > span:first-child").all_inner_texts()
        for box in page.locator(".answer").all()
    }


def _show_map(page, service):
    page.fill("#token", service.token)
    page.click("#token-form button")
    page.wait_for_selector("#map-canvas", state="visible")


def _with_status(document):
    """A visitor's `before`: the service answers so, and sends no events."""

    def before(page):
        page.route("**/v1/events", lambda route: route.fulfill(status=204))
        page.route("**/v1/status", lambda route: route.fulfill(json=document))

    return before


COUNTS = ("removed", "rejects", "epoch", "queue")
STATUS = {"rows": 120, "waiting": 120, "gathered": 5000, "seen": 120, "rows_per_second": 3.25}
STATUS |= dict.fromkeys(COUNTS, 0) | {"lag": None, "last_commit": None, "memory": 3 << 30}
STATUS |= {"journal_bytes": 2048, "settings": {}, "uptime": 59, "healthy": True}
STATUS["sentence"] = "Rows come in."


def test_every_panel_shows_live_figures(visit, service):
    page = visit()
    page.wait_for_selector("#epochs-rows tr")
    _show_map(page, service)
    for name in ("recall", "drift", "spectrum", "bits", "epochs", "map"):
        page.wait_for_selector(f"#{name} .content", state="visible")
        assert page.locator(f"#{name} .message").is_hidden(), name
    pulse = page.locator("#figures").inner_text()
    for words in ("Rows", "rows/s", "Lag", "Rejects", "Last commit", "MiB", "Epoch"):
        assert words in pulse
    assert page.locator("#recall-mean").inner_text().endswith("%")
    assert page.locator("#recall-epochs tr").count() == page.locator("#epochs-rows tr").count()
    assert "alarm at 13.8" in page.locator("#drift-chart svg").text_content()
    assert page.locator("#drift-chart .line").first.get_attribute("d").count("L") > 30
    assert page.locator("#spectrum-chart .bar").count() >= 64
    assert page.locator("#bits-chart .bar").count() == 64
    assert page.locator("#spectrum-words").inner_text().startswith("Proven: the sketch is off by")
    assert page.locator("#command").inner_text()
    assert page.locator(".badge").count() == 1
    pen = "document.querySelector('canvas').getContext('2d')"
    assert page.evaluate(f"new Set({pen}.getImageData(0, 0, 300, 300).data).size") > 10
    before = page.locator("#figures dd").first.inner_text()
    service.add(another=[0.5] * service.columns)
    expect(page.locator("#figures dd").first).not_to_have_text(before)


def test_an_epoch_change_appears_without_reload(visit, service):
    page = visit()
    page.wait_for_selector("#epochs-rows tr")
    page.evaluate("window.same = true")
    with Client(service.url, service.token) as client:
        epoch = client.renew()
    page.wait_for_selector(f"#epochs-rows tr:has(.badge) >> text=/^{epoch} current/")
    page.wait_for_selector(f"#drift-chart >> text=epoch {epoch}", state="attached")
    page.wait_for_selector(f"#announcer >> text=Epoch {epoch} has begun.", state="attached")
    expect(page.locator("#figures div").last).to_have_text(re.compile(f"^Epoch{epoch}of"))
    assert page.evaluate("window.same")


def test_try_it_finds_a_known_neighbour(visit, service):
    row = [40.0 + i for i in range(service.columns)]
    service.add(**{"the-row": row, "its-twin": [value + 0.01 for value in row]})
    page = visit()
    _search(page, "the-row")
    found = _answers(page)
    assert tuple(found) == WAYS
    for way in WAYS:
        assert set(found[way][:2]) == {"the-row", "its-twin"}, way
    words = re.compile(
        r"^Of the 10\strue neighbours, Hamming distance finds \d+ and refined .* \d+\.$"
    )
    expect(page.locator("#try-words")).to_have_text(words)
    assert page.locator(".answer").first.locator(".hit").count() >= 2
    page.fill("#try-k", "3")
    _search(page, json.dumps(row), vector=True)
    expect(page.locator(".answer li")).to_have_count(9)
    assert _answers(page)["True distance"][0] == "the-row"


def test_html_in_ids_is_shown_as_text_and_long_ids_to_the_last_digit(visit, service):
    service.add(**{HTML: [-60.0 - i for i in range(service.columns)]})
    page = visit()
    _search(page, HTML)
    assert all(ids[0] == HTML for ids in _answers(page).values())
    assert page.locator(".answer img, .answer b").count() == 0
    assert page.title() == "streambits"
    sent, number = [], "9007199254740993"  # 2**53 + 1

    def answer(route):
        sent.append(route.request.post_data)
        body = f'{{"ids": [[{number}]], "distances": [[0]]}}'
        route.fulfill(content_type="application/json", body=body)

    page.route("**/v1/search", answer)
    _search(page, number)
    assert all(f'"id": {number},' in body for body in sent)
    assert _answers(page) == {way: [number] for way in WAYS}


def test_what_cannot_be_searched_is_told_in_words(visit):
    page = visit(quiet=False)  # a browser writes refused requests to the console itself
    _search(page, "[1, two, 3]", vector=True)
    assert page.locator("#try-words").inner_text() == "Value 2 is two, which is not a number."
    _search(page, "no such id")
    words = page.locator("#try-words").inner_text()
    assert words.startswith("The search was refused: ")
    assert "no such id" in words
    refusal = {"status": 409, "json": {"detail": "raw rows are not kept"}}
    page.route(
        "**/v1/search",
        lambda route: (
            route.fulfill(**refusal)
            if '"true"' in route.request.post_data
            else route.fulfill(json={"ids": [[7]], "distances": [[0]]})
        ),
    )
    _search(page, "7")
    assert page.locator(".answer .message").inner_text() == "Not available: raw rows are not kept"
    assert _answers(page)["Hamming distance"] == ["7"]


def test_the_map_needs_the_token_which_stays_in_the_tab(visit, service):
    asked = []

    def before(page):
        page.on("request", lambda request: asked.append((request.url, request.headers)))

    page = visit(before=before, quiet=False)
    page.wait_for_selector("#epochs-rows tr")
    assert not any("/v1/map" in url for url, _ in asked)
    page.fill("#token", "wrong")
    page.click("#token-form button")
    page.wait_for_selector("#map .message >> text=The token was refused")
    assert page.evaluate("sessionStorage.length") == 0
    _show_map(page, service)
    sent = [headers["authorization"] for url, headers in asked if "/v1/map" in url]
    assert sent == ["Bearer wrong", f"Bearer {service.token}"]
    assert page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [
        1,
        0,
        "",
    ]
    assert service.token not in page.content()
    page.reload()
    page.wait_for_selector("#map-canvas", state="visible")
    page.click("#forget")
    assert page.evaluate("sessionStorage.length") == 0
    assert page.evaluate("document.activeElement.id") == "token"


def test_rows_that_wait_are_told_and_nothing_else_is_asked(visit):
    asked = []

    def before(page):
        _with_status(STATUS)(page)
        page.on("request", lambda request: asked.append(request.url.rsplit("/", 1)[-1]))

    page = visit(before=before)
    words = page.locator("#gathering").inner_text()
    assert words.startswith("Rows wait for landmarks: 120 of 5,000.")
    assert not {"recall", "drift", "bits", "spectrum", "epochs", "map"} & set(asked)


def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(visit):
    page = visit()
    page.wait_for_selector("#epochs-rows tr")
    order = []
    for _ in range(10):
        page.keyboard.press("Tab")
        name, style, width = page.evaluate(
            "(() => { const e = document.activeElement, s = getComputedStyle(e); return "
            "[e.id || e.innerText || e.value, s.outlineStyle, parseFloat(s.outlineWidth)]; })()"
        )
        assert style == "solid", name
        assert width >= 2, name
        order.append(name)
    first = ["Skip to the search", "Settings", "copy", "id", "try-id", "try-k", "Search"]
    assert order == [*first, "token", "Show the map", "openapi.json"]
    page.focus("#try-id")
    page.keyboard.type("doc-1")
    page.keyboard.press("Enter")
    page.wait_for_selector(".answer li")


def test_axe_finds_nothing_in_light_and_dark_narrow_and_where_there_is_trouble(visit, service):
    page = visit()
    page.wait_for_selector("#epochs-rows tr")
    page.click("summary")
    _search(page, "doc-1")
    _show_map(page, service)
    found = Axe().run(page).response
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
    checked = {one["id"] for one in found["passes"]}
    assert {"color-contrast", "label", "button-name", "svg-img-alt"} <= checked
    trouble = {"healthy": False, "sentence": "The journal cannot be written: the disk is full."}
    bad = visit(before=_with_status(STATUS | trouble))
    assert bad.locator("#sentence.bad").inner_text() == trouble["sentence"]
    bad.wait_for_selector("#recall .message", state="visible")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for shown in (page, bad):
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme=scheme)
            found = Axe().run(shown, options={"runOnly": ["color-contrast"]}).response
            assert [one["html"] for rule in found["violations"] for one in rule["nodes"]] == []
            assert found["passes"], scheme
