"""The checks of built pages find what they are for."""

import pytest

from tools import links

GOOD = """<html><body><h1 id="top">A</h1><a href="b.html#there">b</a>
<img src="a.png" alt="A picture"></body></html>"""
OTHER = '<html><body><h2 id="there">B</h2><a href="index.html">a</a></body></html>'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "b.html").write_text(OTHER)
    (tmp_path / "a.png").write_bytes(b"")
    return tmp_path


def test_a_good_site_has_nothing_wrong(site):
    assert links.check(site) == []


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ('<a href="c.html">', "the link c.html is dead"),
        ('<a href="b.html#nowhere">', "the link b.html#nowhere is dead"),
        ('<a href="#nowhere">', "the link #nowhere is dead"),
        ('<img src="a.png">', "a picture without a text, a.png"),
        ('<img src="https://example.org/a.png" alt="x">', "loads https://example.org/a.png"),
        ('<script src="//example.org/a.js"></script>', "loads //example.org/a.js"),
        ('<link rel="stylesheet" href="http://example.org/a.css">', "loads http://example.org/"),
    ],
)
def test_what_is_wrong_is_named(site, page, said):
    (site / "b.html").write_text(OTHER + page)
    [wrong] = links.check(site)
    assert wrong.startswith("b.html")
    assert said in wrong


def test_links_to_other_sites_and_to_files_are_fine(site):
    text = OTHER + '<a href="https://example.org/">x</a><a href="a.png">y</a>'
    (site / "b.html").write_text(text)
    assert links.check(site) == []


def test_a_style_sheet_that_loads_is_wrong(site):
    (site / "a.css").write_text("@font-face { src: url(https://example.org/font.woff2) }")
    assert links.check(site) == ["a.css loads something from elsewhere"]


def test_pages_far_from_the_start_are_named(site):
    for number in range(1, 5):
        text = f'<a href="{number + 1}.html">on</a>' if number < 4 else ""
        (site / f"{number}.html").write_text(text)
    (site / "b.html").write_text(OTHER + '<a href="1.html">far</a>')
    assert links.check(site) == [
        "3.html: more than 3 clicks away",
        "4.html: more than 3 clicks away",
    ]
