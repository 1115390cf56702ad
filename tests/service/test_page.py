"""The page of the service in a real browser, against a real service.

The tests know it by its address, its token and its API alone: its index keeps raw rows of 8
columns, has codes of 64 bits with refinement, and 20,000 rows with the ids doc-0, doc-1, ...
"""

import json
import re
import time

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browsers import started
from service.conftest import TOKEN, Serving
from streambits import StreamIndex

pytestmark = pytest.mark.slow
COLUMNS, ROWS = 8, 20_000
HTML = '<img src=x onerror="document.title=1"><b>bold</b>'
WAYS = ("Hamming distance", "Refined distance", "True distance")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a running service; address: where it is."""
    folder = tmp_path_factory.mktemp("page") / "index"
    rng = np.random.default_rng(0)
    centres = 4 * rng.standard_normal((6, COLUMNS))
    rows = centres[rng.integers(6, size=ROWS)] + rng.standard_normal((ROWS, COLUMNS))
    names = [f"doc-{i}" for i in range(ROWS)]
    with StreamIndex.open(folder, bits=64, refine=8, n_landmarks=100, keep_rows=True) as index:
        index.add(rows[:-500].astype(np.float32), names[:-500])
        index.renew()
        index.add(rows[-500:].astype(np.float32), names[-500:])  # codes of two epochs
    serving = Serving(folder)
    with serving.client() as found:
        found.address = f"{serving.address}/"
        while found.get("/v1/recall")["mean"] is None:  # the first takes long
            time.sleep(0.2)
        yield found
    assert serving.stop() == 0


@pytest.fixture(scope="module")  # no longer: while it runs, other tests cannot call asyncio.run
def browser():
    with started() as running:
        yield running


@pytest.fixture
def visit(browser, client):
    """visit(before): the page, opened; the console and all requests are checked in the end."""
    contexts, messages, requests = [], [], []

    def opened(before=None, quiet=True):
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 900}))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        if quiet:  # a browser writes refused requests to the console itself
            page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        if before is not None:
            before(page)
        page.goto(client.address)
        page.wait_for_selector("#sentence.good, #sentence.bad")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert messages == []
    assert requests, "no page was visited"
    assert [url for url in requests if not url.startswith(client.address)] == []


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


def _show_map(page, token=TOKEN):
    page.fill("#token", token)
    page.click("#token-form button")


def test_every_panel_shows_live_figures_and_an_epoch_change_without_reload(visit, client):
    page = visit()
    page.wait_for_selector("#epochs-rows tr")
    _show_map(page)
    for name in ("recall", "drift", "spectrum", "bits", "epochs", "map"):
        page.wait_for_selector(f"#{name} .content", state="visible")
        assert page.locator(f"#{name} .message").is_hidden(), name
    pulse = page.locator("#figures").inner_text()
    for words in ("Rows", "rows/s", "Lag", "Rejects", "Last commit", "MiB", "Epoch"):
        assert words in pulse
    assert page.locator("#recall-mean").inner_text().endswith("%")
    assert "alarm at 13.8" in page.locator("#drift-chart svg").text_content()
    assert page.locator("#drift-chart .line").first.get_attribute("d").count("L") > 30
    assert page.locator("#bits-chart .bar").count() == 64
    pen = "document.querySelector('canvas').getContext('2d')"
    assert page.evaluate(f"new Set({pen}.getImageData(0, 0, 300, 300).data).size") > 10
    before = page.locator("#figures dd").first.inner_text()
    client.add([[0.5] * COLUMNS], ["another"])
    expect(page.locator("#figures dd").first).not_to_have_text(before)
    page.evaluate("window.same = true")
    epoch = client.renew()
    page.wait_for_selector(f"#epochs-rows tr:has(.badge) >> text=/^{epoch} current/")
    page.wait_for_selector(f"#drift-chart >> text=epoch {epoch}", state="attached")
    page.wait_for_selector(f"#announcer >> text=Epoch {epoch} has begun.", state="attached")
    assert page.evaluate("window.same")


def test_try_it_finds_a_known_neighbour_and_shows_html_in_ids_as_text(visit, client):
    row = np.arange(40.0, 40 + COLUMNS)
    client.add([row, row + 0.01], ["the-row", "its-twin"])
    page = visit()
    _search(page, "the-row")
    found = _answers(page)
    assert tuple(found) == WAYS
    assert all(set(found[way][:2]) == {"the-row", "its-twin"} for way in WAYS)
    words = r"^Of the 10\strue neighbours, Hamming distance finds \d+ and refined .* \d+\.$"
    expect(page.locator("#try-words")).to_have_text(re.compile(words))
    page.fill("#try-k", "3")
    _search(page, json.dumps(row.tolist()), vector=True)
    expect(page.locator(".answer li")).to_have_count(9)
    assert _answers(page)["True distance"][0] == "the-row"
    client.add([-row], [HTML])
    _search(page, HTML)
    assert all(ids[0] == HTML for ids in _answers(page).values())
    assert page.locator(".answer img, .answer b").count() == 0
    assert page.title() == "streambits"


def test_long_ids_are_sent_and_shown_to_the_last_digit(visit):
    sent, number = [], "9007199254740993"  # 2**53 + 1
    body = f'{{"ids": [[{number}]], "distances": [[0]]}}'

    def answer(route):
        sent.append(route.request.post_data)
        route.fulfill(content_type="application/json", body=body)

    page = visit(before=lambda page: page.route("**/v1/search", answer))
    _search(page, number)
    assert all(f'"id": {number},' in body for body in sent)
    assert _answers(page) == {way: [number] for way in WAYS}


def test_what_cannot_be_searched_is_told_in_words(visit):
    page = visit(quiet=False)
    _search(page, "[1, two, 3]", vector=True)
    assert page.locator("#try-words").inner_text() == "Value 2 is two, which is not a number."
    _search(page, "no such id")
    words = page.locator("#try-words").inner_text()
    assert words.startswith("The search was refused: ")
    assert "no such id" in words


def test_the_map_needs_the_token_which_stays_in_the_tab(visit):
    asked = []
    page = visit(
        before=lambda page: page.on("request", lambda one: asked.append((one.url, one.headers))),
        quiet=False,
    )
    page.wait_for_selector("#epochs-rows tr")
    assert not any("/v1/map" in url for url, _ in asked)
    _show_map(page, "wrong")
    page.wait_for_selector("#map .message >> text=The token was refused")
    assert page.evaluate("sessionStorage.length") == 0
    _show_map(page)
    page.wait_for_selector("#map-canvas", state="visible")
    sent = [headers["authorization"] for url, headers in asked if "/v1/map" in url]
    assert sent == ["Bearer wrong", f"Bearer {TOKEN}"]
    stores = "[sessionStorage.length, localStorage.length, document.cookie]"
    assert page.evaluate(stores) == [1, 0, ""]
    assert TOKEN not in page.content()
    page.click("#forget")
    assert page.evaluate("sessionStorage.length") == 0


def test_rows_that_wait_and_trouble_are_told(visit, client):
    facts = {"waiting": 120, "seen": 120, "gathered": 5000}
    facts |= {"healthy": False, "sentence": "The journal cannot be written: the disk is full."}
    status = client.status() | facts

    def before(page):
        page.route("**/v1/events", lambda route: route.fulfill(status=204))
        page.route("**/v1/status", lambda route: route.fulfill(json=status))

    page = visit(before=before)
    assert page.locator("#sentence.bad").inner_text() == facts["sentence"]
    words = page.locator("#gathering").inner_text()
    assert words.startswith("Rows wait for landmarks: 120 of 5,000.")
    _accessible(page)


def test_the_keyboard_and_axe_find_everything_also_in_a_narrow_window(visit):
    page = visit()
    page.wait_for_selector("#epochs-rows tr")
    order = []
    for _ in range(10):
        page.keyboard.press("Tab")
        name, style = page.evaluate(
            "(() => { const e = document.activeElement; return "
            "[e.id || e.innerText || e.value, getComputedStyle(e).outlineStyle]; })()"
        )
        assert style == "solid", name
        order.append(name)
    first = ["Skip to the search", "Settings", "copy", "id", "try-id", "try-k", "Search"]
    assert order == [*first, "token", "Show the map", "openapi.json"]
    page.click("summary")
    _search(page, "doc-1")
    _show_map(page)
    page.wait_for_selector("#map-canvas", state="visible")
    _accessible(page)
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_timeout(1000)  # charts are drawn anew
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def _accessible(page):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page).response
        assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
        assert {"color-contrast", "label"} <= {one["id"] for one in found["passes"]}
